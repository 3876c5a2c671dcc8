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
from ..memory import META, Storage, events
from .hooks import SavedRecord, saved_tensors_hooks
from .packed import Packed, TensorLike, packed_by_hooks, packed_by_pair
from .state import State, anomaly, current, set_state

# The producer of a tensor and which of its outputs it is, or None for a tensor that doesn't require grad.
Edge: TypeAlias = tuple[Any, int]
# What pack hooks run under (NOTE [ Hook entries ], rule 4).
_NO_HOOKS = State(False, ())
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
    """

    __slots__ = ("__weakref__", "_packed", "_reference", "edge", "output_nr", "plain", "storage", "version")

    def __init__(self, tensor: TensorLike, edge: Edge | None, output_nr: int) -> None:
        storage: Storage = tensor._storage
        version = storage.version
        if version < 0:
            raise RuntimeError(INFERENCE_SAVED)
        self.plain = tensor._array
        self.storage = storage
        self.version: int = version
        self.edge = edge
        self.output_nr = output_nr
        self._reference = weakref.ref(tensor) if output_nr < 0 else None
        self._packed: Packed | None = None

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
            innermost = state.hooks[-1]
            set_state(_NO_HOOKS)
            try:
                if type(innermost) is saved_tensors_hooks and len(state.hooks) == 1:
                    given = tensor if self.output_nr < 0 else tensor._alias()
                    packed: Packed | None = packed_by_pair(innermost.pack_hook, innermost.unpack_hook, given, op, slot)
                else:
                    packed = packed_by_hooks(tensor, self.output_nr >= 0, state.hooks, op, slot)
            finally:
                set_state(state)
            if packed is not None:
                self._packed = packed
                self.plain = None
                self._reference = None
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
        if self._packed is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of"
                " hooks is allowed at a time."
            )
        self.array(node)  # what is packed now would be taken for the value at the time of saving
        state = current()
        set_state(_NO_HOOKS)
        try:
            self._packed = packed_by_pair(pack_hook, unpack_hook, tensor, node.name(), slot)
        finally:
            set_state(state)
        self.plain = None
        self._reference = None

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
        packed = self._packed
        if packed is not None:
            packed.record = record
            record.seconds = seconds
            record.policy = "hooks"
            if packed.unpack_hook is None:
                record.policy = packed.held.policy
                record.resident_bytes = packed.held.resident_bytes
                record.offloaded_bytes = packed.held.offloaded_bytes
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
        return self._unpack(self._packed, node)[0]

    def tensor(self, node: Any, tensor_class: Any) -> TensorLike:
        """The value as a tensor with its history, the original object where it still exists.

        Raises:
            RuntimeError: as `array`.
        """
        if self._packed is not None:
            array, storage, given = self._unpack(self._packed, node)
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

    def _unpack(self, packed: Packed, node: Any) -> tuple[Any, Storage | None, TensorLike | None]:
        state = current()
        if state.hooks or events.observers:
            array, storage, tensor = self._unpack_outside_of_hooks(packed, node, state)
        else:
            array, storage, tensor = packed.load(node)
        if storage is self.storage and storage.version != self.version:
            raise self._modified(node)
        return array, storage, tensor

    def _unpack_outside_of_hooks(self, packed: Packed, node: Any, state: State) -> tuple[Any, Any, Any]:
        start = time.perf_counter()
        set_state(state.with_hooks(()))
        try:
            loaded = packed.load(node)
        finally:
            set_state(state)
        record = getattr(packed, "record", None)
        if record is not None:
            for observer in events.observers:
                observer.unpacked(record, time.perf_counter() - start)
        return loaded

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
            f" {_HINT_IN_ANOMALY_MODE if anomaly.enabled else _HINT}"
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
