"""Checkpointing a GPT of 12 blocks, 768 wide, on 4 x 512 tokens: what is kept, peak and time, beside PyTorch's.

    python benchmarks/checkpointing.py [--rounds N] [--steps N] [--modes none every ...] [--tiny] [--json FILE]

Modes: `none`; `every` block; every `second` block; `selective` (every block, keeping the results of matrix products);
`nested` (four blocks in a region, each a region of its own). A step is forward and backward, without an optimizer. Each
library and mode runs in fresh processes, in turn. Peak growth is that of the resident set in the first step, less the
gradients' own bytes; what is kept is what the graph holds after forward besides parameters. On two cores a round takes
five to six minutes.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from gpt_inputs import TINY, Config, batches
from harness import ResidentGrowth, emit
from run import HERE, LOSS_TOLERANCE, MIB, child, ratio

MODES = ("none", "every", "second", "selective", "nested")
CONFIG = Config(layers=12, width=768, heads=12, batch=4, context=512)
GROUP = 4
LIBRARIES = {"stowgrad": "stowgrad", "torch": "PyTorch"}
FIGURES = ("seconds", "peak_growth_bytes", "saved_bytes")


class Setup:
    """A model of one library, with some of its blocks checkpointed."""

    def __init__(self, library: str, mode: str, config: Config) -> None:
        self.lib = importlib.import_module(library)
        self.module = importlib.import_module(f"{library}_gpt")
        self.checkpoint = importlib.import_module(f"{library}.utils.checkpoint")
        self.model = self.module.GPT(config)
        self.module.load_weights(self.model, config)
        blocks = self.model.blocks
        if mode == "nested":
            forwards = [functools.partial(type(block).forward, block) for block in blocks]
            for number, block in enumerate(blocks):
                group = forwards[number : number + GROUP]
                block.forward = self._group(group) if number % GROUP == 0 else lambda x: x
        elif mode != "none":
            for number, block in enumerate(blocks):
                if mode != "second" or number % 2 == 0:
                    block.forward = self._region(functools.partial(type(block).forward, block), mode == "selective")

        # What a first call imports (80 MiB in PyTorch) is not to count as growth.
        self._region(lambda x: x * x, mode == "selective")(self.lib.ones(2, requires_grad=True)).sum().backward()

    def _region(self, function: Any, selective: bool) -> Any:
        options: dict[str, Any] = {"use_reentrant": False}
        if selective:
            contexts = self.checkpoint.create_selective_checkpoint_contexts
            options["context_fn"] = functools.partial(contexts, self._products())
        return lambda x: self.checkpoint.checkpoint(function, x, **options)

    def _products(self) -> Any:
        if self.lib.__name__ == "stowgrad":
            return importlib.import_module("stowgrad.checkpoint").keep_matrix_products
        aten = self.lib.ops.aten
        return [aten.mm.default, aten.addmm.default, aten._scaled_dot_product_flash_attention_for_cpu.default]

    def _group(self, forwards: list[Any]) -> Any:
        regions = [self._region(forward, False) for forward in forwards]

        def group(x: Any) -> Any:
            for region in regions:
                x = region(x)
            return x

        return self._region(group, False)

    def loss(self, inputs: np.ndarray, targets: np.ndarray) -> Any:
        """The loss of a batch."""
        return self.model(self.lib.from_numpy(inputs), self.lib.from_numpy(targets))

    def step(self, inputs: np.ndarray, targets: np.ndarray) -> float:
        """Forward and backward."""
        for parameter in self.model.parameters():
            parameter.grad = None
        loss = self.loss(inputs, targets)
        loss.backward()
        return float(loss.item())

    def saved_bytes(self, inputs: np.ndarray, targets: np.ndarray) -> int:
        """What the graph keeps after forward: distinct storages other than the parameters'."""
        lib = self.lib
        if lib.__name__ == "stowgrad":
            before = lib.memory.memory_allocated()
            loss = self.loss(inputs, targets)
            return int(lib.memory.memory_allocated() - before - loss._array.nbytes)
        own = {parameter.untyped_storage().data_ptr() for parameter in self.model.parameters()}
        found: dict[int, int] = {}

        def pack(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with lib.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
            loss = self.loss(inputs, targets)
        del loss
        return sum(found.values())


def measure(library: str, mode: str, config: Config, steps: int) -> dict[str, Any]:
    """The row of one process: a first step for the peak, then timed ones, then a forward for what is kept."""
    setup = Setup(library, mode, config)
    gradients = sum(parameter.numel() * 4 for parameter in setup.model.parameters())
    data = batches(config)
    growth = ResidentGrowth()
    losses = [setup.step(*next(data))]
    peak = growth.peak()
    seconds = []
    for _ in range(steps):
        batch = next(data)
        begin = time.perf_counter()
        losses.append(setup.step(*batch))
        seconds.append(time.perf_counter() - begin)
    return {
        "seconds": statistics.median(seconds),
        "peak_growth_bytes": None if peak is None else peak - gradients,
        "saved_bytes": setup.saved_bytes(*next(data)),
        "losses": losses,
    }


Rows = dict[tuple[str, str], list[dict[str, Any]]]


def median(rows: Rows, library: str, mode: str, key: str) -> float | None:
    """Of one figure over the rounds; None where it was not measured."""
    values = [row[key] for row in rows.get((library, mode), []) if row[key] is not None]
    return statistics.median(values) if values else None


def table(rows: Rows, modes: list[str]) -> list[str]:
    """Lines of the table: a mode of both libraries under each other."""
    lines = [
        "| mode | library | s a step | min-max | x PyTorch | x its own none | kept MiB | peak growth MiB | x PyTorch |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for mode in modes:
        for library, label in LIBRARIES.items():
            if (library, mode) not in rows:
                continue
            seconds, growth, kept = (median(rows, library, mode, key) for key in FIGURES)
            spread = [row["seconds"] for row in rows[library, mode]]
            cells = [
                mode, label, f"{seconds:.3f}", f"{min(spread):.3f}-{max(spread):.3f}",
                ratio(seconds, median(rows, "torch", mode, "seconds")),
                ratio(seconds, median(rows, library, "none", "seconds")),
                mebibytes(kept), mebibytes(growth),
                ratio(growth, median(rows, "torch", mode, "peak_growth_bytes")),
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def mebibytes(size: float | None) -> str:
    """A cell."""
    return "-" if size is None else f"{size / MIB:.0f}"


def targets(rows: Rows) -> list[str]:
    """stowgrad's figures beside the project's targets, as far as they were measured."""
    wanted = (
        ("every block / PyTorch without checkpoints, time", "none", "seconds", 1.0),
        ("every block / PyTorch's every block, peak growth", "every", "peak_growth_bytes", 0.5),
    )
    lines = []
    for name, mode, key, limit in wanted:
        ours, theirs = median(rows, "stowgrad", "every", key), median(rows, "torch", mode, key)
        if ours is not None and theirs:
            met = "met" if ours / theirs <= limit else "MISSED"
            lines.append(f"target {name} <= {limit}: {ours / theirs:.2f}, {met}")
    return lines


def losses_apart(rows: Rows) -> float:
    """How far losses of all processes are apart at most, relative."""
    found = np.array([row["losses"] for several in rows.values() for row in several])
    return float(((found.max(0) - found.min(0)) / found.min(0)).max())


def main() -> int:
    """Run the rounds and print the table; 1 if losses disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=2, help="processes of each kind (default 2)")
    parser.add_argument("--steps", type=int, default=2, help="timed steps of each process (default 2)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--tiny", action="store_true", help="a toy size, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every process's row to FILE")
    parser.add_argument("--one", nargs=2, metavar=("LIBRARY", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        emit(measure(*options.one, TINY if options.tiny else CONFIG, options.steps))
        return 0
    rows: Rows = {}
    size = ["--steps", str(options.steps), *(["--tiny"] if options.tiny else [])]
    for number in range(options.rounds):
        for mode in options.modes:
            for library in LIBRARIES:
                if importlib.util.find_spec(library) is None:
                    continue
                print(f"round {number + 1} of {options.rounds}: {library}, {mode}", file=sys.stderr, flush=True)
                rows.setdefault((library, mode), []).append(child([__file__, "--one", library, mode, *size]))
    apart = losses_apart(rows)
    agree = "agree" if apart <= LOSS_TOLERANCE else "DO NOT AGREE"
    machine = [f"{name}: {value}" for name, value in child([str(HERE / "run.py"), "--facts"]).items()]
    losses = f"losses of all processes {agree}: {apart:.1e} apart at most (relative)"
    print("\n".join([*machine, "", *table(rows, options.modes), "", losses, *targets(rows)]))
    if options.json:
        options.json.write_text(json.dumps({" ".join(key): found for key, found in rows.items()}, indent=1))
    return 0 if apart <= LOSS_TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
