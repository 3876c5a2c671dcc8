"""All that a training run needs to go on, in one safetensors file: crash-safe, checked, without pickle.

NOTE [ The file ]
1. Tensors: ``model.<name>``, ``optimizer.<parameter number>.<name>``, ``parts.<part>.<name>``, ``random_state``.
2. Metadata: ``format``, ``version``, and ``state``, a JSON text: step, the user's extra values, the states of optimizer
   and parts with tensors by name (`nested_state`), and a CRC-32 of every tensor; ``state_crc32`` is that of the text.
3. A file is compared with all of this, and with the model and the optimizer, before anything is changed.

NOTE [ All or nothing ]
Loading goes from what may refuse to what can't: states are read; parts take theirs over, then the optimizer does; then
values are copied into models, which were compared before. When one refuses, those before it get back what they had.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ..autograd.creation import from_numpy
from ..autograd.grad_mode import no_grad
from ..autograd.random import Generator, get_rng_state, set_rng_state
from ..autograd.tensor import Tensor
from ..memory import CPU, pool
from .nested_state import pack, unpack
from .serialization import SafetensorsFile, bytes_of, host_bytes, save_file

FORMAT = "stowgrad.training_state"
VERSION = "2"
_RANDOM = "random_state"
_FIELDS = {"step": int, "extra": dict, "optimizer": dict | None, "parts": dict, "checksums": dict}


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


class Stateful(Protocol):
    """Anything else with a state: a scheduler, a loader, a gradient scaler, a second optimizer."""

    def state_dict(self) -> Mapping[str, Any]:
        """Tensors, numbers, texts, None, and lists, tuples and dicts of them."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Take over what `state_dict` gave, all or nothing."""


Part: TypeAlias = HasState | Stateful | Generator


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
    parts: Mapping[str, Part] | None = None,
) -> None:
    """Write the state of a training run to one file, in place of the one before, at once or not at all.

    Args:
        path: the file.
        model: whose parameters and buffers are saved.
        optimizer: whose state and settings are saved.
        step: the number of steps done.
        random_state: by default ``get_rng_state()``.
        extra: more values, anything that JSON can hold.
        parts: all else that the run depends on, by names of your choice: schedulers, a `DataLoader` (its position), a
            `GradScaler`, averages of the model and other modules, more optimizers, `Generator`s.

    Raises:
        TypeError: if something can't be written as JSON; it is named.
        OSError: if the file can't be written; the one before is still there.
    """
    tensors = _named("model", model)
    optimizer_state = None
    if optimizer is not None:
        whole = optimizer.state_dict()
        optimizer_state = {
            "state": pack(whole["state"], "optimizer", tensors),
            "param_groups": pack(whole["param_groups"], "optimizer.param_groups", tensors),
        }
    packed = {name: _packed_part(name, part, tensors) for name, part in (parts or {}).items()}
    tensors[_RANDOM] = get_rng_state() if random_state is None else random_state
    state = {
        "step": step,
        "extra": dict(extra or {}),
        "optimizer": optimizer_state,
        "parts": packed,
        "checksums": {name: zlib.crc32(host_bytes(tensor)) for name, tensor in tensors.items()},
    }
    text = json.dumps(state)
    metadata = {"format": FORMAT, "version": VERSION, "state": text, "state_crc32": str(zlib.crc32(text.encode()))}
    save_file(tensors, path, metadata)


def _named(prefix: str, module: HasState) -> dict[str, Tensor]:
    """A module's tensors by their names in the file."""
    named = {f"{prefix}.{name}": tensor for name, tensor in module.state_dict().items()}
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name}: expected a Tensor in the state of a module, got {type(tensor).__name__}; save what a module"
                " keeps besides tensors as one of the `parts`"
            )
    return named


def _is_module(part: Part) -> bool:
    """Whether a part's state is tensors that share memory with it."""
    return hasattr(part, "named_parameters")


def _packed_part(name: str, part: Any, tensors: dict[str, Tensor]) -> Any:
    """What of a part goes into JSON; None for a module, which is tensors only."""
    path = f"parts.{name}"
    if _is_module(part):
        tensors.update(_named(path, part))
        return None
    return pack(_state_of(part), path, tensors)


def _state_of(part: Any) -> Any:
    return part.get_state() if isinstance(part, Generator) else part.state_dict()


def load_training_state(
    path: str | os.PathLike[str],
    *,
    model: HasState,
    optimizer: OptimizerLike | None = None,
    restore_random_state: bool = True,
    parts: Mapping[str, Part] | None = None,
) -> TrainingState:
    """Bring model, optimizer, parts and the default random generator back to where `save_training_state` found them.

    Args:
        path: the file.
        model: its tensors get the saved values.
        optimizer: takes over the saved state and settings; without one they are left alone.
        restore_random_state: whether this thread's default generator goes on from the saved state.
        parts: those that take their states over, by the names under which they were saved; others are left alone.

    Raises:
        ValueError: if the file is damaged, is no training state, is of another version, has no state that fits the
            optimizer, or lacks a part.
        RuntimeError: if names, shapes or dtypes are not those of the model; all of them are named.
        MemoryBudgetError: if there is no room for the states.
        OSError: if it can't be read.
        In all these cases, and when a part refuses its state, nothing was changed.
    """
    file = SafetensorsFile(path)
    state = _read_header(file)
    given = dict(parts or {})
    lacking = sorted(given.keys() - state["parts"].keys())
    if lacking:
        raise ValueError(f"{file.path}: it has no part {', '.join(map(repr, lacking))}, only {sorted(state['parts'])}")
    modules: dict[str, Any] = {
        "model": model,
        **{f"parts.{name}": part for name, part in given.items() if _is_module(part)},
    }
    others = {name: part for name, part in given.items() if not _is_module(part)}
    largest = max(_nbytes(spec) for spec in file.specs.values())
    with pool(CPU).charge(largest), no_grad():  # `array` takes that much at a time, and later there is no way back
        _verify_tensors(file, state["checksums"])
        targets = {prefix: _named(prefix, module) for prefix, module in modules.items()}
        for prefix, tensors in targets.items():
            _compare(file, prefix, tensors)
        random_state = file.tensor(_RANDOM)
        Generator().set_state(random_state)  # raises for one that is none
        loads = [_Load(part, _unpacked(file, state["parts"][name], "buffer")) for name, part in others.items()]
        if optimizer is not None:
            loads.append(_OptimizerLoad(file, state["optimizer"], optimizer))
        _all_or_none(loads)
        for tensors in targets.values():
            for name, target in tensors.items():
                target.copy_(from_numpy(file.array(name)))
    if restore_random_state:
        set_rng_state(random_state)
    return TrainingState(state["step"], state["extra"], random_state)


class _Load:
    """A part, what it had, and what it is to take over."""

    def __init__(self, part: Any, state: Any) -> None:
        self.part, self.state = part, state
        self.before = _state_of(part)

    def __call__(self, state: Any) -> None:
        if isinstance(self.part, Generator):
            self.part.set_state(state)
        else:
            self.part.load_state_dict(state)


class _OptimizerLoad(_Load):
    """The same of the run's optimizer, which keeps the tensors that are read for it."""

    def __init__(self, file: SafetensorsFile, packed: Any, optimizer: OptimizerLike) -> None:
        if packed is None:
            raise ValueError(f"{file.path}: expected the state of an optimizer, but it was saved without one")
        self._path = file.path
        super().__init__(optimizer, _unpacked(file, packed, "optimizer_state"))

    def __call__(self, state: Any) -> None:
        try:
            self.part.load_state_dict(state, copy=False)
        except ValueError as error:
            raise ValueError(f"{self._path}: {error}") from error


def _unpacked(file: SafetensorsFile, packed: Any, category: str) -> Any:
    """A state as it was before it was saved; its tensors are counted under ``category``."""
    try:
        return unpack(packed, lambda name: file.tensor(name, category))
    except (ValueError, KeyError, TypeError) as error:  # a name that is none of the file's, a list as a key
        raise ValueError(f"{file.path}: the training state is damaged: {error}") from error


def _all_or_none(loads: list[_Load]) -> None:
    done: list[_Load] = []
    try:
        for load in loads:
            load(load.state)
            done.append(load)
    except BaseException:
        for load in done:
            load(load.before)
        raise


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
    try:
        state: dict[str, Any] = json.loads(text)
        right = all(isinstance(state[name], kind) for name, kind in _FIELDS.items())
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{file.path}: the training state is damaged: its header is wrong ({error})") from error
    if not right:
        raise ValueError(f"{file.path}: the training state is damaged: its header has values of the wrong kind")
    return state


def _verify_tensors(file: SafetensorsFile, checksums: Mapping[str, int]) -> None:
    if sorted(checksums) != sorted(file.names):
        raise ValueError(f"{file.path}: the training state is damaged: its tensors are not those that its header lists")
    for name in file.names:
        if zlib.crc32(bytes_of(file.array(name))) != checksums[name]:
            raise ValueError(f"{file.path}: the training state is damaged: the checksum of {name!r} is wrong")


def _compare(file: SafetensorsFile, prefix: str, targets: Mapping[str, Tensor]) -> None:
    what = "model" if prefix == "model" else prefix
    saved = {name: spec for name, spec in file.specs.items() if name.startswith(f"{prefix}.")}
    wanted = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in targets.items()}
    said = [f"{name}: missing in the file" for name in wanted if name not in saved]
    said += [f"{name}: not in the model" for name in saved if name not in wanted]
    said += [
        f"{name}: the file has {_text(saved[name])}, the model has {_text(spec)}"
        for name, spec in wanted.items()
        if name in saved and saved[name] != spec
    ]
    if said:
        raise RuntimeError(f"{file.path}: the saved {what} is not this one:\n\t" + "\n\t".join(said))


def _text(spec: tuple[tuple[int, ...], Any]) -> str:
    return f"{list(spec[0])} {spec[1]}"
