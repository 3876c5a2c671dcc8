"""Train a small GPT on English text, in bounded memory: ``python examples/train_text.py --help``.

The modes differ in what happens to the values that backward needs. All but bfloat16 give the same model bit for bit.
A run that was killed goes on from its last checkpoint and ends with the same model too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from progress import Progress
from text import build_corpus
from training import MODES, Training

import stowgrad
from stowgrad.memory import MemoryBudgetError, as_device, format_size

_FAILED, _USAGE, _INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the arguments say; the exit code is 0, 1 for a failure on the way, or 2 for something wrong in them."""
    options = parse_arguments(argv)
    try:
        training = prepare(options)
    except (OSError, ValueError, ImportError, MemoryBudgetError) as error:
        return _fail(error, _USAGE)
    try:
        train(training)
    except KeyboardInterrupt:
        return _fail(f"interrupted after step {training.step}{_way_on(options)}", _INTERRUPTED)
    except (OSError, MemoryBudgetError) as error:
        return _fail(f"after step {training.step}: {error}{_way_on(options)}", _FAILED)
    return 0


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, checked one by one."""
    parser = argparse.ArgumentParser(
        description="Train a small GPT on the manual that every Python carries.",
        epilog="Modes: " + "; ".join(f"{mode}: {text}" for mode, text in MODES.items()) + ".",
    )
    parser.add_argument("--mode", choices=MODES, default="plain", help="what happens to the values for backward")
    parser.add_argument("--directory", metavar="DIR", help="for the file of the modes disk and combined")
    parser.add_argument("--text", metavar="FILE", help="train on this text instead, in UTF-8")
    run = parser.add_argument_group("the run: two runs with the same of these train the same model")
    run.add_argument("--steps", type=_count, default=300, metavar="N")
    run.add_argument("--batch", type=_count, default=8, metavar="N", help="windows of text a step (8)")
    run.add_argument("--seed", type=_seed, default=0, metavar="N")
    run.add_argument("--learning-rate", type=_rate, default=4e-3, metavar="X", help="the highest (0.004)")
    run.add_argument("--layers", type=_count, default=4, metavar="N")
    run.add_argument("--heads", type=_count, default=4, metavar="N")
    run.add_argument("--width", type=_count, default=128, metavar="N")
    run.add_argument("--context", type=_count, default=128, metavar="N", help="tokens of a window (128)")
    run.add_argument("--vocabulary", type=_count, default=1024, metavar="N", help="different tokens (1024)")
    run.add_argument("--dropout", type=_probability, default=0.1, metavar="P")
    saved = parser.add_argument_group("checkpoints")
    saved.add_argument("--checkpoint", metavar="FILE", help="write checkpoints there")
    saved.add_argument("--checkpoint-every", type=_count, default=50, metavar="N", help="steps between two (50)")
    saved.add_argument("--resume", metavar="FILE", help="go on from a checkpoint of the same run, in any mode")
    where = parser.add_argument_group("where and how")
    where.add_argument("--device", type=_device, default="cpu", help="cpu, sim:0, cuda:0, ...")
    where.add_argument("--threads", type=_count, metavar="N", help="at most; by default as many as processors")
    where.add_argument("--sample", type=int, default=120, metavar="N", help="tokens of text to write at the end (120)")
    where.add_argument("--quiet", action="store_true", help="print nothing but errors")
    where.add_argument("--json", metavar="FILE", help="write the figures of the run there")
    return parser.parse_args(argv)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from None


def _rate(text: str) -> float:
    if not 0 < _number(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, got {text!r}")
    return float(text)


def _probability(text: str) -> float:
    if not 0 <= _number(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a probability below 1, got {text!r}")
    return float(text)


def _device(text: str) -> str:
    try:
        device = as_device(text)
    except (ValueError, RuntimeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if device.type == "meta":
        raise argparse.ArgumentTypeError("expected a device that computes, got 'meta'")
    return str(device)


def prepare(options: argparse.Namespace) -> Training:
    """Everything before the first step, files that will be written included: what is wrong shows now.

    Raises:
        OSError, ValueError, ImportError, MemoryBudgetError: saying what is wrong.
    """
    if options.checkpoint and os.path.exists(options.checkpoint) and not _same_file(options):
        raise FileExistsError(
            f"{options.checkpoint} is there already: go on from it with --resume {options.checkpoint}, or remove it"
        )
    if options.json:
        with open(options.json, "a", encoding="utf-8"):
            pass
    if options.threads:
        stowgrad.set_num_threads(options.threads)
    training = Training(options, build_corpus(options.vocabulary, options.context, _read_text(options.text)))
    if options.resume:
        training.resume(options.resume)
    if options.checkpoint:
        training.save(options.checkpoint)
    return training


def _read_text(path: str | None) -> str | None:
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}") from error


def _same_file(options: argparse.Namespace) -> bool:
    return bool(options.resume and os.path.realpath(options.resume) == os.path.realpath(options.checkpoint))


def train(training: Training) -> None:
    """Do the steps that are left, and say what came out."""
    options = training.options
    loss = None
    with Progress(options.mode, options.steps, options.quiet) as progress:
        for loss in training.steps():
            progress.update(training.step, f"loss {loss:.3f}")
            done = training.step == options.steps
            if options.checkpoint and (done or training.step % options.checkpoint_every == 0):
                training.save(options.checkpoint)
    figures = {**training.figures(), "training_loss": loss, "validation_loss": training.validate()}
    if not options.quiet:
        _print_figures(figures, training)
        if options.sample > 0:
            print(f"\nA text by the model:\n\n{training.sample(options.sample)}\n", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _print_figures(figures: dict[str, Any], training: Training) -> None:
    loss, characters = figures["validation_loss"], training.corpus.characters
    print(f"{figures['parameters']:,} parameters, {figures['steps']} steps, mode {figures['mode']}")
    print(f"validation loss  {loss:.6f} nats a token, {loss / characters / 0.6931471805599453:.3f} bits a character")
    for name, text in (
        ("forward_peak_bytes", "forward peak"),
        ("backward_peak_bytes", "backward peak"),
        ("saved_raw_bytes", "saved, as tensors"),
        ("saved_resident_bytes", "saved, in memory"),
    ):
        if figures[name] is not None:
            print(f"{text:<17}  {format_size(figures[name])}")
    if figures["seconds_per_step"] is not None:
        print(f"a step takes     {figures['seconds_per_step']:.3f} s")


def _way_on(options: argparse.Namespace) -> str:
    return f"; go on from the last checkpoint with --resume {options.checkpoint}" if options.checkpoint else ""


def _fail(what: object, code: int) -> int:
    print(f"train_text: error: {what}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
