"""Views as copies: ``expand_copy(x, size)`` is ``x.expand(size)`` with memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import shape as ops
from ..ops import view as view_ops
from ..ops.cast import clone as _clone
from ..ops.sum_to import expand as _expand
from ..out import into
from . import join, shape, views

__all__ = [
    "alias_copy",
    "as_strided_copy",
    "diagonal_copy",
    "expand_copy",
    "narrow_copy",
    "permute_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "t_copy",
    "transpose_copy",
    "unbind_copy",
    "unfold_copy",
    "unsqueeze_copy",
    "view_copy",
]


def _copied(out: Any, function: Any, *args: Any) -> Any:
    """A copy of the view that a function gives, or of each of its views."""
    if out is not None:
        return into(out, lambda *given: _copied(None, function, *given), *args)
    found = function(*args)
    return tuple(_clone(view) for view in found) if isinstance(found, tuple) else _clone(found)


def alias_copy(input: Any, *, out: Any = None) -> Any:
    """A copy."""
    return _copied(out, lambda x: x, input)


def as_strided_copy(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None, *, out: Any = None
) -> Any:
    """`as_strided` as a copy."""
    return _copied(out, views.as_strided, input, size, stride, storage_offset)


def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Any = None) -> Any:
    """`diagonal` as a copy."""
    return _copied(out, views.diagonal, input, offset, dim1, dim2)


def expand_copy(input: Any, size: Sequence[int], *, implicit: bool = False, out: Any = None) -> Any:
    """``input.expand(size)`` as a copy; ``implicit`` changes nothing."""
    return _copied(out, _expand, input, tuple(size))


def narrow_copy(input: Any, dim: int, start: int, length: int, *, out: Any = None) -> Any:
    """`narrow` as a copy."""
    return _copied(out, join.narrow, input, dim, start, length)


def permute_copy(input: Any, dims: Sequence[int], *, out: Any = None) -> Any:
    """`permute` as a copy."""
    return _copied(out, shape.permute, input, dims)


def split_with_sizes_copy(input: Any, split_sizes: Sequence[int], dim: int = 0, *, out: Any = None) -> Any:
    """`split_with_sizes` as copies."""
    return _copied(out, join.split_with_sizes, input, split_sizes, dim)


def squeeze_copy(input: Any, dim: int | Sequence[int] | None = None, *, out: Any = None) -> Any:
    """`squeeze` as a copy."""
    return _copied(out, shape.squeeze, input, dim)


def t_copy(input: Any, *, out: Any = None) -> Any:
    """`t` as a copy."""
    return _copied(out, shape.t, input)


def transpose_copy(input: Any, dim0: int, dim1: int, *, out: Any = None) -> Any:
    """`transpose` as a copy."""
    return _copied(out, shape.transpose, input, dim0, dim1)


def unbind_copy(input: Any, dim: int = 0, *, out: Any = None) -> Any:
    """`unbind` as copies."""
    return _copied(out, join.unbind, input, dim)


def unfold_copy(input: Any, dimension: int, size: int, step: int, *, out: Any = None) -> Any:
    """``input.unfold(dimension, size, step)`` as a copy."""
    return _copied(out, view_ops.unfold, input, dimension, size, step)


def unsqueeze_copy(input: Any, dim: int, *, out: Any = None) -> Any:
    """`unsqueeze` as a copy."""
    return _copied(out, shape.unsqueeze, input, dim)


def view_copy(input: Any, size: Sequence[int], *, out: Any = None) -> Any:
    """``input.view(size)`` as a copy."""
    return _copied(out, ops.view, input, tuple(size))
