"""What hooks make of a saved value, and whether what they give back is that value."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..memory import Storage
from .hooks import HookEntry, SavedValue, policies_inside, policies_outside, saved_tensors_hooks

# A tensor, known here by its data only: ``_array`` and ``_storage``.
TensorLike: TypeAlias = Any


def packed_by_hooks(
    tensor: TensorLike, is_output: bool, entries: tuple[HookEntry, ...], op: str, slot: str
) -> tuple[Any, Any] | None:
    """What the active entries make of a value, and the raw hook that unpacks it; None if they leave it as it is.

    There is no such hook for the handle of a policy, which loads itself.

    Raises:
        RuntimeError: if a pack hook changed its input in place.
        Exception: whatever a pack hook raises.
    """
    entries = tuple([entry for entry in entries if entry.takes_values])
    if not entries:
        return None
    innermost = entries[-1]
    if len(entries) > 1:
        for shadowed in policies_outside(entries):
            shadowed.shadow()
    if isinstance(innermost, saved_tensors_hooks):
        given = tensor._alias() if is_output else tensor
        return packed_by_pair(innermost.pack_hook, given, op, slot), innermost.unpack_hook
    policies = policies_inside(entries)
    if not policies:  # an entry that packs nothing
        return None
    alive = not is_output and _held_by_the_graph(tensor)
    handle = policies[0].save(SavedValue(tensor._array, tensor._storage, op, slot, alive), policies[1:])
    return None if handle is None else (handle, None)


def _held_by_the_graph(tensor: TensorLike) -> bool:
    """Whether a saved input lies in a leaf that requires grad: the node where its gradient ends holds that leaf."""
    if not tensor._requires_grad:
        return False
    meta = tensor._meta
    base = tensor if meta is None or meta.view is None else meta.view.base
    return base._requires_grad and base._grad_fn is None


def packed_by_pair(pack_hook: Any, tensor: TensorLike, op: str, slot: str) -> Any:
    """What a raw pack hook makes of a value.

    Raises:
        RuntimeError: if it changed its input in place.
        Exception: whatever it raises.
    """
    storage: Storage = tensor._storage
    version = storage.version
    held = pack_hook(tensor)
    if storage.version != version:
        raise changed_its_input(op, slot)
    return held


def changed_its_input(op: str, slot: str) -> RuntimeError:
    """The error for a pack hook that wrote into the tensor that it got."""
    return RuntimeError(
        f"{op}, saved value {slot!r}: the pack hook is modifying its input in place; return a changed copy instead"
    )


def check_unpacked(array: Any, storage: Storage | None, spec: tuple[Any, Any, Any], node: Any, slot: str) -> None:
    """Compare what came back with shape, dtype and device of what was saved.

    Raises:
        RuntimeError: if it is something else.
    """
    shape, dtype, device = spec
    if storage is None or storage.device is not device or array.shape != shape or array.dtype != dtype:
        found = None if storage is None else storage.device
        raise RuntimeError(
            f"{node.name()}, saved value {slot!r}: the unpack hook returned another tensor than was saved\n"
            f"  expected: {_spec_text(shape, dtype, device)}\n  got: {_spec_text(array.shape, array.dtype, found)}"
        )


def _spec_text(shape: Any, dtype: Any, device: Any) -> str:
    return f"shape {list(shape)}, {dtype}, on {device}"
