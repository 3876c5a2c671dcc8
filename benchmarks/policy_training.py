"""The demo's GPT trained to the end under each storage policy: what it learns, beside what it learns without one.

    python benchmarks/policy_training.py [--steps N] [--seeds N] [--policies disk bfloat16 ...] [--json FILE]

Every policy takes every value that it can, however small, so that all of them have something to do in a small model.
The exact ones must end with the parameters of plain training and have the same loss at every step, bit for bit; of the
lossy ones the validation loss is shown beside plain training's, for each seed. Everything runs in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import train_text  # noqa: E402  # the two paths come first
from text import build_corpus  # noqa: E402
from training import Training  # noqa: E402

from stowgrad.offload import Offload  # noqa: E402
from stowgrad.saved_tensors import Cast, Compress, Quantize  # noqa: E402

Make = Callable[[], AbstractContextManager[Any]]
SIZES = ["--layers", "2", "--heads", "4", "--width", "64", "--context", "64", "--batch", "8", "--vocabulary", "512"]


def policies(directory: str) -> tuple[dict[str, Make], dict[str, Make]]:
    """How each policy is made, by name: the exact ones, and the lossy ones."""

    def disk(staging: int | str = "64 MiB") -> Any:
        return Offload("disk", directory=directory, min_bytes=0, staging=staging)

    exact: dict[str, Make] = {
        "compress": lambda: Compress(min_bytes=0),
        "compress, zstd": lambda: Compress("zstd", min_bytes=0),
        "disk": disk,
        "disk, one transfer at a time": lambda: disk(staging=0),
        "compress, then disk": lambda: Compress(min_bytes=0) | disk(),
        "cpu, from sim:0": lambda: Offload("cpu"),
        "compress, cpu, then disk, from sim:0": lambda: Compress(min_bytes=0) | Offload("cpu") | disk(),
    }
    lossy: dict[str, Make] = {
        "bfloat16": lambda: Cast("bfloat16", min_bytes=0),
        "float16": lambda: Cast("float16", scaled=True, min_bytes=0),
        "int8": lambda: Quantize(8, min_bytes=0),
        "int4": lambda: Quantize(4, min_bytes=0),
        "bfloat16, then disk": lambda: Cast("bfloat16", min_bytes=0) | disk(),
    }
    return exact, lossy


def train(name: str, make: Make, seed: int, steps: int, corpus: Any) -> dict[str, Any]:
    """One run: its losses, the validation loss at the end, and a checksum of the parameters."""
    device = "sim:0" if name.endswith("sim:0") else "cpu"
    arguments = [*SIZES, "--steps", str(steps), "--seed", str(seed), "--device", device]
    training = Training(train_text.parse_arguments(arguments), corpus)
    training.policy = make()
    begin = time.perf_counter()
    losses = [training.train_step() for _ in range(steps)]
    seconds = time.perf_counter() - begin
    row = {"losses": losses, "seconds": seconds, "loss": training.validate(), "checksum": training.checksum()}
    if name != "plain":
        figures: Any = training.policy
        kept = figures.statistics()
        row |= {"packed": kept.count, "raw_bytes": kept.raw_bytes, "stored_bytes": sum(kept.where.values())}
    return row


def is_same(row: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether two runs are the same bit for bit."""
    return all(row[name] == plain[name] for name in ("losses", "loss", "checksum"))


def table(runs: dict[str, list[dict[str, Any]]], exact: dict[str, Make]) -> tuple[list[str], bool]:
    """The lines of the table, and whether the exact policies were exact."""
    plain, good = runs["plain"], True
    lines = [
        "| policy | validation loss by seed | beside plain | packed | to | as plain |",
        "|---|---|---|---|---|---|",
    ]
    for name, rows in runs.items():
        losses = ", ".join(f"{row['loss']:.6f}" for row in rows)
        if name == "plain":
            lines.append(f"| plain | {losses} | | | | |")
            continue
        apart = ", ".join(f"{row['loss'] - other['loss']:+.6f}" for row, other in zip(rows, plain))
        same = all(is_same(row, other) for row, other in zip(rows, plain))
        packed = statistics.mean(row["packed"] / len(row["losses"]) for row in rows)
        raw, stored = (sum(row[key] for row in rows) for key in ("raw_bytes", "stored_bytes"))
        verdict = "bit for bit" if same else ("no" if name in exact else "lossy")
        good = good and (same or name not in exact)
        lines.append(f"| {name} | {losses} | {apart} | {packed:.0f} a step | {stored / max(raw, 1):.0%} | {verdict} |")
    return lines, good


def main() -> int:
    """Train under every policy with every seed; 1 when an exact policy wasn't exact."""
    exact, lossy = policies(tempfile.gettempdir())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=300, help="of each run (300)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each policy (3)")
    names = [*exact, *lossy]
    parser.add_argument("--policies", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    options = parser.parse_args()
    sizes = train_text.parse_arguments(SIZES)
    corpus = build_corpus(sizes.vocabulary, sizes.context, None)
    made: dict[str, Make] = {"plain": contextlib.nullcontext}
    made |= {name: make for name, make in (exact | lossy).items() if name in options.policies}
    runs: dict[str, list[dict[str, Any]]] = {}
    for name, make in made.items():
        runs[name] = []
        for seed in range(options.seeds):
            runs[name].append(train(name, make, seed, options.steps, corpus))
            row = runs[name][-1]
            print(f"{name}, seed {seed}: {row['loss']:.6f} after {row['seconds']:.1f} s", file=sys.stderr, flush=True)
    lines, good = table(runs, exact)
    print("\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
