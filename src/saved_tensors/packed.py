"""`Packed`: a saved value in the hands of hooks: what they keep, and what must come back."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..memory import Storage, storage_of
from .hooks import HookEntry, SavedRecord, SavedValue, policies_inside, policies_outside, saved_tensors_hooks

# A tensor, known here by its data only: ``_array`` and ``_storage``.
TensorLike: TypeAlias = Any


class Packed:
    """What hooks made of a value.

    Attributes:
        held: what the pack hook returned, or the handle of a policy.
        unpack_hook: the raw hook that unpacks it; None for a policy's handle, which loads itself.
        op, slot: who saved it.
        record: what observers were told, if there were any.
    """

    __slots__ = ("_device", "_dtype", "_shape", "held", "op", "record", "slot", "unpack_hook")

    def __init__(self, held: Any, unpack_hook: Any, tensor: TensorLike, op: str, slot: str) -> None:
        array = tensor._array
        self.held = held
        self.unpack_hook = unpack_hook
        self.op = op
        self.slot = slot
        self.record: SavedRecord | None = None
        self._shape = array.shape
        self._dtype = array.dtype
        self._device = tensor._storage.pool.device

    @property
    def spec(self) -> tuple[Any, Any, Any]:
        """Shape, dtype and device of what was saved."""
        return self._shape, self._dtype, self._device

    def load(self, node: Any) -> tuple[Any, Storage | None, TensorLike | None]:
        """The array, its storage, and the tensor that a raw hook gave back.

        Raises:
            TypeError: if a hook did not return a tensor.
            RuntimeError: if shape, dtype or device differ from what was saved.
        """
        if self.unpack_hook is None:
            tensor, array = None, self.held.load()
            storage = storage_of(array)
        else:
            tensor = self.unpack_hook(self.held)
            array, storage = getattr(tensor, "_array", None), getattr(tensor, "_storage", None)
            if array is None or storage is None:
                raise TypeError(
                    f"{node.name()}, saved value {self.slot!r}: the unpack hook must return a Tensor, got"
                    f" {type(tensor).__name__}"
                )
        device = None if storage is None else storage.pool.device
        if array.shape != self._shape or array.dtype != self._dtype or device is not self._device:
            raise RuntimeError(
                f"{node.name()}, saved value {self.slot!r}: the unpack hook returned another tensor than was saved\n"
                f"  expected: {_spec_text(*self.spec)}\n  got: {_spec_text(array.shape, array.dtype, device)}"
            )
        return array, storage, tensor


def _spec_text(shape: Any, dtype: Any, device: Any) -> str:
    return f"shape {list(shape)}, {dtype}, on {device}"


def packed_by_hooks(
    tensor: TensorLike, is_output: bool, entries: tuple[HookEntry, ...], op: str, slot: str
) -> Packed | None:
    """What the active entries make of a value; None if they leave it as it is.

    Raises:
        RuntimeError: if a pack hook changed its input in place.
        Exception: whatever a pack hook raises.
    """
    innermost = entries[-1]
    if len(entries) > 1:
        for shadowed in policies_outside(entries):
            shadowed.shadow()
    if isinstance(innermost, saved_tensors_hooks):
        given = tensor._alias() if is_output else tensor
        return packed_by_pair(innermost.pack_hook, innermost.unpack_hook, given, op, slot)
    policies = policies_inside(entries)
    if not policies:  # an entry that packs nothing
        return None
    handle = policies[0].save(SavedValue(tensor._array, tensor._storage, op, slot), policies[1:])
    return None if handle is None else Packed(handle, None, tensor, op, slot)


def packed_by_pair(pack_hook: Any, unpack_hook: Any, tensor: TensorLike, op: str, slot: str) -> Packed:
    """What one pair of raw hooks makes of a value.

    Raises:
        RuntimeError: if the pack hook changed its input in place.
        Exception: whatever the pack hook raises.
    """
    storage: Storage = tensor._storage
    version = storage.version
    held = pack_hook(tensor)
    if storage.version != version:
        raise RuntimeError(
            f"{op}, saved value {slot!r}: the pack hook is modifying its input in place; return a changed copy instead"
        )
    return Packed(held, unpack_hook, tensor, op, slot)
