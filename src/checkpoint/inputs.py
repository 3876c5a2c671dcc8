"""The inputs of a checkpointed region, saved for its second run."""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

from ..autograd import Tensor
from ..autograd.node import gradient_edge
from ..memory import Storage, events
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import current


class _Slot:
    """Stands where a tensor was."""

    def __init__(self, saved: SavedVariable) -> None:
        self.saved = saved


class SavedInputs:
    """Arguments with every tensor in them, at any depth of containers, saved as a node saves its inputs.

    So hooks and policies that are active apply to them, and a change in place is noticed. Containers are lists, tuples,
    dicts, deques and dataclasses, and what derives from them: the second run gets copies, filled as they were.

    Args:
        args, kwargs: the arguments.
        note: called with everything in them that is neither a container nor a tensor.

    Attributes:
        storages: what held the tensors.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], note: Callable[[Any], object]) -> None:
        self.storages: list[Storage] = []
        self._args = [self._save(value, f"args[{number}]", note) for number, value in enumerate(args)]
        self._kwargs = {name: self._save(value, name, note) for name, value in kwargs.items()}

    def load(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments again.

        Raises:
            RuntimeError: if one of the tensors was changed in place since.
        """
        return [self._load(value) for value in self._args], {k: self._load(v) for k, v in self._kwargs.items()}

    def name(self) -> str:
        """What the version check calls the reader."""
        return "checkpoint"

    def _save(self, value: Any, where: str, note: Callable[[Any], object]) -> Any:
        if not isinstance(value, Tensor):
            return map_parts(value, lambda part: self._save(part, where, note), note)
        self.storages.append(value._storage)
        edge = gradient_edge(value)
        saved = SavedVariable(value, edge if edge[0] is not None else None, -1)
        if current().hooks or events.observers:
            saved.pack(value, "checkpoint", where)
        return _Slot(saved)

    def _load(self, value: Any) -> Any:
        if isinstance(value, _Slot):
            return value.saved.tensor(self, Tensor)
        return map_parts(value, self._load)


def map_parts(value: Any, function: Callable[[Any], Any], other: Callable[[Any], object] | None = None) -> Any:
    """A container with a function applied to its parts; anything else as it is, and handed to ``other``.

    Lists, dicts and deques are always copied, since the program may go on filling them. Tuples and dataclasses are so
    only if a part has changed: a dataclass may be known by its identity.
    """
    if isinstance(value, dict):
        made: Any = {} if type(value) is dict else copy.copy(value)
        for key, part in value.items():
            made[key] = function(part)
        return made
    if isinstance(value, list | deque):
        made = copy.copy(value)
        for number, part in enumerate(value):
            made[number] = function(part)
        return made
    if isinstance(value, tuple):
        parts = [function(part) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _mapped_fields(value, function)
    if other is not None:
        other(value)
    return value


def _mapped_fields(value: Any, function: Callable[[Any], Any]) -> Any:
    """A dataclass with a function applied to its fields."""
    changed = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name, None)
        new = function(old)
        if new is not old:
            changed[field.name] = new
    if not changed:
        return value
    made = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(made, name, new)  # frozen ones too
    return made
