"""The heat equation on 512 x 512 points, 200 explicit steps, and the gradient of sum(u**2) with respect to the start.

    python benchmarks/heat.py [--rounds N] [--forms roll slice nonlinear] [--json FILE]

Three ways of writing a step: `roll` (periodic, four rolls), `slice` (the border stays, the interior by slices) and
`nonlinear` (roll, and a reaction term, so that the state of every step has to be kept). Each library runs in fresh
processes, in turn; the floor is the adjoint written by hand in NumPy. Gradients are compared with the floor's.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import ResidentGrowth, emit
from run import MIB, child

SIZE, STEPS, REPEATS = 512, 200, 5
C, DT = np.float32(0.2), np.float32(0.01)
FORMS = ("roll", "slice", "nonlinear")
LIBRARIES = {"numpy": "NumPy by hand", "stowgrad": "stowgrad", "torch": "PyTorch", "autograd": "HIPS autograd"}
FIELD = SIZE * SIZE * 4
# What the formulas keep: the last state for the loss; for `nonlinear` also both factors of every step's product.
KEPT_BYTES = {"roll": FIELD, "slice": FIELD, "nonlinear": (2 * STEPS + 1) * FIELD}
TIME_TARGET, MEMORY_SLACK = 1.5, 20_000_000

Gradient = Callable[[np.ndarray], np.ndarray]


def start() -> np.ndarray:
    """The first state."""
    return np.random.default_rng(0).uniform(0, 1, (SIZE, SIZE)).astype(np.float32)


# -- the floor: NumPy by hand -----------------------------------------------------------------------------------------


def _roll_step(u: np.ndarray, out: np.ndarray, scratch: np.ndarray) -> None:
    """``out = u + C * laplacian(u)``, periodic; its adjoint is the same."""
    np.multiply(u, np.float32(-4.0), out=scratch)
    scratch[1:] += u[:-1]
    scratch[0] += u[-1]
    scratch[:-1] += u[1:]
    scratch[-1] += u[0]
    scratch[:, 1:] += u[:, :-1]
    scratch[:, 0] += u[:, -1]
    scratch[:, :-1] += u[:, 1:]
    scratch[:, -1] += u[:, 0]
    np.multiply(scratch, C, out=scratch)
    np.add(u, scratch, out=out)


def _roll_by_hand(u: np.ndarray) -> np.ndarray:
    u, out, scratch = u.copy(), np.empty_like(u), np.empty_like(u)
    for _ in range(STEPS):
        _roll_step(u, out, scratch)
        u, out = out, u
    g = np.multiply(u, np.float32(2.0))
    for _ in range(STEPS):
        _roll_step(g, out, scratch)
        g, out = out, g
    return g


def _slice_by_hand(u: np.ndarray) -> np.ndarray:
    inner = (slice(1, -1), slice(1, -1))
    u, out = u.copy(), np.empty_like(u)
    sums = np.empty((SIZE - 2, SIZE - 2), np.float32)
    for _ in range(STEPS):
        np.add(u[:-2, 1:-1], u[2:, 1:-1], out=sums)
        sums += u[1:-1, :-2]
        sums += u[1:-1, 2:]
        sums *= C
        out[...] = u
        out[inner] *= np.float32(1.0) - np.float32(4.0) * C
        out[inner] += sums
        u, out = out, u
    g = np.multiply(u, np.float32(2.0))
    for _ in range(STEPS):
        np.multiply(g[inner], C, out=sums)
        g[inner] *= np.float32(1.0) - np.float32(4.0) * C
        g[:-2, 1:-1] += sums
        g[2:, 1:-1] += sums
        g[1:-1, :-2] += sums
        g[1:-1, 2:] += sums
    return g


def _nonlinear_by_hand(u: np.ndarray) -> np.ndarray:
    states = np.empty((STEPS + 1, SIZE, SIZE), np.float32)
    states[0] = u
    scratch, reaction = np.empty_like(u), np.empty_like(u)
    for number in range(STEPS):
        u, out = states[number], states[number + 1]
        _roll_step(u, out, scratch)
        np.subtract(np.float32(1.0), u, out=reaction)
        reaction *= u
        reaction *= DT
        out += reaction
    g, out = np.multiply(states[-1], np.float32(2.0)), np.empty_like(scratch)
    for number in range(STEPS - 1, -1, -1):
        _roll_step(g, out, scratch)
        np.multiply(states[number], np.float32(-2.0), out=reaction)
        reaction += np.float32(1.0)
        reaction *= g
        reaction *= DT
        out += reaction
        g, out = out, g
    return g


def numpy_gradient(form: str) -> Gradient:
    """The adjoint by hand."""
    return {"roll": _roll_by_hand, "slice": _slice_by_hand, "nonlinear": _nonlinear_by_hand}[form]


# -- the libraries ----------------------------------------------------------------------------------------------------


def stepper(form: str, roll: Callable[..., Any]) -> Callable[[Any], Any]:
    """A step as one writes it with tensors."""
    c, dt = float(C), float(DT)

    def periodic(u: Any) -> Any:
        return u + c * (roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4.0 * u)

    def by_slices(u: Any) -> Any:
        out = u.clone()
        out[1:-1, 1:-1] += c * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
        return out

    def with_reaction(u: Any) -> Any:
        return periodic(u) + dt * u * (1.0 - u)

    return {"roll": periodic, "slice": by_slices, "nonlinear": with_reaction}[form]


def tensor_gradient(library: Any, form: str) -> Gradient:
    """The gradient by a library with PyTorch's names."""
    step = stepper(form, library.roll)

    def gradient(array: np.ndarray) -> np.ndarray:
        u0 = u = library.from_numpy(array).requires_grad_()
        for _ in range(STEPS):
            u = step(u)
        (u * u).sum().backward()
        found: np.ndarray = u0.grad.numpy()
        return found

    return gradient


def autograd_gradient(form: str) -> Gradient:
    """The gradient by HIPS autograd, which has no writing in place."""
    import autograd.numpy as anp

    import autograd

    step = stepper(form, anp.roll)
    if form == "slice":

        def step(u: Any) -> Any:
            inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
            return u + anp.pad(float(C) * inner, 1, "constant")

    def loss(u: Any) -> Any:
        for _ in range(STEPS):
            u = step(u)
        return anp.sum(u * u)

    found: Gradient = autograd.grad(loss)
    return found


def gradient_of(library: str, form: str) -> Gradient:
    """How a library computes the gradient."""
    if library == "numpy":
        return numpy_gradient(form)
    if library == "autograd":
        return autograd_gradient(form)
    return tensor_gradient(importlib.import_module(library), form)


def measure(library: str, form: str) -> dict[str, Any]:
    """The row of one process: the first run counts for memory, those after it for time."""
    gradient, u = gradient_of(library, form), start()
    growth = ResidentGrowth()
    seconds = []
    for _ in range(REPEATS + 1):
        begin = time.perf_counter()
        found = gradient(u)
        seconds.append(time.perf_counter() - begin)
    peak = growth.peak()  # before the floor computes here what to compare with
    expected = numpy_gradient(form)(u).astype(np.float64)
    far = float(np.abs(found - expected).max() / np.abs(expected).max())
    return {"seconds": statistics.median(seconds[1:]), "peak_growth_bytes": peak, "far": far}


# -- the table --------------------------------------------------------------------------------------------------------


def report(rows: dict[tuple[str, str], list[dict[str, Any]]], forms: list[str]) -> str:
    """The table, and the targets."""
    lines = [
        "| form | library | s | x NumPy by hand | x PyTorch | peak growth MiB | kept by the formula MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    verdicts = []

    def median(library: str, form: str, key: str) -> float | None:
        found = rows.get((library, form))
        return statistics.median(row[key] for row in found) if found else None

    for form in forms:
        floor, torch = median("numpy", form, "seconds"), median("torch", form, "seconds")
        for library, label in LIBRARIES.items():
            seconds, growth = median(library, form, "seconds"), median(library, form, "peak_growth_bytes")
            if seconds is None or growth is None or floor is None:
                lines.append(f"| {form} | {label} | not installed | | | | |")
                continue
            beside = "-" if torch is None else f"{seconds / torch:.2f}"
            cells = (
                f"{seconds:.3f} | {seconds / floor:.2f} | {beside} | {growth / MIB:.0f} | {KEPT_BYTES[form] / MIB:.0f}"
            )
            lines.append(f"| {form} | {label} | {cells} |")
            if library == "stowgrad":
                fast, small = seconds / floor <= TIME_TARGET, growth <= KEPT_BYTES[form] + MEMORY_SLACK
                above = (growth - KEPT_BYTES[form]) / 1e6
                verdicts.append(
                    f"target {form}: time <= {TIME_TARGET} x NumPy by hand: {seconds / floor:.2f},"
                    f" {'met' if fast else 'MISSED'}; growth <= kept + 20 MB: {above:.0f} MB above,"
                    f" {'met' if small else 'MISSED'}"
                )
    far = max(row["far"] for found in rows.values() for row in found)
    return "\n".join([*lines, "", *verdicts, f"gradients {far:.1e} from the floor's at most (of the largest element)"])


def main() -> int:
    """Run the rounds and print the table; 1 if gradients disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind (default 3)")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every process's row to FILE")
    parser.add_argument("--one", nargs=2, metavar=("LIBRARY", "FORM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        emit(measure(*options.one))
        return 0
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for form in options.forms:
            for library in LIBRARIES:
                if importlib.util.find_spec(library) is None:
                    continue
                print(f"  {library} {form}", file=sys.stderr, flush=True)
                rows.setdefault((library, form), []).append(child([__file__, "--one", library, form]))
    print(report(rows, options.forms))
    if options.json:
        options.json.write_text(json.dumps({" ".join(key): found for key, found in rows.items()}, indent=1))
    return 0 if all(row["far"] < 1e-4 for found in rows.values() for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
