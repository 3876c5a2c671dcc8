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
from stowgrad.saved_tensors import Quantize
from stowgrad.utils import data as data_sets
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


# -- all else that a run depends on ------------------------------------------------------------------------------------


class Whole:
    """A run with a schedule, a shuffled loader with worker threads, a gradient scaler, an average, a generator."""

    def __init__(self) -> None:
        stowgrad.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(4, 80), nn.BatchNorm1d(80), nn.ReLU(), nn.Dropout(0.2), nn.Linear(80, 2))
        self.optimizer = optim.AdamW8bit(self.model.parameters(), lr=0.01, min_8bit_size=100)
        self.generator = stowgrad.Generator().manual_seed(4)
        data = data_sets.TensorDataset(stowgrad.linspace(-1, 1, 44).reshape(11, 4))
        warm_up = optim.lr_scheduler.LinearLR(self.optimizer, 0.1, total_iters=3)
        steps = optim.lr_scheduler.MultiStepLR(self.optimizer, [2, 5])
        self.average = optim.swa_utils.AveragedModel(self.model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
        self.parts: dict[str, Any] = {
            "scheduler": optim.lr_scheduler.SequentialLR(self.optimizer, [warm_up, steps], [3]),
            "loader": data_sets.DataLoader(data, 3, shuffle=True, num_workers=2),
            "scaler": stowgrad.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=3),
            "average": self.average,
            "noise": self.generator,
        }
        self.step = 0

    def train(self, until: int, save_at: int = -1, path: Path = Path()) -> list[float]:
        losses = []
        scaler, scheduler, loader = (self.parts[name] for name in ("scaler", "scheduler", "loader"))
        while self.step < until:
            for (x,) in loader:
                noise = stowgrad.randn(*x.shape, generator=self.generator)
                loss = nn.functional.mse_loss(self.model(x + 0.1 * noise), x[:, :2])
                self.optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(self.optimizer)
                scaler.update()
                scheduler.step()
                self.average.update_parameters(self.model)
                losses.append(loss.item())
                self.step += 1
                if self.step == save_at:
                    self.save(path)
                if self.step == until:
                    break
        return losses

    def save(self, path: Path) -> None:
        utils.save_training_state(path, model=self.model, optimizer=self.optimizer, step=self.step, parts=self.parts)

    def load(self, path: Path) -> None:
        state = utils.load_training_state(path, model=self.model, optimizer=self.optimizer, parts=self.parts)
        self.step = state.step

    def values(self) -> dict[str, bytes]:
        state = self.optimizer.state_dict()["state"]
        values = {f"{n}.{name}": value for n, values in state.items() for name, value in values.items()}
        values.update(self.model.state_dict())
        values.update({f"average.{name}": value for name, value in self.average.state_dict().items()})
        values["noise"] = self.generator.get_state()
        found = {name: value.numpy().tobytes() for name, value in values.items()}
        for name in ("scheduler", "scaler"):
            found[name] = repr(self.parts[name].state_dict()).encode()
        return found


@pytest.mark.parametrize("at", [1, 4, 6, 9])  # in the first epoch of four batches, at its end, in later ones
def test_all_parts_of_a_run_go_on_bit_for_bit(tmp_path: Path, at: int):
    run = Whole()
    expected = run.train(14, at, tmp_path / "x")
    other = Whole()
    stowgrad.manual_seed(99)
    other.train(3)
    other.load(tmp_path / "x")
    assert other.train(14) == expected[at:]
    assert other.values() == run.values()


def test_parts_that_refuse_leave_everything_as_it_was(tmp_path: Path):
    run = Whole()
    run.train(5)
    run.save(tmp_path / "x")
    other = Whole()
    other.train(2)
    before = other.values()
    position = other.parts["loader"].state_dict()

    class Refuses:
        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: Any) -> None:
            raise ValueError("not mine")

    other.parts["scaler"] = Refuses()
    with pytest.raises(ValueError, match="not mine"):
        other.load(tmp_path / "x")
    del before["scaler"]
    after = other.values()
    del after["scaler"]
    assert after == before
    assert other.parts["loader"].state_dict() == position


def test_parts_that_are_not_there(tmp_path: Path):
    run = Whole()
    run.save(tmp_path / "x")
    with pytest.raises(ValueError, match="it has no part 'other'"):
        utils.load_training_state(tmp_path / "x", model=run.model, parts={"other": run.generator})
    with pytest.raises(RuntimeError, match=r"the saved parts.average is not this one:\n\tparts.average"):
        utils.load_training_state(tmp_path / "x", model=run.model, parts={"average": nn.Linear(2, 2)})
    with pytest.raises(TypeError, match=r"parts.odd.what: object is not JSON serializable"):
        odd = type("Odd", (), {"state_dict": lambda self: {"what": object()}})()
        utils.save_training_state(tmp_path / "y", model=run.model, parts={"odd": odd})
    assert os.listdir(tmp_path) == ["x"]


def test_states_of_any_form_come_back(tmp_path: Path):
    class Holder:
        state: Any = None

        def state_dict(self) -> Any:
            return self.state

        def load_state_dict(self, state: Any) -> None:
            self.state = state

    one, two = Holder(), Holder()
    one.state = {
        "keys": {1: "a", None: 2.5, "$odd": True, "plain": [None, (1, "x")]},
        "numbers": [float("inf"), np.float32(0.5), np.int64(3), -0.0],
        "tensors": [stowgrad.arange(3), {"a.b": stowgrad.ones(2), "a": {"b": stowgrad.zeros(1)}}],
    }
    model = nn.Linear(1, 1)
    utils.save_training_state(tmp_path / "x", model=model, parts={"holder": one})
    utils.load_training_state(tmp_path / "x", model=model, parts={"holder": two})
    assert two.state["keys"] == one.state["keys"]
    assert repr(two.state["numbers"]) == "[inf, 0.5, 3, -0.0]"
    assert repr(two.state["tensors"]) == repr(one.state["tensors"])


def test_random_rounding_of_saved_values_goes_on(tmp_path: Path):
    def made() -> tuple[Any, Any, Any]:
        stowgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
        return model, optim.SGD(model.parameters(), lr=0.1), Quantize(bits=4, min_bytes=0)

    x = stowgrad.linspace(-1, 1, 64 * 64).reshape(64, 64)

    def step(model: Any, optimizer: Any, policy: Any) -> float:
        with policy:
            loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    model, optimizer, policy = made()
    step(model, optimizer, policy)
    utils.save_training_state(tmp_path / "x", model=model, optimizer=optimizer, parts={"rounding": policy})
    expected = [step(model, optimizer, policy) for _ in range(3)]
    for parts in (["rounding"], []):
        model, optimizer, policy = made()
        given = dict.fromkeys(parts, policy)
        utils.load_training_state(tmp_path / "x", model=model, optimizer=optimizer, parts=given)
        found = [step(model, optimizer, policy) for _ in range(3)]
        assert (found == expected) == bool(parts)  # without its numbers it rounds as at the start again


def test_lbfgs_goes_on(tmp_path: Path):
    def made() -> tuple[Any, Any]:
        stowgrad.manual_seed(0)
        model = nn.Linear(3, 1)
        return model, optim.LBFGS(model.parameters(), max_iter=3)

    x = stowgrad.linspace(-1, 1, 12).reshape(4, 3)

    def step(model: Any, optimizer: Any) -> float:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 4).sum()
            loss.backward()
            return loss

        return float(optimizer.step(closure).item())

    model, optimizer = made()
    step(model, optimizer)
    utils.save_training_state(tmp_path / "x", model=model, optimizer=optimizer)
    expected = [step(model, optimizer) for _ in range(2)]
    model, optimizer = made()
    utils.load_training_state(tmp_path / "x", model=model, optimizer=optimizer)
    assert [step(model, optimizer) for _ in range(2)] == expected


@pytest.mark.parametrize("text", ["[]", "{}", '{"step": "x"}', "nothing", "[" * 5000, '{"step": 1, "extra": []}'])
def test_headers_that_say_something_else(tmp_path: Path, text: str):
    run = Run()
    utils.save_training_state(tmp_path / "x", model=run.model)
    metadata = {**load_metadata(tmp_path / "x"), "state": text, "state_crc32": str(zlib.crc32(text.encode()))}
    utils.save_file(utils.load_file(tmp_path / "x"), tmp_path / "x", metadata)
    refused(tmp_path / "x", run, ValueError, "the training state is damaged: its header")


def test_states_that_name_no_tensor_of_the_file(tmp_path: Path):
    run = Run()
    utils.save_training_state(tmp_path / "x", model=run.model, optimizer=run.optimizer)
    metadata = load_metadata(tmp_path / "x")
    for packed in ({"$tensor": "absent"}, {"$tuple": 3}, {"$dict": [[[], 1]]}, {"$what": 1}):
        state = {**json.loads(metadata["state"]), "optimizer": {"state": packed, "param_groups": []}}
        text = json.dumps(state)
        changed = {**metadata, "state": text, "state_crc32": str(zlib.crc32(text.encode()))}
        utils.save_file(utils.load_file(tmp_path / "x"), tmp_path / "y", changed)
        refused(tmp_path / "y", run, ValueError, "the training state is damaged")


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
    refused(saved, Run(), ValueError, "expected version 2 of a training state, got 7")


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
