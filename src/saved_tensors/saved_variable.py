"""`SavedVariable`: the only door through which a node keeps a value for backward.

NOTE [ Saved variables ]
1. Without hooks the array is kept, and a *weak* reference to the tensor it came from: keeping the tensor itself would
   make a cycle of ``h = x * w; y = h * h; h.add_(y)``.
2. The version of the storage is recorded, hooks or not. If what is read back is that storage and it has been written
   since, reading raises. What a policy copied when it was saved is the value at that time, and is good.
3. What hooks give back is checked: shape, dtype, device.
4. A saved output names no node: the node that is being read is its producer. That is what keeps a graph free of cycles.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, TypeAlias

from ..memory import Storage, events, storage_of
from .hooks import (
    Handle,
    HookEntry,
    PolicyEntry,
    SavedRecord,
    SavedValue,
    policies_inside,
    policies_outside,
    saved_tensors_hooks,
)
from .state import Under, current

# What is saved is a tensor, known here by its data only: ``_array``, ``_storage``, and the class that rebuilds one.
TensorLike: TypeAlias = Any
# The producer of a tensor and which of its outputs it is, or None for a tensor that doesn't require grad.
Edge: TypeAlias = tuple[Any, int]


class SavedVariable:
    """One value that a node keeps for backward (NOTE [ Saved variables ]).

    Attributes:
        storage, version: what held the value when it was saved, and how often that had been written.
        edge: the producer of a saved input, or None.
        output_nr: which output of the node itself it is, or -1 for an input.
        plain: the array, or None if hooks have packed it.
    """

    __slots__ = ("_packed", "_reference", "edge", "output_nr", "plain", "storage", "version")

    def __init__(self, tensor: TensorLike, edge: Edge | None, output_nr: int) -> None:
        self.plain = tensor._array
        self.storage: Storage = tensor._storage
        self.version: int = tensor._storage.version
        self.edge = edge
        self.output_nr = output_nr
        self._reference = weakref.ref(tensor) if output_nr < 0 else None
        self._packed: _Packed | None = None

    # -- packing -------------------------------------------------------------------------------------------------------

    def pack(self, tensor: TensorLike, op: str, slot: str) -> None:
        """Hand the value to the hooks that are active, and report it.

        Raises:
            RuntimeError: if a pack hook changed its input in place.
            Exception: whatever a pack hook raises; the value is unchanged then.
        """
        record = SavedRecord(op, slot, tensor._array, self.storage)
        entries = current().hooks
        if entries:
            start = time.perf_counter()
            with Under(hooks=(), grad_enabled=False):
                self._packed = _pack(self, tensor, entries, record)
            record.seconds = time.perf_counter() - start
        if self._packed is not None:
            self.plain = None
            self._reference = None
        for observer in events.observers:
            observer.saved(record)

    # -- reading -------------------------------------------------------------------------------------------------------

    def array(self, node: Any) -> Any:
        """The value as an array.

        Raises:
            RuntimeError: if the value was changed in place since, or hooks gave back something else.
        """
        if self._packed is None:
            if self.storage.version != self.version:
                raise self._modified(node)
            return self.plain
        return self._unpack(node)[0]

    def tensor(self, node: Any, tensor_class: Any) -> TensorLike:
        """The value as a tensor with its history, the original object where it still exists.

        Raises:
            RuntimeError: as `array`.
        """
        if self._packed is not None:
            array, given = self._unpack(node)
            edge = self._edge_for(node)
            if edge is None and given is not None and not given.requires_grad:
                return given
            return tensor_class._rebuild(array, storage_of(array), edge)
        array = self.array(node)
        original = self._reference() if self._reference is not None else None
        if original is not None and original._array is array:
            return original
        return tensor_class._rebuild(array, self.storage, self._edge_for(node))

    def _edge_for(self, node: Any) -> Edge | None:
        if self.output_nr >= 0:
            return node.edge_of_output(self.output_nr)  # type: ignore[no-any-return]
        return self.edge

    def _unpack(self, node: Any) -> tuple[Any, TensorLike | None]:
        packed = self._packed
        assert packed is not None
        start = time.perf_counter()
        with Under(hooks=()):
            array, tensor = packed.load()
        packed.check(array, tensor, node)
        if storage_of(array) is self.storage and self.storage.version != self.version:
            raise self._modified(node)
        for observer in events.observers:
            observer.unpacked(packed.record, time.perf_counter() - start)
        return array, tensor

    def _modified(self, node: Any) -> RuntimeError:
        shape, dtype = (self.plain.shape, self.plain.dtype) if self._packed is None else self._packed.spec[:2]
        where = f"output {max(self.output_nr, 0)} of {node.name()}"
        if self.output_nr < 0 and self.edge is not None:
            where = f"output {self.edge[1]} of {self.edge[0].name()}"
        elif self.output_nr < 0:
            where = "which does not require grad"
        return RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation:"
            f" [{dtype} {list(shape)}], {where}, saved by {node.name()},"
            f" is at version {self.storage.version}; expected version {self.version} instead."
            " Change a copy (clone()), or make the change before the value is used."
        )

    # -- introspection -------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """What is kept: the packed object or the handle of a policy, None without hooks."""
        return None if self._packed is None else self._packed.held

    @property
    def unpack_hook(self) -> Any:
        """The hook that unpacks it, or None."""
        return None if self._packed is None else self._packed.unpack_hook


class _Packed:
    """A value in the hands of hooks: what they keep, and what must come back."""

    __slots__ = ("held", "record", "spec", "unpack_hook")

    def __init__(self, held: Any, unpack_hook: Any, tensor: TensorLike, record: SavedRecord) -> None:
        self.held = held
        self.unpack_hook = unpack_hook
        self.spec = (tensor._array.shape, tensor._array.dtype, tensor._storage.device)
        self.record = record

    def load(self) -> tuple[Any, TensorLike | None]:
        """The array, and the tensor that a raw hook gave back."""
        if self.unpack_hook is None:
            return self.held.load(), None
        tensor = self.unpack_hook(self.held)
        return getattr(tensor, "_array", None), tensor

    def check(self, array: Any, tensor: TensorLike | None, node: Any) -> None:
        """Compare what came back with what was saved."""
        slot = f"{node.name()}, saved value {self.record.slot!r}"
        if array is None:
            raise TypeError(f"{slot}: the unpack hook must return a Tensor, got {type(tensor).__name__}")
        storage = storage_of(array)
        device = storage.device if storage is not None else None
        got = (array.shape, array.dtype, device)
        if got != self.spec:
            raise RuntimeError(
                f"{slot}: the unpack hook returned another tensor than was saved\n"
                f"  expected: {_spec_text(self.spec)}\n  got: {_spec_text(got)}"
            )


def _spec_text(spec: tuple[Any, Any, Any]) -> str:
    shape, dtype, device = spec
    return f"shape {list(shape)}, {dtype}, on {device}"


def _pack(
    saved: SavedVariable, tensor: TensorLike, entries: tuple[HookEntry, ...], record: SavedRecord
) -> _Packed | None:
    innermost = entries[-1]
    for shadowed in policies_outside(entries):
        shadowed.shadow()
    if isinstance(innermost, saved_tensors_hooks):
        return _pack_raw(saved, tensor, innermost, record)
    policies = policies_inside(entries)
    value = SavedValue(tensor._array, saved.storage, record.op, record.slot)
    handle = _save(policies, value)
    if handle is None:
        return None
    record.policy = handle.policy
    record.resident_bytes = handle.resident_bytes
    record.offloaded_bytes = handle.offloaded_bytes
    return _Packed(handle, None, tensor, record)


def _save(policies: tuple[PolicyEntry, ...], value: SavedValue) -> Handle | None:
    return policies[0].save(value, policies[1:]) if policies else None


def _pack_raw(saved: SavedVariable, tensor: TensorLike, hooks: saved_tensors_hooks, record: SavedRecord) -> _Packed:
    given = tensor if saved.output_nr < 0 else tensor._alias()
    held = hooks.pack_hook(given)
    if saved.storage.version != saved.version:
        raise RuntimeError(
            f"{record.op}, saved value {record.slot!r}: the pack hook is modifying its input in place;"
            " return a changed copy instead"
        )
    record.policy = "hooks"
    return _Packed(held, hooks.unpack_hook, tensor, record)
