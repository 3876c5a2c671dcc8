"""Forward and backward of single ops beside PyTorch, at three sizes, in fresh alternating processes.

    python benchmarks/op_table.py [--rounds N] [--only TEXT] [--json FILE] [--all]

Prints the geometric mean of the ratios at each size, the ten worst, and what is above the limits; `--all` prints every
op. A ratio below 1 means that stowgrad is faster. The ops are in op_cases.py.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import emit
from op_cases import CASES, SIZES, Case
from run import child

SECONDS_A_CASE = 0.12
FEWEST, MOST = 5, 400
MEAN_TARGET, WORST_LARGE, NAMED_ABOVE = 1.2, 5.0, 2.0

Times = dict[str, dict[str, float | str]]  # case -> size -> seconds, or why there are none


def seconds_of(step: Callable[[], Any]) -> float:
    """The median time of a step, after one that doesn't count."""
    step()
    times: list[float] = []
    end = time.perf_counter() + SECONDS_A_CASE
    while len(times) < FEWEST or (time.perf_counter() < end and len(times) < MOST):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def step_of(library: Any, case: Case, size: str) -> Callable[[], Any]:
    """Forward, and the gradients of all inputs of floats for a gradient of ones."""
    functional = library.nn.functional
    tensors = [library.from_numpy(np.array(array)) for array in case.inputs(size)]
    leaves = [tensor.requires_grad_() for tensor in tensors if tensor.is_floating_point()]
    seed = library.ones(case.call(library, functional, *tensors).shape)
    dtype = case.call(library, functional, *tensors).dtype
    seed = seed.to(dtype)

    def step() -> None:
        library.autograd.grad(case.call(library, functional, *tensors), leaves, seed, allow_unused=True)

    return step


def measure(library_name: str, only: str) -> Times:
    """The times of one process."""
    library = importlib.import_module(library_name)
    found: Times = {}
    for case in CASES:
        if only not in case.name:
            continue
        found[case.name] = {}
        for size in SIZES:
            try:
                found[case.name][size] = seconds_of(step_of(library, case, size))
            except (AttributeError, NotImplementedError) as error:
                found[case.name][size] = f"{type(error).__name__}: {error}"
    return found


def medians(rows: list[Times]) -> Times:
    """Over processes."""
    return {
        name: {
            size: value if isinstance(value, str) else statistics.median(float(row[name][size]) for row in rows)
            for size, value in sizes.items()
        }
        for name, sizes in rows[0].items()
    }


def report(ours: Times, theirs: Times, everything: bool) -> str:
    """The table, the means, the worst, and the targets."""
    ratios: dict[tuple[str, str], float] = {}
    missing = []
    for name, sizes in ours.items():
        for size, value in sizes.items():
            other = theirs[name][size]
            if isinstance(value, str) or isinstance(other, str):
                missing.append(f"{name}, {size}: {value if isinstance(value, str) else other}")
            else:
                ratios[name, size] = value / other

    def row(name: str, size: str) -> str:
        mine, other = float(ours[name][size]) * 1e6, float(theirs[name][size]) * 1e6
        return f"| {name} | {size} | {mine:.1f} | {other:.1f} | {ratios[name, size]:.2f} |"

    head = ["| op | size | stowgrad µs | PyTorch µs | x PyTorch |", "|---|---|---|---|---|"]
    worst = sorted(ratios, key=lambda key: -ratios[key])
    shown = list(ratios) if everything else worst[:10]
    lines = [*head, *(row(*key) for key in shown), ""]
    for size in SIZES:
        of_size = [ratio for (_, found), ratio in ratios.items() if found == size]
        if of_size:
            lines.append(
                f"geometric mean, {size}: {statistics.geometric_mean(of_size):.2f} x PyTorch ({len(of_size)} ops)"
            )
    mean = statistics.geometric_mean(ratios.values())
    lines.append(f"target geometric mean <= {MEAN_TARGET}: {mean:.2f}, {'met' if mean <= MEAN_TARGET else 'MISSED'}")
    large = {name: ratio for (name, size), ratio in ratios.items() if size == "large"}
    over = [name for name, ratio in large.items() if ratio > WORST_LARGE]
    lines.append(f"target nothing large above {WORST_LARGE:.0f} x: {', '.join(over) + ' MISSED' if over else 'met'}")
    named = sorted((name for name, ratio in large.items() if ratio > NAMED_ABOVE), key=lambda name: -large[name])
    lines.append(f"large and above {NAMED_ABOVE:.0f} x: " + (", ".join(f"{n} {large[n]:.1f}" for n in named) or "none"))
    return "\n".join([*lines, *(f"not measured: {text}" for text in missing)])


def main() -> int:
    """Run the rounds and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library (default 3)")
    parser.add_argument("--only", default="", metavar="TEXT", help="ops whose name contains this")
    parser.add_argument("--all", action="store_true", help="print every op, not only the worst")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every process's row to FILE")
    parser.add_argument("--one", metavar="LIBRARY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        emit(measure(options.one, options.only))
        return 0
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: there is nothing to compare with")
        return 1
    rows: dict[str, list[Times]] = {"stowgrad": [], "torch": []}
    for number in range(options.rounds):
        for library, found in rows.items():
            print(f"round {number + 1} of {options.rounds}: {library}", file=sys.stderr, flush=True)
            found.append(child([__file__, "--one", library, "--only", options.only]))
    print(report(medians(rows["stowgrad"]), medians(rows["torch"]), options.all))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
