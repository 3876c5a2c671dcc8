"""`SavedVariable`: the only door through which a node keeps a value for backward.

NOTE [ Saved variables ]
1. Without hooks the array is kept, and a *weak* reference to the tensor it came from: keeping the tensor itself would
   make a cycle of ``h = x * w; y = h * h; h.add_(y)``.
2. The version of the storage is recorded, hooks or not. If what is read back is that storage and it has been written
   since, reading raises. What a policy copied when it was saved is the value at that time, and is good.
3. What hooks give back is checked: shape, dtype, device.
4. A saved output names no node: the node that is being read is its producer. That is what keeps a graph free of cycles.
5. An inference tensor can't be saved: its version counts for nothing, so a change would go unnoticed.
"""

from __future__ import annotations

import time
import weakref
from typing import Any, TypeAlias

from ..kernels import backend
from ..memory import META, Storage, events, storage_of
from .hooks import SavedRecord, saved_tensors_hooks
from .packed import TensorLike, changed_its_input, check_unpacked, packed_by_hooks, packed_by_pair
from .state import State, anomaly, current, set_state

# The producer of a tensor and which of its outputs it is, or None for a tensor that doesn't require grad.
Edge: TypeAlias = tuple[Any, int]
# What pack hooks run under (NOTE [ Hook entries ], rule 4).
NO_HOOKS = State(False, ())
INFERENCE_SAVED = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation"
    " tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or"
    " use stowgrad.no_grad() instead of stowgrad.inference_mode()."
)
_HINT = (
    "Hint: enable anomaly detection to find the operation whose backward needs it: autograd.set_detect_anomaly(True)."
)
_HINT_IN_ANOMALY_MODE = "Hint: the backtrace further above shows the operation that saved it."


class SavedVariable:
    """One value that a node keeps for backward (NOTE [ Saved variables ]).

    Attributes:
        storage, version: what held the value when it was saved, and how often that had been written.
        edge: the producer of a saved input, or None.
        output_nr: which output of the node itself it is, or -1 for an input.
        plain: the array, or None if hooks have packed it.
        held: what the pack hook returned, or the handle of a policy; not there while ``plain`` is.
        unpack_hook: the raw hook that unpacks it; None for a policy's handle, which loads itself. Likewise.
        shape, dtype, slot: of the value, and which of the node's saved values it is: what must come back. Likewise.
        record: what observers were told; not there if there were none.
    """

    __slots__ = (
        "__weakref__",
        "_reference",
        "_unpack_hook",
        "dtype",
        "edge",
        "held",
        "output_nr",
        "plain",
        "record",
        "shape",
        "slot",
        "storage",
        "version",
    )

    plain: Any
    storage: Storage
    version: int
    edge: Edge | None
    output_nr: int
    held: Any
    record: SavedRecord
    shape: tuple[int, ...]
    dtype: Any
    slot: str
    _reference: weakref.ref[Any] | None
    _unpack_hook: Any

    def __init__(self, tensor: TensorLike, edge: Edge | None, output_nr: int) -> None:
        storage: Storage = tensor._storage
        version = storage.version
        if version < 0:
            raise RuntimeError(INFERENCE_SAVED)
        self.plain = tensor._array
        self.storage = storage
        self.version = version
        self.edge = edge
        self.output_nr = output_nr
        self._reference = weakref.ref(tensor) if output_nr < 0 else None

    def _hand_over(self, held: Any, unpack_hook: Any, slot: str) -> None:
        """Keep what hooks made of the value in its place."""
        self.held = held
        self._unpack_hook = unpack_hook
        self.shape = self.plain.shape
        self.dtype = self.plain.dtype
        self.slot = slot
        self.plain = self._reference = None

    # -- packing -------------------------------------------------------------------------------------------------------

    def pack(self, tensor: TensorLike, op: str, slot: str) -> None:
        """Hand the value to the hooks that are active, and report it.

        Raises:
            RuntimeError: if a pack hook changed its input in place.
            Exception: whatever a pack hook raises; the value is unchanged then.
        """
        state = current()
        watching = events.observers
        start = time.perf_counter() if watching else 0.0
        if state.hooks:
            try:
                set_state(NO_HOOKS)
                packed = packed_by_hooks(tensor, self.output_nr >= 0, state.hooks, op, slot)
            finally:
                set_state(state)
            if packed is not None:
                self._hand_over(*packed, slot)
            else:
                for entry in state.hooks:
                    entry.keep(self)
        if watching:
            self._report(tensor, op, slot, time.perf_counter() - start)

    def register_hooks(self, tensor: TensorLike, node: Any, slot: str, pack_hook: Any, unpack_hook: Any) -> None:
        """Hand the value, which ``tensor`` gives detached, to hooks of its own.

        Raises:
            TypeError: if one of the hooks can't be called.
            RuntimeError: if it has hooks already, was changed in place since, or the pack hook changes it.
            Exception: whatever the pack hook raises; the value is unchanged then.
        """
        for which, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"register_hooks: {which} must be callable, got {type(hook).__name__}")
        if self.plain is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of"
                " hooks is allowed at a time."
            )
        self.array(node)  # what is packed now would be taken for the value at the time of saving
        state = current()
        try:
            set_state(NO_HOOKS)
            held = packed_by_pair(pack_hook, tensor, node.name(), slot)
        finally:
            set_state(state)
        self._hand_over(held, unpack_hook, slot)

    def keep_copy(self, copies: dict[int, tuple[Any, Storage]]) -> None:
        """Keep a copy of the value instead of its array, whose memory is about to be written.

        Args:
            copies: those that were made already, by the id of the array.
        """
        original = self.plain
        if original is None:
            return
        if id(original) not in copies:
            array, storage = self.storage.pool.lease(original.shape, original.dtype, "activation")
            if storage.device is not META:
                backend(storage.device.type).copy(original, array)
            copies[id(original)] = array, storage
        self.plain, self.storage = copies[id(original)]
        self.version = self.storage.version
        self._reference = None

    def _report(self, tensor: TensorLike, op: str, slot: str, seconds: float) -> None:
        record = SavedRecord(op, slot, tensor._array, self.storage)
        if self.plain is None:
            self.record = record
            record.seconds = seconds
            record.policy = "hooks"
            if self._unpack_hook is None:
                record.policy = self.held.policy
                record.resident_bytes = self.held.resident_bytes
                record.offloaded_bytes = self.held.offloaded_bytes
                record.is_shared = getattr(self.held, "shared", False)
        for observer in events.observers:
            observer.saved(record)

    # -- reading -------------------------------------------------------------------------------------------------------

    def array(self, node: Any) -> Any:
        """The value as an array.

        Raises:
            RuntimeError: if the value was changed in place since, or hooks gave back something else.
        """
        if self.plain is None:
            return self._unpack(node)[0]
        if self.storage.version != self.version:
            raise self._modified(node)
        return self.plain

    def tensor(self, node: Any, tensor_class: Any) -> TensorLike:
        """The value as a tensor with its history, the original object where it still exists.

        Raises:
            RuntimeError: as `array`.
        """
        if self.plain is None:
            array, storage, given = self._unpack(node)
            edge = self._edge_for(node)
            if edge is None and given is not None and not given.requires_grad:
                return given
            return tensor_class._rebuild(array, storage, edge)
        array = self.array(node)
        original = self._reference() if self._reference is not None else None
        if original is not None and original._array is array and self._has_its_history(original):
            return original
        return tensor_class._rebuild(array, self.storage, self._edge_for(node))

    def _has_its_history(self, original: TensorLike) -> bool:
        """Whether a saved input still comes from where it came from: ``detach_()`` takes that away."""
        edge = self.edge
        return edge is None or edge[0].accumulates_into is not None or original._grad_fn is edge[0]

    def _edge_for(self, node: Any) -> Edge | None:
        if self.output_nr >= 0:
            return node.edge_of_output(self.output_nr)  # type: ignore[no-any-return]
        return self.edge

    def _unpack(self, node: Any) -> tuple[Any, Storage | None, TensorLike | None]:
        state = current()
        if not state.hooks and not events.observers:
            return self.load(node)
        start = time.perf_counter()
        try:
            set_state(state.without_hooks())
            loaded = self.load(node)
        finally:
            set_state(state)
        record = getattr(self, "record", None)
        if record is not None:
            for observer in events.observers:
                observer.unpacked(record, time.perf_counter() - start)
        return loaded

    def load(self, node: Any) -> tuple[Any, Storage | None, TensorLike | None]:
        """What hooks packed: the array, its storage, and the tensor that a raw hook gave back.

        Raises:
            TypeError: if a hook did not return a tensor.
            RuntimeError: if shape, dtype or device differ from what was saved, or it was changed in place since.
        """
        if self._unpack_hook is None:
            array = self.held.load()
            return self._checked(array, storage_of(array), node), storage_of(array), None
        tensor = self._unpack_hook(self.held)
        if not hasattr(tensor, "_array"):
            raise self._no_tensor(tensor, node)
        return self._checked(tensor._array, tensor._storage, node), tensor._storage, tensor

    def load_array(self, node: Any) -> Any:
        """The array of `load`, on the shortest way where a raw hook gave back the very tensor that was saved."""
        hook = self._unpack_hook
        if hook is None:
            return self.load(node)[0]
        tensor = hook(self.held)
        try:
            array, storage = tensor._array, tensor._storage
        except AttributeError:
            raise self._no_tensor(tensor, node) from None
        if storage is self.storage and storage.version == self.version and array.shape == self.shape:
            if array.dtype is self.dtype:
                return array
        return self._checked(array, storage, node)

    def _checked(self, array: Any, storage: Storage | None, node: Any) -> Any:
        """What came back, if it is what was saved."""
        if storage is self.storage and storage.version != self.version:
            raise self._modified(node)
        check_unpacked(array, storage, (self.shape, self.dtype, self.storage.device), node, self.slot)
        return array

    def _no_tensor(self, found: Any, node: Any) -> TypeError:
        where = f"{node.name()}, saved value {self.slot!r}"
        return TypeError(f"{where}: the unpack hook must return a Tensor, got {type(found).__name__}")

    def _modified(self, node: Any) -> RuntimeError:
        shape, dtype = (self.shape, self.dtype) if self.plain is None else (self.plain.shape, self.plain.dtype)
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
            f" {_HINT_IN_ANOMALY_MODE if anomaly.enabled else _HINT}"
        )

    # -- introspection -------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """What is kept: the packed object or the handle of a policy, None without hooks."""
        return self.held if self.plain is None else None

    @property
    def unpack_hook(self) -> Any:
        """The hook that unpacks it, or None."""
        return self._unpack_hook if self.plain is None else None


_new = object.__new__


def packed_by_a_pair(
    pair: saved_tensors_hooks,
    plan: tuple[Any, ...],
    inputs: tuple[Any, ...],
    edges: tuple[Edge, ...],
    out: Any,
    op: str,
) -> tuple[SavedVariable | None, ...]:
    """What a node keeps, in the hands of one raw pair of hooks: made under `NO_HOOKS`, while nobody observes.

    Args:
        pair: the hooks.
        plan: which values: for each the name and the position of an input, or that it is the output; or None.
        inputs, edges: the inputs of the op, and their producers.
        out: its one output.
        op: its name.

    Raises:
        RuntimeError: if the pack hook changed its input in place, and for an inference tensor.
        Exception: whatever the pack hook raises.
    """
    pack_hook, unpack_hook = pair.pack_hook, pair.unpack_hook
    found: list[SavedVariable | None] = []
    for slot in plan:
        if slot is None:
            found.append(None)
            continue
        saved: SavedVariable = _new(SavedVariable)
        if slot.output:
            value, saved.edge, saved.output_nr = out._alias(), None, 0
        else:
            position = slot.position
            value, edge = inputs[position], edges[position]
            saved.edge, saved.output_nr = None if edge[0] is None else edge, -1
        storage: Storage = value._storage
        saved.storage, saved.version = storage, storage.version
        if saved.version < 0:
            raise RuntimeError(INFERENCE_SAVED)
        array = value._array
        saved.held = pack_hook(value)
        if storage.version != saved.version:
            raise changed_its_input(op, slot.name)
        saved._unpack_hook = unpack_hook
        saved.plain = saved._reference = None
        saved.shape = array.shape
        saved.dtype = array.dtype
        saved.slot = slot.name
        found.append(saved)
    return tuple(found)
