"""What a node saved, by name: ``grad_fn._saved_self`` is the value, ``grad_fn._raw_saved_self`` its place.

The names are those of the op's slots (`record.Slot`). A descriptor for each stands on the class of nodes, because a
``__getattr__`` there would double the price of every attribute of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..memory import storage_for_user
from ..saved_tensors.saved_variable import SavedVariable
from .variable import Variable


class SavedTensor:
    """The place of one value that a node saved: look at it, or pack it with hooks of its own.

    Args:
        node: the node.
        position: which of its saved values.
        slot: the name of the slot.

    >>> import stowgrad
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> y = x.log()
    >>> y.grad_fn._raw_saved_self.register_hooks(lambda t: t.numpy() * 2, lambda a: stowgrad.tensor(a / 2))
    >>> y.grad_fn._saved_self
    tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ("_node", "_position", "_slot")

    def __init__(self, node: Any, position: int, slot: str) -> None:
        self._node = node
        self._position = position
        self._slot = slot

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Pack the value now, and unpack it whenever it is read.

        Args:
            pack_hook: called once, with a detached tensor and grad mode off; may return any object.
            unpack_hook: called with that object; must return a tensor of the same shape, dtype and device.

        Raises:
            TypeError: if one of them can't be called.
            RuntimeError: if the value was freed, has hooks already, or is None.
        """
        node = self._node
        if node.saved_variables is None:
            raise RuntimeError(
                f"Calling register_hooks on a saved tensor after it has been freed ({node.name()}, {self._slot!r})."
                " Saved values of the graph are freed by backward() and grad(); specify retain_graph=True if you need"
                " them again."
            )
        saved = node.saved_variables[self._position]
        if saved is not None:
            given = Variable._tensor_class._wrap(saved.plain, saved.storage)  # detached
            saved.register_hooks(given, node, self._slot, pack_hook, unpack_hook)
            return
        number = _number_of(node, self._position)
        if number is None:
            raise RuntimeError(
                f"Calling register_hooks on a saved tensor with value None is forbidden ({node.name()}, {self._slot!r})"
            )
        tensor = _as_tensor(number)
        saved = SavedVariable(tensor, None, -1)
        saved.register_hooks(tensor, node, self._slot, pack_hook, unpack_hook)
        values = list(node.saved_variables)
        values[self._position] = saved  # from here on the node reads this instead of the number
        node.saved_variables = tuple(values)

    def unpack(self) -> Any:
        """The value with its history; None where nothing was saved.

        Raises:
            RuntimeError: if it was freed or changed in place since, and for an output of the node itself.
        """
        saved = self._node.saved_values()[self._position]
        if saved is not None and saved.output_nr >= 0:
            raise RuntimeError(
                f"Trying to use a saved tensor that is output {saved.output_nr} of {self._node.name()} without its"
                f" grad_fn: only the node can supply that. Read _saved_{self._slot} of the node instead."
            )
        return value_of(self._node, self._position)

    @property
    def data(self) -> Any:
        """What is kept: what the pack hook returned or, without hooks, the value, detached; None if it is gone."""
        saved = (self._node.saved_variables or {self._position: None})[self._position]
        if saved is None:
            return None
        return saved.data if saved.plain is None else Variable._tensor_class._wrap(saved.plain, saved.storage)

    @property
    def unpack_hook(self) -> Any:
        """The hook that unpacks it, or None."""
        saved = (self._node.saved_variables or {self._position: None})[self._position]
        return None if saved is None else saved.unpack_hook

    def __repr__(self) -> str:
        return f"<SavedTensor {self._slot!r} of {self._node.name()}>"


def value_of(node: Any, position: int) -> Any:
    """A saved value as a tensor, unpacked now; a number as a 0-dimensional tensor, None where nothing was saved.

    Raises:
        RuntimeError: if it was freed, or changed in place since.
    """
    saved = node.saved_values()[position]
    if saved is not None:
        return saved.tensor(node, Variable._tensor_class)
    number = _number_of(node, position)
    return None if number is None else _as_tensor(number)


def _number_of(node: Any, position: int) -> Any:
    """The Python number that the op got in place of a tensor, if the slot is filled for this node."""
    record = node.record
    slots = getattr(record, "saves", ())
    if position >= len(slots) or record.plan(node.needs_grad)[position] is None:
        return None
    return record.number(node, slots[position])


def _as_tensor(number: Any) -> Any:
    array = np.array(number)
    return Variable._tensor_class._wrap(array, storage_for_user(array))


class _SlotAttribute:
    """``node._saved_<slot>`` or ``node._raw_saved_<slot>``, for the nodes whose op has such a slot.

    No data descriptor, so that a user's ``ctx`` may have an attribute of that name.
    """

    def __init__(self, prefix: str, slot: str, read: Callable[[Any, int, str], Any]) -> None:
        self._prefix = prefix
        self._slot = slot
        self._read = read

    def __get__(self, node: Any, owner: Any = None) -> Any:
        if node is None:
            return self
        for position, slot in enumerate(getattr(node.record, "saves", ())):
            if slot.name == self._slot:
                return self._read(node, position, self._slot)
        raise AttributeError(f"{node.name()} has no attribute '{self._prefix}{self._slot}'")


class SavedSlots:
    """Base class of nodes: their saved values as attributes."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        found = [name for name in object.__dir__(self) if not name.startswith(("_saved_", "_raw_saved_"))]
        for slot in getattr(getattr(self, "record", None), "saves", ()):
            found += [f"_saved_{slot.name}", f"_raw_saved_{slot.name}"]
        return found


def declare(names: Iterable[str]) -> None:
    """Let nodes have attributes for slots of these names."""
    for name in names:
        if f"_saved_{name}" not in SavedSlots.__dict__:
            setattr(SavedSlots, f"_saved_{name}", _SlotAttribute("_saved_", name, lambda n, i, _: value_of(n, i)))
            setattr(SavedSlots, f"_raw_saved_{name}", _SlotAttribute("_raw_saved_", name, SavedTensor))
