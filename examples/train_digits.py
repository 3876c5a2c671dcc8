"""Train a small residual network on the handwritten digits that scikit-learn carries, to over 98 % of unseen ones.

Needs scikit-learn, ``pip install ".[digits]"`` in the checkout. With ``--checkpoint``, a run that was killed goes on
from there, in the middle of an epoch, and ends with the same model bit for bit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from progress import Progress
from residual_network import ResidualNetwork, moved

import stowgrad
from stowgrad import nn
from stowgrad.nn import functional as F
from stowgrad.optim import AdamW
from stowgrad.optim.lr_scheduler import OneCycleLR
from stowgrad.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from stowgrad.utils import load_training_state, save_training_state
from stowgrad.utils.data import DataLoader, TensorDataset, random_split

Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
_USAGE = 2
_TEST_SHARE = 0.2
_SMOOTHING = 0.1
_AVERAGE = 0.95  # how much of the averaged weights is kept at each step


def load_digits() -> Arrays:
    """1797 images, ``(N, 8, 8)`` from 0 to 1, and the digits that they show.

    Raises:
        ImportError: if scikit-learn is not installed; says how to install it.
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("the digits come with scikit-learn: pip install scikit-learn") from error
    digits = datasets.load_digits()
    return digits.images / 16, digits.target


class Training:
    """A run: everything that a checkpoint has to hold, and how far it is.

    Args:
        options: see ``train_digits.py --help``.
        images, classes: all samples; a fifth of them is kept for the test.
    """

    def __init__(
        self, options: argparse.Namespace, images: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]
    ) -> None:
        stowgrad.manual_seed(options.seed)
        self.options = options
        whole = TensorDataset(
            stowgrad.tensor(images[:, None], dtype=stowgrad.float32), stowgrad.tensor(classes, dtype=stowgrad.int64)
        )
        tested = round(_TEST_SHARE * len(whole))
        parts = random_split(whole, [len(whole) - tested, tested], stowgrad.Generator().manual_seed(0))
        self.loader = DataLoader(parts[0], options.batch, shuffle=True, drop_last=True, num_workers=1, collate_fn=moved)
        self.tested: Any = parts[1]
        self.model = ResidualNetwork(int(classes.max()) + 1, options.width)
        self.optimizer = AdamW(self.model.parameters(), lr=options.learning_rate, weight_decay=0.05)
        self.total = options.epochs * len(self.loader)
        self.scheduler = OneCycleLR(self.optimizer, options.learning_rate, total_steps=self.total + 1)
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(_AVERAGE))
        self.step = 0

    @property
    def parts(self) -> dict[str, Any]:
        """What the rest of a run depends on besides model and optimizer."""
        return {"scheduler": self.scheduler, "loader": self.loader, "average": self.average}

    def run(self) -> None:
        """Do all steps that are left."""
        every, path = self.options.checkpoint_every, self.options.checkpoint
        with Progress("digits", self.total, self.options.quiet) as progress:
            while self.step < self.total:
                for images, classes in self.loader:
                    loss = self.train_step(images, classes)
                    progress.update(self.step, f"loss {loss:.4f}")
                    if path and (self.step % every == 0 or self.step == self.total):
                        self.save(path)

    def train_step(self, images: stowgrad.Tensor, classes: stowgrad.Tensor) -> float:
        """Do a step and return its loss."""
        loss = F.cross_entropy(self.model(images), classes, label_smoothing=_SMOOTHING)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.average.update_parameters(self.model)
        self.step += 1
        return float(loss.item())

    def save(self, path: str) -> None:
        """Write a checkpoint, whole or not at all."""
        save_training_state(
            path,
            model=self.model,
            optimizer=self.optimizer,
            step=self.step,
            extra={"run": self._identity()},
            parts=self.parts,
        )

    def resume(self, path: str) -> None:
        """Go on from a checkpoint: all that follows is the same bit for bit.

        Raises:
            ValueError: if the file is damaged, or is no checkpoint of this run.
            OSError: if it can't be read.
        """
        try:
            state = load_training_state(path, model=self.model, optimizer=self.optimizer, parts=self.parts)
        except RuntimeError as error:  # another model
            raise ValueError(str(error)) from error
        if state.extra.get("run") != self._identity():
            raise ValueError(f"{path}: this is a checkpoint of another run, {state.extra.get('run')}")
        self.step = state.step

    def _identity(self) -> dict[str, Any]:
        names = ("epochs", "batch", "width", "learning_rate", "seed")
        return {name: getattr(self.options, name) for name in names}

    def accuracy(self, model: nn.Module) -> float:
        """The share of test images whose digit a model finds."""
        right = 0
        model.eval()
        with stowgrad.no_grad():
            for images, classes in DataLoader(self.tested, 256):
                right += int((model(images).argmax(1) == classes).sum().item())
        model.train()
        return right / len(self.tested)

    def checksum(self) -> int:
        """Of model and average: the same number, the same ones bit for bit."""
        result = 0
        for model in (self.model, self.average):
            for tensor in model.state_dict().values():
                result = zlib.crc32(tensor.numpy(force=True).tobytes(), result)
        return result


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="Train a small residual network on scikit-learn's digits.")
    run = parser.add_argument_group("the run: two runs with the same of these train the same model")
    run.add_argument("--epochs", type=int, default=12, metavar="N")
    run.add_argument("--batch", type=int, default=64, metavar="N")
    run.add_argument("--width", type=int, default=16, metavar="N", help="channels of the first layer (16)")
    run.add_argument("--learning-rate", type=float, default=0.01, metavar="X", help="the highest (0.01)")
    run.add_argument("--seed", type=int, default=0, metavar="N")
    saved = parser.add_argument_group("checkpoints")
    saved.add_argument("--checkpoint", metavar="FILE", help="write checkpoints there, and go on from one that is there")
    saved.add_argument("--checkpoint-every", type=int, default=50, metavar="N", help="steps between two (50)")
    parser.add_argument("--quiet", action="store_true", help="print the last line and errors only")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Train and test; 0, or 2 if something is not installed or wrong in the arguments."""
    options = parse_arguments(argv)
    start = time.perf_counter()
    try:
        training = Training(options, *load_digits())
        if options.checkpoint and os.path.exists(options.checkpoint):
            training.resume(options.checkpoint)
    except (ImportError, OSError, ValueError) as error:
        print(f"train_digits: error: {error}", file=sys.stderr)
        return _USAGE
    training.run()
    averaged, last = (100 * training.accuracy(model) for model in (training.average, training.model))
    print(
        f"{averaged:.2f} % of {len(training.tested)} test images right, {last:.2f} % without averaging;"
        f" {time.perf_counter() - start:.1f} s; checksum {training.checksum():08x}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
