"""The same small GPT trained with AdamW, with 8 bits of state, and with updates during backward: ``--help``.

A table shows what each costs in validation loss and saves in memory. The batches are small, so that weights, gradients
and state are most of that. Ends with exit code 1 if updates during backward do not end with the model of plain ones.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpt import GPT, Config
from progress import Progress
from text import Corpus, build_corpus

import stowgrad
from stowgrad.memory import format_size
from stowgrad.optim import AdamW, AdamW8bit, Optimizer, in_backward
from stowgrad.optim.lr_scheduler import OneCycleLR
from stowgrad.profiler import memory_profile

# What to optimize with, and whether during backward.
METHODS: dict[str, tuple[Callable[..., Optimizer], bool]] = {
    "AdamW": (AdamW, False),
    "AdamW in backward": (AdamW, True),
    "AdamW8bit": (AdamW8bit, False),
    "AdamW8bit in backward": (AdamW8bit, True),
}
CATEGORIES = ("parameter", "gradient", "optimizer_state", "activation")
_CONTEXT = 32
_BATCH = 4
_VALIDATION_WINDOWS = 128


@dataclass(frozen=True)
class Outcome:
    """What a run came to: nats a token, and the bytes of its highest moment by category."""

    loss: float
    checksum: int
    peak: int
    by_category: dict[str, int]


def train(method: str, seed: int, corpus: Corpus, options: argparse.Namespace) -> Outcome:
    """One run."""
    stowgrad.manual_seed(seed)
    model = GPT(Config(len(corpus.vocabulary), _CONTEXT, layers=2, heads=4, width=options.width, dropout=0.0))
    kind, during_backward = METHODS[method]
    optimizer = kind(model.parameters(), lr=options.learning_rate, weight_decay=0.1)
    scheduler = OneCycleLR(optimizer, options.learning_rate, total_steps=options.steps + 1)
    if during_backward:
        in_backward(optimizer)

    def step(number: int) -> float:
        x, y = (stowgrad.tensor(part) for part in corpus.batch(seed, number, _BATCH, _CONTEXT))
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        return float(loss.item())

    with Progress(f"{method}, seed {seed}", options.steps, options.quiet) as progress:
        for number in range(options.steps - 1):
            progress.update(number + 1, f"loss {step(number):.3f}")
        with memory_profile() as profile:  # the last step: what it needs is what every step but the first does
            last = step(options.steps - 1)
        progress.update(options.steps, f"loss {last:.3f}")
    peak = profile.report().peak
    return Outcome(validation_loss(model, corpus), checksum(model), peak.nbytes, dict(peak.by_category))


def validation_loss(model: GPT, corpus: Corpus) -> float:
    """The mean over the validation text, in nats a token."""
    total, count = 0.0, 0
    model.eval()
    with stowgrad.no_grad():
        for inputs, targets in corpus.validation_batches(32, _CONTEXT, _VALIDATION_WINDOWS):
            total += float(model(stowgrad.tensor(inputs), stowgrad.tensor(targets)).item()) * targets.size
            count += targets.size
    return total / count


def checksum(model: GPT) -> int:
    """Of all parameters: the same number, the same model bit for bit."""
    result = 0
    for parameter in model.parameters():
        result = zlib.crc32(parameter.numpy(force=True).tobytes(), result)
    return result


def table(outcomes: dict[str, list[Outcome]]) -> list[str]:
    """One line a method: losses of all seeds, then the first seed's peak and what was live at it."""
    seeds = range(len(next(iter(outcomes.values()))))
    rows = [("", *[f"loss, seed {seed}" for seed in seeds], "mean", "peak", *CATEGORIES, "rest")]
    for method, runs in outcomes.items():
        first = runs[0]
        shown = [first.by_category.get(name, 0) for name in CATEGORIES]
        sizes = [first.peak, *shown, first.peak - sum(shown)]
        losses = [run.loss for run in runs]
        figures = [f"{loss:.5f}" for loss in (*losses, sum(losses) / len(losses))]
        rows.append((method, *figures, *[format_size(size) for size in sizes]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(w) if at == 0 else text.rjust(w) for at, (text, w) in enumerate(zip(row, widths)))
        for row in rows
    ]


def differing(outcomes: dict[str, list[Outcome]]) -> list[str]:
    """The methods with updates during backward that did not end with the model of plain updates."""
    wrong = []
    for method, runs in outcomes.items():
        plain = outcomes.get(method.removesuffix(" in backward"), runs)
        if [run.checksum for run in runs] != [run.checksum for run in plain]:
            wrong.append(method)
    return wrong


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description="Train a small GPT with optimizers that save memory, and compare them."
    )
    parser.add_argument("--steps", type=int, default=300, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how many runs with each (3)")
    parser.add_argument("--width", type=int, default=256, metavar="N")
    parser.add_argument("--learning-rate", type=float, default=4e-3, metavar="X", help="the highest (0.004)")
    parser.add_argument("--text", metavar="FILE", help="train on this text instead of Python's manual, in UTF-8")
    parser.add_argument("--quiet", action="store_true", help="print nothing but the table and errors")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything and print the table; 0 if all is as it should be."""
    options = parse_arguments(argv)
    text: Any = None
    if options.text:
        with open(options.text, encoding="utf-8") as file:
            text = file.read()
    corpus = build_corpus(512, _CONTEXT, text)
    outcomes: dict[str, list[Outcome]] = {}
    for method in METHODS:
        outcomes[method] = [train(method, seed, corpus, options) for seed in range(options.seeds)]
    print("\n".join(table(outcomes)))
    wrong = differing(outcomes)
    if wrong:
        print(f"compare_optimizers: error: not the same model as plain updates: {', '.join(wrong)}", file=sys.stderr)
        return 1
    print("Updates during backward end with the same parameters as plain ones, bit for bit.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
