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
        slot: which of the node's saved values it is.
        record: what observers were told; not there if there were none.
    """

    __slots__ = ("_dtype", "_pool", "_shape", "held", "record", "slot", "unpack_hook")

    record: SavedRecord

    def __init__(self, held: Any, unpack_hook: Any, tensor: TensorLike, slot: str) -> None:
        array = tensor._array
        self.held = held
        self.unpack_hook = unpack_hook
        self.slot = slot
        self._shape = array.shape
        self._dtype = array.dtype
        self._pool = tensor._storage.pool

    @property
    def spec(self) -> tuple[Any, Any, Any]:
        """Shape, dtype and device of what was saved."""
        return self._shape, self._dtype, self._pool.device

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
            try:
                array, storage = tensor._array, tensor._storage
            except AttributeError:
                raise TypeError(
                    f"{node.name()}, saved value {self.slot!r}: the unpack hook must return a Tensor, got"
                    f" {type(tensor).__name__}"
                ) from None
        dtype = array.dtype
        if (
            storage is None
            or storage.pool is not self._pool
            or array.shape != self._shape
            or (dtype is not self._dtype and dtype != self._dtype)
        ):
            device = None if storage is None else storage.device
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
    return None if handle is None else Packed(handle, None, tensor, slot)


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
    return Packed(held, unpack_hook, tensor, slot)
