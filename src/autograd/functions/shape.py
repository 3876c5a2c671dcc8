"""Views and copies of another shape, as functions: ``stowgrad.reshape(x, (2, 3))``."""

from __future__ import annotations

from typing import Any

from ..ops import shape as ops
from ..ops.cast import clone as _clone
from ..out import into
from ..record import normalize_dim

__all__ = [
    "cat",
    "chunk",
    "clone",
    "flatten",
    "narrow",
    "permute",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "t",
    "transpose",
    "unbind",
    "unsqueeze",
]


def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors one after another along a dimension.

    Raises:
        ValueError: if there are none.
        TypeError: if one of them is no tensor.
        RuntimeError: if one has no dimension, or their shapes differ in another dimension.
    """
    return ops.cat(tensors, dim) if out is None else into(out, ops.cat, tensors, dim)


def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors of one shape along a new dimension."""
    parts = [unsqueeze(tensor, dim) for tensor in tensors]
    if not parts:
        raise RuntimeError("stack: expected a non-empty list of Tensors")
    return cat(parts, dim, out=out)


def clone(input: Any) -> Any:
    """A copy; gradients flow through it."""
    return _clone(input)


def reshape(input: Any, shape: tuple[int, ...]) -> Any:
    """The same elements in another shape: a view where strides allow it, a copy where not; one size may be -1."""
    return ops.reshape(input, tuple(shape))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from one to another as one."""
    sizes = input._array.shape
    if not sizes:
        return ops.reshape(input, (1,))
    start = normalize_dim("flatten", start_dim, len(sizes))
    end = normalize_dim("flatten", end_dim, len(sizes))
    if start == end:
        return input
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    merged = 1
    for size in sizes[start : end + 1]:
        merged *= size
    return ops.reshape(input, (*sizes[:start], merged, *sizes[end + 1 :]))


def permute(input: Any, dims: tuple[int, ...]) -> Any:
    """The dimensions in another order: a view."""
    return ops.permute(input, tuple(dims))


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions swapped: a view."""
    return ops.transpose(input, dim0, dim1)


def t(input: Any) -> Any:
    """The transpose of a matrix (or a vector as it is): a view."""
    if input._array.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input._array.ndim}D")
    return ops.transpose(input, 0, 1) if input._array.ndim == 2 else ops.view(input, input._array.shape)


def unsqueeze(input: Any, dim: int) -> Any:
    """A new dimension of size 1: a view."""
    dim = normalize_dim("unsqueeze", dim, input._array.ndim + 1)
    sizes = input._array.shape
    return ops.index(input, (*[slice(None)] * dim, None)) if sizes else ops.view(input, (1,))


def squeeze(input: Any, dim: int | None = None) -> Any:
    """A dimension of size 1 (or all of them) left out: a view."""
    sizes = input._array.shape
    chosen = range(len(sizes)) if dim is None else (normalize_dim("squeeze", dim, len(sizes)),)
    key = tuple(0 if d in chosen and size == 1 else slice(None) for d, size in enumerate(sizes))
    return ops.index(input, key)


def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """A stretch of one dimension: a view."""
    dim = normalize_dim("narrow", dim, input._array.ndim)
    size = input._array.shape[dim]
    if not 0 <= start <= size or length < 0 or start + length > size:
        raise RuntimeError(f"narrow: start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return ops.index(input, (*[slice(None)] * dim, slice(start, start + length)))


def split(input: Any, split_size: int | list[int] | tuple[int, ...], dim: int = 0) -> Any:
    """Views of consecutive stretches of one dimension."""
    dim = normalize_dim("split", dim, input._array.ndim)
    size = input._array.shape[dim]
    if isinstance(split_size, int):
        if split_size <= 0:
            raise RuntimeError(f"split expects split_size be positive, but got split_size={split_size}")
        sizes = [min(split_size, size - start) for start in range(0, max(size, 1), split_size)]
    else:
        sizes = list(split_size)
        if sum(sizes) != size or min(sizes, default=0) < 0:
            raise RuntimeError(f"split: the sizes {sizes} must add up to {size}, the size of dimension {dim}")
    return ops.split(input, sizes, dim)


def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """Views of at most ``chunks`` stretches of equal size."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input._array.shape[normalize_dim("chunk", dim, input._array.ndim)]
    return split(input, max(-(-size // chunks), 1), dim)


def unbind(input: Any, dim: int = 0) -> Any:
    """Views of the elements along one dimension."""
    return ops.unbind(input, normalize_dim("unbind", dim, input._array.ndim))
