"""The inputs of a checkpointed region, saved for its second run."""

from __future__ import annotations

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
    """Arguments with every tensor in them, at any depth of lists, tuples and dicts, saved as a node saves its inputs.

    So hooks and policies that are active apply to them, and a change in place is noticed.

    Attributes:
        storages: what held them.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.storages: list[Storage] = []
        self._args = [self._save(value, f"args[{number}]") for number, value in enumerate(args)]
        self._kwargs = {name: self._save(value, name) for name, value in kwargs.items()}

    def load(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments again.

        Raises:
            RuntimeError: if one of the tensors was changed in place since.
        """
        return [self._load(value) for value in self._args], {k: self._load(v) for k, v in self._kwargs.items()}

    def name(self) -> str:
        """What the version check calls the reader."""
        return "checkpoint"

    def _save(self, value: Any, where: str) -> Any:
        if not isinstance(value, Tensor):
            return _map(value, lambda part: self._save(part, where))
        self.storages.append(value._storage)
        edge = gradient_edge(value)
        saved = SavedVariable(value, edge if edge[0] is not None else None, -1)
        if current().hooks or events.observers:
            saved.pack(value, "checkpoint", where)
        return _Slot(saved)

    def _load(self, value: Any) -> Any:
        if isinstance(value, _Slot):
            return value.saved.tensor(self, Tensor)
        return _map(value, self._load)


def _map(value: Any, function: Any) -> Any:
    """A container with a function applied to its parts; anything else as it is."""
    if isinstance(value, dict):
        return type(value)((key, function(part)) for key, part in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[function(part) for part in value])
    if isinstance(value, list | tuple):
        return type(value)(function(part) for part in value)
    return value
