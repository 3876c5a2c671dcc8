"""Tensors put together and taken apart, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..numpy_names import numpy_names as _numpy_names
from ..ops import join as join_ops
from ..ops import shape as ops
from ..ops.arrange import constant_pad as _constant_pad
from ..out import into
from ..record import normalize_dim
from ..variable import Variable as _Variable
from .shape import atleast_1d, atleast_2d, atleast_3d

__all__ = [
    "block_diag",
    "cat",
    "chunk",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "narrow",
    "row_stack",
    "select",
    "split",
    "split_with_sizes",
    "stack",
    "tensor_split",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "vsplit",
    "vstack",
]


# -- together ----------------------------------------------------------------------------------------------------------


@_numpy_names
def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors one after another along a dimension.

    Raises:
        ValueError: if there are none.
        TypeError: if one of them is no tensor.
        RuntimeError: if one has no dimension, or their shapes differ in another dimension.
    """
    tensors = _listed("cat", tensors)
    return ops.cat(tensors, dim) if out is None else into(out, ops.cat, tensors, dim)


def _listed(name: str, tensors: Any) -> tuple[Any, ...]:
    """A sequence of tensors, which one tensor is not."""
    if isinstance(tensors, _Variable):
        raise TypeError(f"{name}(): argument 'tensors' must be tuple of Tensors, not Tensor")
    return tuple(tensors)


@_numpy_names
def concat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """`cat`, by another name."""
    return cat(tensors, dim, out=out)


@_numpy_names
def concatenate(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """`cat`, by NumPy's name."""
    return cat(tensors, dim, out=out)


@_numpy_names
def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors of one shape along a new dimension."""
    tensors = _listed("stack", tensors)
    return join_ops.stack(tensors, dim) if out is None else into(out, join_ops.stack, tensors, dim)


def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Tensors side by side: along the second dimension, vectors along their only one."""
    parts = atleast_1d(_several("hstack", tensors))
    return cat(parts, 0 if parts[0]._array.ndim == 1 else 1, out=out)


def vstack(tensors: Any, *, out: Any = None) -> Any:
    """Tensors one below the other, along the first dimension; vectors are rows."""
    return cat(atleast_2d(_several("vstack", tensors)), 0, out=out)


def row_stack(tensors: Any, *, out: Any = None) -> Any:
    """`vstack`, by another name."""
    return vstack(tensors, out=out)


def dstack(tensors: Any, *, out: Any = None) -> Any:
    """Tensors along the third dimension."""
    return cat(atleast_3d(_several("dstack", tensors)), 2, out=out)


def column_stack(tensors: Any, *, out: Any = None) -> Any:
    """Tensors side by side, vectors as columns."""
    parts = [ops.reshape(x, (x._array.size, 1)) if x._array.ndim <= 1 else x for x in _several("column_stack", tensors)]
    return hstack(parts, out=out)


def _several(name: str, tensors: Any) -> list[Any]:
    """The tensors of a sequence."""
    parts = list(_listed(name, tensors))
    if not parts:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for number, part in enumerate(parts):
        if not isinstance(part, _Variable):
            raise TypeError(f"{name}: expected a Tensor as element {number}, got {type(part).__name__}")
    return parts


def block_diag(*tensors: Any) -> Any:
    """A matrix with matrices along its diagonal; vectors are rows."""
    blocks = [atleast_2d(x) for x in tensors]
    if not blocks:
        raise RuntimeError("block_diag: expected at least one tensor")
    for number, block in enumerate(blocks):
        if block._array.ndim > 2:
            raise RuntimeError(
                "block_diag: Input tensors must have 2 or fewer dimensions. Input"
                f" {number} has {block._array.ndim} dimensions"
            )
    width = sum(block._array.shape[1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        size = block._array.shape[1]
        rows.append(_constant_pad(block, ((0, 0), (before, width - before - size)), 0))
        before += size
    return ops.cat(rows, 0)


# -- apart -------------------------------------------------------------------------------------------------------------


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """A stretch of one dimension: a view. ``start`` may be negative, or a tensor with one integer."""
    dim = _dim("narrow", input, dim)
    size = input._array.shape[dim]
    if isinstance(start, _Variable) and (start._array.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    start = int(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return ops.index(input, (*[slice(None)] * dim, slice(start, start + length)))


def select(input: Any, dim: int, index: Any) -> Any:
    """The elements at one number along a dimension: a view without that dimension."""
    if not input._array.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, index = normalize_dim("select", dim, input._array.ndim), int(index)
    size = input._array.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input._array.shape)} at dimension {dim}"
        )
    return ops.index(input, (*[slice(None)] * dim, index))


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of consecutive stretches of one dimension: of a size (the last may be shorter), or of given sizes."""
    if isinstance(split_size_or_sections, tuple | list):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    return ops.split(tensor, _even(tensor, split_size_or_sections, dim), _dim("split", tensor, dim))  # type: ignore[no-any-return]


def _even(tensor: Any, size: Any, dim: int) -> list[int]:
    """Stretches of a size, the last one of what is left."""
    total, size = tensor._array.shape[_dim("split", tensor, dim)], int(size)
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0:
        if total:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}")
        return [0]
    return [min(size, total - start) for start in range(0, max(total, 1), size)]


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of consecutive stretches of given sizes of one dimension."""
    return ops.split(input, _checked(input, split_sizes, dim), _dim("split_with_sizes", input, dim))  # type: ignore[no-any-return]


def _checked(input: Any, split_sizes: Sequence[int], dim: int) -> list[int]:
    sizes, total = [int(size) for size in split_sizes], input._array.shape[_dim("split_with_sizes", input, dim)]
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
        )
    if sum(sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension {dim}),"
            f" but got split_sizes={sizes}"
        )
    return sizes


def _dim(name: str, tensor: Any, dim: int) -> int:
    if not tensor._array.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return normalize_dim(name, dim, tensor._array.ndim)


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Views of at most ``chunks`` stretches of equal size."""
    return ops.split(input, _chunks(input, chunks, dim), _dim("chunk", input, dim))  # type: ignore[no-any-return]


def _chunks(input: Any, chunks: int, dim: int) -> list[int]:
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    total = input._array.shape[_dim("chunk", input, dim)]
    return _even(input, -(-total // chunks), dim) if total else [0] * chunks


def _parts(input: Any, sizes: Sequence[int], dim: int) -> tuple[Any, ...]:
    """Views of stretches, each on its own."""
    dim, begin, found = normalize_dim("split", dim, input._array.ndim), 0, []
    for size in sizes:
        found.append(ops.index(input, (*[slice(None)] * dim, slice(begin, begin + size))))
        begin += size
    return tuple(found)


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """`chunk`, each view of which may be written in place while gradients are recorded."""
    return _parts(input, _chunks(input, chunks, dim), dim)


def unsafe_split(tensor: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """`split`, each view of which may be written in place while gradients are recorded."""
    return _parts(tensor, _even(tensor, split_size, dim), dim)


def unsafe_split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """`split_with_sizes`, each view of which may be written in place while gradients are recorded."""
    return _parts(input, _checked(input, split_sizes, dim), dim)


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of a number of stretches about equal in size, or of those between given places.

    >>> import stowgrad
    >>> [part.tolist() for part in stowgrad.tensor_split(stowgrad.arange(7), 3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    """
    dim = _dim("tensor_split", input, dim)
    if hasattr(indices_or_sections, "_array"):
        if indices_or_sections._array.dtype != "int64" or indices_or_sections._array.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero- or one-dimensional tensor of int64"
            )
        indices_or_sections = indices_or_sections.tolist()
    total = input._array.shape[dim]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices_or_sections}")
        least, longer = divmod(total, indices_or_sections)
        return ops.split(input, [least + (part < longer) for part in range(indices_or_sections)], dim)  # type: ignore[no-any-return]
    ends = [slice(end).indices(total)[1] for end in indices_or_sections]
    pairs = list(zip([0, *ends], [*ends, total], strict=True))
    if all(begin <= end for begin, end in pairs):
        return ops.split(input, [end - begin for begin, end in pairs], dim)  # type: ignore[no-any-return]
    lead = [slice(None)] * dim
    return tuple(ops.index(input, (*lead, slice(begin, max(begin, end)))) for begin, end in pairs)


def _split_along(name: str, input: Any, given: Any, dim: int, least: int) -> tuple[Any, ...]:
    ndim = input._array.ndim
    if ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
        )
    if isinstance(given, int) and (given <= 0 or input._array.shape[dim] % given):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension"
            f" {input._array.shape[dim]} is not divisible by the split_size {given}!"
        )
    return tensor_split(input, given, dim)


def hsplit(input: Any, indices_or_sections: int | Sequence[int]) -> tuple[Any, ...]:
    """Views of equal parts, or of those between given places, along the second dimension (a vector's only one)."""
    return _split_along("hsplit", input, indices_or_sections, 0 if input._array.ndim == 1 else 1, 1)


def vsplit(input: Any, indices_or_sections: int | Sequence[int]) -> tuple[Any, ...]:
    """Views of equal parts, or of those between given places, along the first dimension."""
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input: Any, indices_or_sections: int | Sequence[int]) -> tuple[Any, ...]:
    """Views of equal parts, or of those between given places, along the third dimension."""
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of the elements along one dimension."""
    if not input._array.ndim:
        raise IndexError("unbind: Dimension specified as 0 but tensor has no dimensions")
    return ops.unbind(input, normalize_dim("unbind", dim, input._array.ndim))  # type: ignore[no-any-return]
