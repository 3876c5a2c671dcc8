"""Tensors that come to look at their memory in another way: `t_`, `squeeze_`, `as_strided_`, `resize_`.

NOTE [ Another look ]
1. No byte is written, but the version counts, as PyTorch's does: what was saved of the tensor has another shape by now.
2. A tensor that was computed gets a node of the view op behind its history, under ``no_grad`` too: the history would be
   that of another shape otherwise.
3. What a view looks at, seen from its base, is one step more. If it is the base that changes, its live views get the
   way back as their first step, so that later writes reach them as before.
"""

from __future__ import annotations

import math
from typing import Any

from ..memory import META, pool
from ..saved_tensors.mutation import before_write
from ..saved_tensors.state import current
from .copy_slices import step_node
from .history import check_history, set_history
from .inplace import is_recorded
from .node import gradient_edge
from .ops.cast import copy_between
from .ops.strided import as_strided, check_reach, check_strides, storage_offset
from .variable import ViewInfo
from .view_op import ViewOp, view_of

Step = tuple[ViewOp, tuple[Any, ...]]


def look(name: str, target: Any, step: Step, back: Step) -> Any:
    """Let a tensor look at its memory through a view op.

    Args:
        name: of the operation, for errors.
        step: the op and what it is called with besides the tensor.
        back: the way back to how the tensor looks now, likewise.

    Raises:
        RuntimeError: for a leaf that requires grad (or a view of one) and views that must not be changed while
            gradients are recorded, and for inference tensors outside of the mode.
    """
    check_changeable(name, target)
    op, args = step
    former = target._array
    array, attrs = op.view(former, *args), op.attrs(former, *args)
    view = view_of(target)
    info = None if view is None else ViewInfo(view.base, view, op, args, attrs, view.origin)
    _look(name, target, array, info, (op, attrs))
    if info is None:
        _lead_back(target, *back)
    return target


def check_changeable(name: str, target: Any) -> None:
    """Raise if a tensor may not come to look at its memory in another way now: see `look`."""
    if is_recorded(target):
        check_history(name, target)
    if target._storage.is_inference and not current().inference:
        raise RuntimeError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to"
            " get a normal tensor before doing inplace update."
        )


def _look(name: str, target: Any, array: Any, info: ViewInfo | None, derivative: tuple[ViewOp, Any]) -> None:
    edge = None if target._grad_fn is None else gradient_edge(target)
    _count(name, target)
    target._array = array
    if info is not None:
        target._meta.view = info
    if edge is not None:
        op, attrs = derivative
        set_history(target, step_node(op, attrs, edge, target._storage.pool.device))


def _count(name: str, target: Any) -> None:
    for follower in current().followers:
        follower.written(name.removesuffix("_"), (target,), target)
    before_write(target._storage)
    target._storage.version += 1


def _lead_back(base: Any, op: ViewOp, args: tuple[Any, ...]) -> None:
    """Give the live views of a tensor that looks otherwise now the way back as their first step (note, rule 3)."""
    views = None if base._meta is None else base._meta.views
    if views is None:
        return
    step = ViewInfo(base, None, op, args, op.attrs(base._array, *args), None)
    for view in views.alive():
        info = view_of(view)
        if info is not None:
            first = info.steps()[0]
            if first is not step:  # views share their steps
                first.parent = step


# -- by sizes and strides ----------------------------------------------------------------------------------------------


def _elements(array: Any) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def as_strided_(target: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Any:
    """Let a tensor look at its storage through other sizes and strides.

    Args:
        size, stride: in elements.
        offset: the element of the storage at which it begins; None for where it begins now.

    Raises:
        RuntimeError: as `look` does, and for what would reach out of the storage.
    """
    check_changeable("as_strided_", target)
    check_strides(size, stride)
    array, start = target._array, storage_offset(target)
    first = start if offset is None else offset
    check_reach(size, stride, first, target._storage.nbytes // array.itemsize)
    _restride("as_strided_", target, size, stride, first - start if math.prod(size) else 0)
    return target


def _restride(name: str, target: Any, size: tuple[int, ...], stride: tuple[int, ...], distance: int) -> None:
    array = target._array
    here = (size, stride, distance, array.shape, _elements(array))
    view = view_of(target)
    if view is None:
        _look(name, target, as_strided.view(array, *here), None, (as_strided, here))
        _lead_back(target, as_strided, (*here[3:], -distance, size, stride))
        return
    # As far as the base goes: it may look at more of that than the tensor did.
    base = view.base
    begin = distance + storage_offset(target) - storage_offset(base)
    of_base = (size, stride, begin, base._array.shape, _elements(base._array))
    info = ViewInfo(base, None, as_strided, of_base, of_base, view.origin)
    _look(name, target, as_strided.view(array, *here), info, (as_strided, here))


def resize_(target: Any, size: tuple[int, ...]) -> Any:
    """Give a tensor another size, in C order from its first element on.

    It stays in its storage where that is large enough; otherwise it moves to a new one, with what the storage holds
    from its first element on, and nothing known behind that. Its views stay with the former storage then.

    Raises:
        RuntimeError: for a tensor that requires grad, a negative size, and memory of the user's that is too small.
    """
    if target.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(part < 0 for part in size):
        raise RuntimeError(f"resize_: sizes must not be negative, got {list(size)}")
    check_changeable("resize_", target)
    array, storage = target._array, target._storage
    if array.shape == size:
        _count("resize_", target)
        return target
    count, start = math.prod(size), storage_offset(target)
    available = storage.nbytes // array.itemsize - start
    dense = tuple(math.prod(size[dim + 1 :]) for dim in range(len(size)))
    if count <= available:
        _restride("resize_", target, size, dense, 0)
        return target
    if storage.block is None and not storage.adopted:
        raise RuntimeError(
            "Trying to resize storage that is not resizable: the memory belongs to the user (from_numpy, from_dlpack);"
            " clone() the tensor first"
        )
    _move(target, size, dense, available)
    return target


def _move(target: Any, size: tuple[int, ...], dense: tuple[int, ...], kept: int) -> None:
    """Put a tensor into a larger storage (on its own: it is no view any more)."""
    former = target._storage
    array, storage = pool(former.device).lease(size, target._array.dtype, former.category)
    if former.device is not META:
        shape, strides = target._array.shape, _elements(target._array)
        copy_between(as_strided.view(target._array, (kept,), (1,), 0, shape, strides), array.reshape(-1)[:kept])
    _count("resize_", target)
    storage.version = former.version
    target._array, target._storage = array, storage
