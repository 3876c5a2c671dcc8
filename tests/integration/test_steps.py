"""Training steps of a GPT in every mode: the same bits where the mode is exact, and memory that goes nowhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import stowgrad
from stowgrad.checkpoint import checkpoint
from stowgrad.memory import memory_allocated, pool
from stowgrad.offload import save_on_cpu, save_on_disk
from stowgrad.saved_tensors import Cast, Compress

from .gpt import Sizes, batch, build, gradients

SIZES = Sizes(layers=2, width=64, heads=2, batch=2, context=32, vocabulary=128, dropout=0.1)


class Mode(NamedTuple):
    """How a step is run.

    Attributes:
        policy: makes the context of the forward pass, from a directory.
        region: what each block is called through, or None.
        device: where.
        exact: whether the result has the bits of plain.
    """

    policy: Callable[[Path], Any] = lambda directory: contextlib.nullcontext()
    region: Any = None
    device: str = "cpu"
    exact: bool = True


def disk(directory: Path) -> Any:
    return save_on_disk(directory, min_bytes=0, staging="256 KiB")


MODES = {
    "plain": Mode(),
    "disk": Mode(disk),
    "compressed": Mode(lambda directory: Compress(min_bytes=0)),
    "compressed on disk": Mode(lambda directory: Compress("zstd", min_bytes=0) | disk(directory)),
    "bfloat16": Mode(lambda directory: Cast("bfloat16", min_bytes=0), exact=False),
    "checkpointed": Mode(region=checkpoint),
    "checkpointed, disk": Mode(disk, region=checkpoint),
    "checkpointed, bfloat16 on disk": Mode(
        lambda directory: Cast("bfloat16", min_bytes=0) | disk(directory), region=checkpoint, exact=False
    ),
    "sim": Mode(device="sim:0"),
    "sim, save_on_cpu": Mode(lambda directory: save_on_cpu(), device="sim:0"),
    "sim, checkpointed, save_on_cpu": Mode(lambda directory: save_on_cpu(), region=checkpoint, device="sim:0"),
}


def memory_of(training: Training) -> list[int]:
    """The bytes on both devices when nothing is under way in the background."""
    if hasattr(training.policy, "synchronize"):
        training.policy.synchronize()
    return [memory_allocated(device) for device in ("cpu", "sim:0")]


class Training:
    """A model, its optimizer and steps of one mode."""

    def __init__(self, mode: Mode, directory: Path, sizes: Sizes = SIZES) -> None:
        stowgrad.manual_seed(11)
        self.policy = mode.policy(directory)
        self.model = build(stowgrad, sizes, mode.region).to(mode.device)
        self.optimizer = stowgrad.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.batch = [stowgrad.from_numpy(part).to(mode.device) for part in batch(sizes)]

    def forward(self) -> Any:
        with self.policy:
            return self.model(*self.batch)

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        stowgrad.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.item())


def trained(mode: Mode, directory: Path) -> tuple[list[float], dict[str, bytes]]:
    training = Training(mode, directory)
    losses = [training.step() for _ in range(3)]
    return losses, {name: value.tobytes() for name, value in gradients(training.model).items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], dict[str, bytes]]:
    return trained(MODES["plain"], tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("name", [name for name, mode in MODES.items() if mode.exact and name != "plain"])
def test_exact_modes_give_the_bits_of_plain(name: str, plain: Any, tmp_path: Path):
    assert trained(MODES[name], tmp_path) == plain


@pytest.mark.parametrize("name", [name for name, mode in MODES.items() if not mode.exact])
def test_lossy_modes_start_with_the_loss_of_plain_and_learn(name: str, plain: Any, tmp_path: Path):
    losses, _ = trained(MODES[name], tmp_path)
    assert losses[0] == plain[0][0]
    assert losses[-1] == pytest.approx(plain[0][-1], rel=0.02)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", MODES)
def test_memory_is_the_same_after_every_step(name: str, tmp_path: Path, no_collector: None, one_thread: None):
    mode = MODES[name]
    training = Training(mode, tmp_path)
    training.step()  # makes gradients and optimizer states
    devices = ("cpu", "sim:0")
    memory_of(training)
    expected = [pool(device).bytes_by_category() for device in devices]
    for number in range(5):
        training.step()
        memory_of(training)
        assert [pool(device).bytes_by_category() for device in devices] == expected, f"step {number}"
    assert os.listdir(tmp_path) == []
    if hasattr(training.policy, "statistics"):
        assert training.policy.statistics().live_count == 0
        assert training.policy.statistics().count > 0


@pytest.mark.parametrize("name", MODES)
def test_a_graph_that_is_dropped_frees_what_it_saved(name: str, tmp_path: Path, no_collector: None, one_thread: None):
    mode = MODES[name]
    training = Training(mode, tmp_path)
    before = memory_of(training)
    loss = training.forward()
    kept = memory_allocated(mode.device) - before[mode.device != "cpu"] - loss.nbytes
    if hasattr(training.policy, "statistics"):
        assert training.policy.statistics().live_count > 0
    else:
        assert kept > 0
    del loss
    assert memory_of(training) == before


def test_modes_lower_the_peak(tmp_path: Path, one_thread: None, memprof: Any):
    def peak(name: str) -> int:
        training = Training(MODES[name], tmp_path, Sizes(6, 64, 2, batch=4, context=64, vocabulary=64))
        training.step()
        with memprof(name) as scope:
            training.step()
        return int(scope.peak_bytes)

    peaks = {name: peak(name) for name in ("plain", "disk", "bfloat16", "checkpointed", "checkpointed, disk")}
    assert peaks["disk"] < 0.6 * peaks["plain"], peaks
    assert peaks["bfloat16"] < 0.8 * peaks["plain"], peaks
    assert peaks["checkpointed"] < 0.9 * peaks["plain"], peaks
    # What is on its way to the file is still in memory: up to the staging.
    assert peaks["checkpointed, disk"] <= peaks["checkpointed"] + (256 << 10), peaks


def _failing_step(training: Training, where: str) -> None:
    calls = iter(range(100))

    def fail(*args: Any) -> None:
        if next(calls) == 1:
            raise ArithmeticError("in the middle")

    block = training.model.blocks[1]
    if where == "forward":
        handle = block.register_forward_pre_hook(lambda *args: fail() or fail())
        try:
            training.forward()
        finally:
            handle.remove()
    else:
        loss = training.forward()
        handle = block.fc.weight.register_hook(lambda grad: fail() or fail())
        try:
            loss.backward()
        finally:
            handle.remove()


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("name", MODES)
def test_an_exception_leaves_nothing_and_the_next_step_is_right(
    name: str, where: str, tmp_path: Path, no_collector: None, one_thread: None
):
    mode = MODES[name]
    training = Training(mode, tmp_path)
    training.step()
    training.optimizer.zero_grad()
    before = memory_of(training)
    with pytest.raises(ArithmeticError, match="in the middle") as caught:
        _failing_step(training, where)
    stowgrad.utils.clear_frames(caught.value)
    training.optimizer.zero_grad()
    assert memory_of(training) == before
    assert os.listdir(tmp_path) == []
    state = stowgrad.get_rng_state()
    loss = training.forward()
    stowgrad.set_rng_state(state)
    training.policy = contextlib.nullcontext()
    assert loss.item() == training.forward().item()


def test_a_chain_of_a_hundred_thousand_nodes(no_collector: None, one_thread: None):
    before = memory_allocated()
    x = stowgrad.tensor([0.5, 1.0], requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.00001
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1.00001**100_000, rtol=1e-2)
    del y
    for _ in range(2):  # this one is freed without a pass
        y = x
        for _ in range(100_000):
            y = y.sin()
    del y
    del x
    assert memory_allocated() == before
