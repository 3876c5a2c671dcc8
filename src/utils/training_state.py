"""All that a training run needs to go on, in one safetensors file: crash-safe, checked, without pickle.

NOTE [ The file ]
1. Tensors: ``model.<name>``, ``optimizer.<parameter number>.<name>``, ``random_state``.
2. Metadata: ``format``, ``version``, and ``state``, a JSON text: step, the user's extra values, the optimizer's groups
   and plain values, and a CRC-32 of every tensor; ``state_crc32`` is that of the text itself.
3. A file is compared with all of this, and with the model and the optimizer, before anything is changed.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..autograd.creation import from_numpy
from ..autograd.grad_mode import no_grad
from ..autograd.random import Generator, get_rng_state, set_rng_state
from ..autograd.tensor import Tensor
from ..memory import CPU, pool
from .serialization import SafetensorsFile, bytes_of, host_bytes, save_file

FORMAT = "stowgrad.training_state"
VERSION = "1"
_RANDOM = "random_state"


class HasState(Protocol):
    """A module: its ``state_dict`` shares memory with it."""

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors by name."""


class OptimizerLike(Protocol):
    """An optimizer."""

    def state_dict(self) -> dict[str, Any]:
        """``"state"`` by parameter number, and ``"param_groups"``."""

    def load_state_dict(self, state_dict: Mapping[str, Any], *, copy: bool) -> None:
        """Take over what `state_dict` gave, all or nothing."""


@dataclass(frozen=True)
class TrainingState:
    """What a training state file holds besides model and optimizer.

    Attributes:
        step: the number of steps done.
        extra: the values that were saved with it, as JSON gives them back (tuples come as lists).
        random_state: for ``set_rng_state``.
    """

    step: int
    extra: dict[str, Any] = field(repr=False)
    random_state: Tensor = field(repr=False)


def save_training_state(
    path: str | os.PathLike[str],
    *,
    model: HasState,
    optimizer: OptimizerLike | None = None,
    step: int = 0,
    random_state: Tensor | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write the state of a training run to one file, in place of the one before, at once or not at all.

    Args:
        path: the file.
        model: whose parameters and buffers are saved.
        optimizer: whose state and settings are saved.
        step: the number of steps done.
        random_state: by default ``get_rng_state()``.
        extra: more values, anything that JSON can hold: a scheduler's ``state_dict()``, a position in the data.

    Raises:
        TypeError: if something can't be written as JSON.
        OSError: if the file can't be written; the one before is still there.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    plain = None
    if optimizer is not None:
        plain, of_optimizer = _split(optimizer.state_dict())
        tensors.update(of_optimizer)
    tensors[_RANDOM] = get_rng_state() if random_state is None else random_state
    state = {
        "step": step,
        "extra": dict(extra or {}),
        "optimizer": plain,
        "checksums": {name: zlib.crc32(host_bytes(tensor)) for name, tensor in tensors.items()},
    }
    text = json.dumps(state)
    metadata = {"format": FORMAT, "version": VERSION, "state": text, "state_crc32": str(zlib.crc32(text.encode()))}
    save_file(tensors, path, metadata)


def _split(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """An optimizer's state: what goes into JSON, and its tensors by their names in the file."""
    plain: dict[str, dict[str, Any]] = {}
    tensors = {}
    for number, values in state_dict["state"].items():
        rest = plain[str(number)] = {}
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{number}.{name}"] = value
            elif isinstance(value, list) and any(isinstance(part, Tensor) for part in value):
                raise TypeError(
                    f"a training state has no place for lists of tensors, such as {name!r} of parameter {number}"
                    " (L-BFGS keeps them): save the model alone, and begin with a new optimizer"
                )
            else:
                rest[name] = value
    return {"param_groups": state_dict["param_groups"], "state": plain}, tensors


def load_training_state(
    path: str | os.PathLike[str],
    *,
    model: HasState,
    optimizer: OptimizerLike | None = None,
    restore_random_state: bool = True,
) -> TrainingState:
    """Bring model, optimizer and the default random generator back to where `save_training_state` found them.

    Args:
        path: the file.
        model: its tensors get the saved values.
        optimizer: takes over the saved state and settings; without one they are left alone.
        restore_random_state: whether this thread's default generator goes on from the saved state.

    Raises:
        ValueError: if the file is damaged, is no training state, is of another version, or has no state that fits the
            optimizer.
        RuntimeError: if names, shapes or dtypes are not those of the model; all of them are named.
        MemoryBudgetError: if there is no room for the optimizer's state.
        OSError: if it can't be read.
        In all these cases nothing was changed.
    """
    file = SafetensorsFile(path)
    state = _read_header(file)
    largest = max(_nbytes(spec) for spec in file.specs.values())
    with pool(CPU).charge(largest), no_grad():  # `array` takes that much at a time, and later there is no way back
        _verify_tensors(file, state["checksums"])
        targets = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        _compare_model(file, targets)
        random_state = file.tensor(_RANDOM)
        Generator().set_state(random_state)  # raises for one that is none
        if optimizer is not None:
            _load_optimizer(file, state["optimizer"], optimizer)
        for name, target in targets.items():
            target.copy_(from_numpy(file.array(name)))
    if restore_random_state:
        set_rng_state(random_state)
    return TrainingState(state["step"], state["extra"], random_state)


def _nbytes(spec: tuple[tuple[int, ...], Any]) -> int:
    shape, dtype = spec
    size: int = dtype.itemsize
    for length in shape:
        size *= length
    return size


def _read_header(file: SafetensorsFile) -> dict[str, Any]:
    """The checked JSON part of a training state."""
    kind = file.metadata.get("format")
    if kind != FORMAT:
        what = "without a format" if kind is None else f"of the format {kind!r}"
        raise ValueError(f"{file.path}: expected a training state ({FORMAT}), but it is a safetensors file {what}")
    version = file.metadata.get("version")
    if version != VERSION:
        raise ValueError(
            f"{file.path}: expected version {VERSION} of a training state, got {version};"
            " load it with the stowgrad that wrote it"
        )
    text = file.metadata.get("state", "")
    if str(zlib.crc32(text.encode())) != file.metadata.get("state_crc32"):
        raise ValueError(f"{file.path}: the training state is damaged: the checksum of its header is wrong")
    state: dict[str, Any] = json.loads(text)
    return state


def _verify_tensors(file: SafetensorsFile, checksums: Mapping[str, int]) -> None:
    if sorted(checksums) != sorted(file.names):
        raise ValueError(f"{file.path}: the training state is damaged: its tensors are not those that its header lists")
    for name in file.names:
        if zlib.crc32(bytes_of(file.array(name))) != checksums[name]:
            raise ValueError(f"{file.path}: the training state is damaged: the checksum of {name!r} is wrong")


def _compare_model(file: SafetensorsFile, targets: Mapping[str, Tensor]) -> None:
    saved = {name: spec for name, spec in file.specs.items() if name.startswith("model.")}
    wanted = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in targets.items()}
    said = [f"{name}: missing in the file" for name in wanted if name not in saved]
    said += [f"{name}: not in the model" for name in saved if name not in wanted]
    said += [
        f"{name}: the file has {_text(saved[name])}, the model has {_text(spec)}"
        for name, spec in wanted.items()
        if name in saved and saved[name] != spec
    ]
    if said:
        raise RuntimeError(f"{file.path}: the saved model is not this one:\n\t" + "\n\t".join(said))


def _text(spec: tuple[tuple[int, ...], Any]) -> str:
    return f"{list(spec[0])} {spec[1]}"


def _load_optimizer(file: SafetensorsFile, plain: Mapping[str, Any] | None, optimizer: OptimizerLike) -> None:
    if plain is None:
        raise ValueError(f"{file.path}: expected the state of an optimizer, but it was saved without one")
    state: dict[int, dict[str, Any]] = {int(number): dict(values) for number, values in plain["state"].items()}
    for name in file.names:
        if name.startswith("optimizer."):
            _, number, key = name.split(".", 2)
            state[int(number)][key] = file.tensor(name, "optimizer_state")
    try:
        optimizer.load_state_dict({"state": state, "param_groups": plain["param_groups"]}, copy=False)
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from error
