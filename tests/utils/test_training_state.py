"""A resumed training run is the run that was never interrupted, and no wrong file passes for its state."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim, utils
from stowgrad.utils.serialization import load_metadata


class Run:
    """A small model with dropout, so that parameters, optimizer and random numbers all matter."""

    def __init__(self, width: int = 8, dtype: Any = None, momentum: float | None = None) -> None:
        stowgrad.manual_seed(1)
        self.model = nn.Sequential(
            nn.Linear(4, width, dtype=dtype), nn.GELU(), nn.Dropout(0.3), nn.Linear(width, 2, dtype=dtype)
        )
        self.model.register_buffer("seen", stowgrad.zeros(1))
        params = self.model.parameters()
        self.optimizer: optim.Optimizer
        if momentum is None:
            self.optimizer = optim.AdamW(params, lr=0.05, betas=(0.8, 0.95))
        else:
            self.optimizer = optim.SGD(params, lr=0.05, momentum=momentum)

    def train(self, steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            x = stowgrad.randn(16, 4)
            loss = nn.functional.mse_loss(self.model(x), x[:, :2])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        self.model.seen.add_(steps)
        return losses

    def values(self) -> list[bytes]:
        state = self.optimizer.state_dict()["state"]
        tensors = [*self.model.state_dict().values(), *(s[name] for s in state.values() for name in sorted(s))]
        return [t.numpy().tobytes() for t in tensors]


@pytest.mark.parametrize("momentum", [None, 0.9, 0.0])
def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path: Path, momentum: float | None):
    path = tmp_path / "state.safetensors"
    run = Run(momentum=momentum)
    run.train(3)
    extra = {"position": 17, "best": 0.1 + 0.2, "nested": {"list": [1, None, "ä"]}}
    utils.save_training_state(path, model=run.model, optimizer=run.optimizer, step=3, extra=extra)
    expected = run.train(3)
    other = Run(momentum=momentum)
    stowgrad.manual_seed(99)
    state = utils.load_training_state(path, model=other.model, optimizer=other.optimizer)
    assert state.step == 3
    assert state.extra == extra
    assert other.train(3) == expected
    assert other.values() == run.values()
    assert os.listdir(tmp_path) == ["state.safetensors"]


def test_settings_come_back_with_their_types(tmp_path: Path):
    run = Run()
    run.optimizer.param_groups[0]["lr"] = 1 / 3
    utils.save_training_state(tmp_path / "x", model=run.model, optimizer=run.optimizer)
    other = Run()
    utils.load_training_state(tmp_path / "x", model=other.model, optimizer=other.optimizer)
    assert other.optimizer.param_groups[0]["lr"] == 1 / 3
    assert other.optimizer.param_groups[0]["betas"] == (0.8, 0.95)


def test_model_alone_and_random_state_on_request(tmp_path: Path):
    run = Run()
    utils.save_training_state(tmp_path / "x", model=run.model, random_state=stowgrad.Generator().get_state())
    before = stowgrad.get_rng_state().numpy().tolist()
    state = utils.load_training_state(tmp_path / "x", model=Run().model, restore_random_state=False)
    stowgrad.manual_seed(1)
    assert state.random_state.numpy().tolist() == [0, 0]
    assert before != [0, 0]
    with pytest.raises(ValueError, match="saved without one"):
        utils.load_training_state(tmp_path / "x", model=run.model, optimizer=run.optimizer)


def test_a_training_state_is_a_plain_safetensors_file(tmp_path: Path):
    run = Run()
    run.train(1)
    utils.save_training_state(tmp_path / "x", model=run.model, optimizer=run.optimizer)
    tensors = utils.load_file(tmp_path / "x")
    assert {"model.0.weight", "model.seen", "optimizer.0.exp_avg", "optimizer.3.step", "random_state"} <= set(tensors)
    metadata = load_metadata(tmp_path / "x")
    assert metadata["format"] == "stowgrad.training_state"
    assert json.loads(metadata["state"])["step"] == 0


def test_loading_takes_little_more_than_the_state_itself(tmp_path: Path):
    run = Run(width=100_000)
    run.train(1)
    utils.save_training_state(tmp_path / "x", model=run.model, optimizer=run.optimizer)
    other = Run(width=100_000)
    cpu = stowgrad.memory.pool("cpu")
    largest = 4 * 4 * 100_000
    states = 2 * sum(p.nbytes for p in other.model.parameters())
    with cpu.peak_scope() as scope:
        utils.load_training_state(tmp_path / "x", model=other.model, optimizer=other.optimizer)
    assert scope.peak_bytes - scope.begin_bytes < states + 2.5 * largest


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    run = Run()
    run.train(2)
    path = tmp_path / "state.safetensors"
    utils.save_training_state(path, model=run.model, optimizer=run.optimizer, step=2)
    return path


def refused(path: Path, run: Run, error: type[Exception], text: str, optimizer: bool = True) -> None:
    run.train(1)
    before, groups = run.values(), repr(run.optimizer)
    random_state = stowgrad.get_rng_state().numpy().tolist()
    with pytest.raises(error, match=text):
        utils.load_training_state(path, model=run.model, optimizer=run.optimizer if optimizer else None)
    assert run.values() == before
    assert repr(run.optimizer) == groups
    assert stowgrad.get_rng_state().numpy().tolist() == random_state


def test_every_flipped_bit_is_noticed(saved: Path):
    content = bytearray(saved.read_bytes())
    run = Run()
    for position in range(0, len(content), 211):
        content[position] ^= 0x10
        saved.write_bytes(content)
        with pytest.raises((ValueError, RuntimeError), match=r"state\.safetensors"):
            utils.load_training_state(saved, model=run.model, optimizer=run.optimizer)
        content[position] ^= 0x10
    assert not dict(run.optimizer.state)


def test_damage_in_the_values_names_the_tensor(saved: Path):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    refused(
        saved, Run(), ValueError, r"state\.safetensors: the training state is damaged: the checksum of '.*' is wrong"
    )


def test_a_truncated_file(saved: Path):
    saved.write_bytes(saved.read_bytes()[:-5])
    refused(saved, Run(), ValueError, "expected a complete safetensors file")


def test_a_foreign_file(tmp_path: Path):
    utils.save_file({"a": stowgrad.ones(1)}, tmp_path / "x")
    refused(tmp_path / "x", Run(), ValueError, "expected a training state .* without a format")
    utils.save_file({"a": stowgrad.ones(1)}, tmp_path / "x", {"format": "pt"})
    refused(tmp_path / "x", Run(), ValueError, "of the format 'pt'")


def test_another_version(saved: Path):
    metadata = load_metadata(saved)
    utils.save_file(utils.load_file(saved), saved, {**metadata, "version": "7"})
    refused(saved, Run(), ValueError, "expected version 1 of a training state, got 7")


def test_missing_tensors(saved: Path):
    tensors = utils.load_file(saved)
    del tensors["model.seen"]
    utils.save_file(tensors, saved, load_metadata(saved))
    refused(saved, Run(), ValueError, "not those that its header lists")


def test_another_model(saved: Path):
    wide = Run(width=9)
    wide.model.register_buffer("other", stowgrad.ones(1))
    del wide.model.seen
    with pytest.raises(RuntimeError) as error:
        utils.load_training_state(saved, model=wide.model, optimizer=wide.optimizer)
    text = str(error.value)
    assert "model.other: missing in the file" in text
    assert "model.seen: not in the model" in text
    assert "model.0.weight: the file has [8, 4] float32, the model has [9, 4] float32" in text
    double = Run(dtype=stowgrad.float64)
    with pytest.raises(RuntimeError, match=r"the file has .* float32, the model has .* float64"):
        utils.load_training_state(saved, model=double.model)


def test_another_optimizer(saved: Path):
    run = Run()
    run.optimizer.add_param_group({"params": nn.Parameter(stowgrad.ones(1))})
    refused(saved, run, ValueError, r"state\.safetensors: loaded state dict has a different number of parameter groups")


def test_values_that_json_lacks_leave_the_old_file(saved: Path):
    before = saved.read_bytes()
    run = Run()
    with pytest.raises(TypeError, match="not JSON serializable"):
        utils.save_training_state(saved, model=run.model, extra={"object": object()})
    assert saved.read_bytes() == before


def test_a_limit_without_room_changes_nothing(saved: Path):
    run = Run()
    cpu = stowgrad.memory.pool("cpu")
    gc.collect()  # the pool would, before it gives up, and so find room
    cpu.free_all_blocks()
    cpu.set_limit(cpu.held_bytes() + 256)
    before = run.values()
    try:
        with pytest.raises(stowgrad.memory.MemoryBudgetError):
            utils.load_training_state(saved, model=run.model, optimizer=run.optimizer)
    finally:
        cpu.set_limit(None)
    assert run.values() == before


KILLED = """
import sys, stowgrad
from stowgrad import nn, utils
model = nn.Linear(300, 300)
step = 0
while True:
    step += 1
    with stowgrad.no_grad():
        for p in model.parameters():
            p.fill_(float(step))
    utils.save_training_state(sys.argv[1], model=model, step=step)
    print(step, flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path):
    path = tmp_path / "state.safetensors"
    model = nn.Linear(300, 300)
    for reads in (2, 4, 7):
        command = [sys.executable, "-c", KILLED, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            for _ in range(reads):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        state = utils.load_training_state(path, model=model)
        assert state.step >= reads
        assert np.unique(model.weight.detach().numpy()).tolist() == [state.step]


def test_checksums_are_crc32(saved: Path):
    state = json.loads(load_metadata(saved)["state"])
    value = utils.load_file(saved)["model.0.bias"].numpy()
    assert state["checksums"]["model.0.bias"] == zlib.crc32(value.tobytes())
