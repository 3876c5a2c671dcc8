"""A training run as an object: what a step is, what a checkpoint holds, and what a run costs."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from gpt import GPT, Config, generate
from text import Corpus

import stowgrad
from stowgrad.nn.utils import clip_grad_norm_
from stowgrad.offload import save_on_disk
from stowgrad.optim import AdamW
from stowgrad.optim.lr_scheduler import LambdaLR
from stowgrad.profiler import MemoryReport, memory_profile, phase
from stowgrad.saved_tensors import Cast
from stowgrad.utils import load_training_state, save_training_state

# What happens to the values that backward needs. All but bfloat16, which rounds them, train the same model bit for bit.
MODES = {
    "plain": "kept as they are",
    "disk": "kept in a file",
    "bfloat16": "kept with half the bits",
    "checkpointed": "dropped, but for the input of each block, and computed again",
    "combined": "dropped and computed again, the inputs of the blocks kept in a file",
}
# Two runs with the same of these are the same run; the mode is not one of them.
IDENTITY = (
    *("steps", "batch", "seed", "learning_rate"),
    *("layers", "heads", "width", "context", "vocabulary", "dropout"),
)
_WARM_UP = 0.05
_LAST_RATE = 0.1
_VALIDATION_WINDOWS = 64
_PROFILED_STEP = 2  # of those done in this process: by then everything that stays is there


def policy_for(mode: str, directory: str | None) -> AbstractContextManager[Any]:
    """What to enter around a forward pass.

    Raises:
        OSError: if there can be no file in ``directory``.
    """
    if mode in ("disk", "combined"):
        return save_on_disk(directory, staging="8 MiB")
    return Cast("bfloat16") if mode == "bfloat16" else contextlib.nullcontext()


def learning_rate_factor(step: int, steps: int) -> float:
    """Up linearly, then down along a cosine."""
    warm_up = max(1, round(_WARM_UP * steps))
    if step < warm_up:
        return (step + 1) / warm_up
    height = (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up))) / 2
    return _LAST_RATE + (1 - _LAST_RATE) * height


class Training:
    """A run: model, optimizer, learning rate and data, at some step.

    Args:
        options: see ``train_text.py --help``.
        corpus: the text.

    Raises:
        ValueError: for sizes that don't fit together.
        OSError: if the mode needs a file and there can be none.
    """

    def __init__(self, options: Namespace, corpus: Corpus) -> None:
        stowgrad.manual_seed(options.seed)
        self.options = options
        self.corpus = corpus
        self.policy = policy_for(options.mode, options.directory)
        self.model = GPT(
            Config(
                vocabulary=len(corpus.vocabulary),
                context=options.context,
                layers=options.layers,
                heads=options.heads,
                width=options.width,
                dropout=options.dropout,
            )
        ).to(options.device)
        self.model.checkpointed = options.mode in ("checkpointed", "combined")
        matrices = [parameter for parameter in self.model.parameters() if parameter.dim() == 2]
        vectors = [parameter for parameter in self.model.parameters() if parameter.dim() != 2]
        self.optimizer = AdamW(
            [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
            lr=options.learning_rate,
            betas=(0.9, 0.95),
        )
        self.scheduler = LambdaLR(self.optimizer, lambda step: learning_rate_factor(step, options.steps))
        self.step = 0
        self.seconds: list[float] = []
        self.report: MemoryReport | None = None

    # -- steps ---------------------------------------------------------------------------------------------------------

    def train_step(self) -> float:
        """Do the next step and return its loss."""
        options = self.options
        inputs, targets = self.corpus.batch(options.seed, self.step, options.batch, options.context)
        x, y = stowgrad.tensor(inputs, device=options.device), stowgrad.tensor(targets, device=options.device)
        with phase("forward"), self.policy:
            loss = self.model(x, y)
        loss.backward()
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.step += 1
        return float(loss.item())

    def steps(self) -> Iterator[float]:
        """All steps that are left: the loss of each. One of them is profiled, the others are timed."""
        profiled = min(self.step + _PROFILED_STEP, self.options.steps - 1)
        while self.step < self.options.steps:
            if self.step == profiled:
                with memory_profile() as profile:
                    loss = self.train_step()
                self.report = profile.report()
            else:
                start = time.perf_counter()
                loss = self.train_step()
                self.seconds.append(time.perf_counter() - start)
            yield loss

    def validate(self) -> float:
        """The mean loss over the validation text, in nats a token."""
        options = self.options
        total, count = 0.0, 0
        self.model.eval()
        with phase("eval"), stowgrad.no_grad():
            for inputs, targets in self.corpus.validation_batches(options.batch, options.context, _VALIDATION_WINDOWS):
                x, y = stowgrad.tensor(inputs, device=options.device), stowgrad.tensor(targets, device=options.device)
                total += float(self.model(x, y).item()) * targets.size
                count += targets.size
        self.model.train()
        return total / count

    def sample(self, length: int) -> str:
        """A text by the model, from the beginning of a paragraph."""
        start = self.corpus.vocabulary.index("\n")
        generator = stowgrad.Generator().manual_seed(self.options.seed)
        with phase("eval"):
            tokens = generate(self.model, [start], length, temperature=0.7, generator=generator)
        return self.corpus.decode(tokens).strip()

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Write everything that the rest of the run depends on, at once or not at all.

        Raises:
            OSError: if that fails; what was there before is still there.
        """
        extra = {"run": self._identity(), "scheduler": self.scheduler.state_dict()}
        save_training_state(path, model=self.model, optimizer=self.optimizer, step=self.step, extra=extra)

    def resume(self, path: str) -> None:
        """Go on from where `save` was called: all that follows is the same bit for bit.

        Raises:
            ValueError: if the file is damaged, or is no checkpoint of this run.
            OSError: if it can't be read.
        """
        try:
            state = load_training_state(path, model=self.model, optimizer=self.optimizer)
        except RuntimeError as error:  # another model
            raise ValueError(str(error)) from error
        saved = state.extra.get("run", {})
        differences = [
            f"{name} {saved.get(name)}, not {value}"
            for name, value in self._identity().items()
            if saved.get(name) != value
        ]
        if differences:
            raise ValueError(f"{path}: this is a checkpoint of another run, with {'; '.join(differences)}")
        self.scheduler.load_state_dict(state.extra["scheduler"])
        self.step = state.step

    def _identity(self) -> dict[str, Any]:
        named = {name: getattr(self.options, name) for name in IDENTITY}
        return {**named, "text": self.corpus.fingerprint}

    # -- figures -------------------------------------------------------------------------------------------------------

    def checksum(self) -> int:
        """Of all parameters: the same number, the same model bit for bit."""
        result = 0
        for parameter in self.model.parameters():
            result = zlib.crc32(parameter.numpy(force=True).tobytes(), result)
        return result

    def figures(self) -> dict[str, Any]:
        """What the run cost so far; sizes in bytes, None where nothing was measured."""
        report, boundary = self.report, self.report and self.report.boundary
        device = self.options.device
        return {
            "mode": self.options.mode,
            "steps": self.step,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "forward_peak_bytes": report and report.peak_bytes("forward", device),
            "backward_peak_bytes": boundary and boundary.backward_peak_bytes,
            "saved_raw_bytes": boundary and boundary.saved_raw_bytes,
            "saved_resident_bytes": boundary and boundary.saved_resident_bytes,
            "seconds_per_step": statistics.median(self.seconds) if self.seconds else None,
            "checksum": self.checksum(),
        }
