"""Views by diagonals, windows and strides, what is made of them, and copies in which such a part is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import shape as shape_ops
from ..ops import strided as strided_ops
from ..ops import view as ops
from ..ops.cast import clone as _clone
from ..ops.shape import index as _index
from ..out import into
from ..record import normalize_dim
from .shape import atleast_1d

__all__ = [
    "as_strided",
    "as_strided_scatter",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "select_scatter",
    "slice_scatter",
]


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonals of the matrices that two dimensions make, as a last dimension: a view.

    Args:
        offset: how far right of (negative: below) the main diagonal.
    """
    return ops.diagonal(input, offset, dim1, dim2)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices, in two new dimensions, with the last dimension on their diagonals and zeros elsewhere."""
    sizes = input._array.shape
    first, second = (normalize_dim("diag_embed", dim, len(sizes) + 1) for dim in (dim1, dim2))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if not sizes:
        raise IndexError("diag_embed: expected a tensor with at least one dimension")
    lead = iter(sizes[:-1])
    size = sizes[-1] + abs(offset)
    shape = tuple(size if dim in (first, second) else next(lead) for dim in range(len(sizes) + 1))
    return ops.diagonal_backward(input, shape, offset, first, second)


def diag(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """The diagonal of a matrix (a copy), or a matrix with a vector on its diagonal."""
    return _diag(input, diagonal) if out is None else into(out, _diag, input, diagonal)


def _diag(input: Any, diagonal: int) -> Any:
    if input._array.ndim == 1:
        return diag_embed(input, diagonal)
    if input._array.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input._array.ndim}D")
    return _clone(ops.diagonal(input, diagonal, 0, 1))


def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements on its diagonal."""
    return diag_embed(shape_ops.reshape(atleast_1d(input), (input._array.size,)), offset)


def as_strided(input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """The memory of a tensor through other sizes and strides: a view.

    Args:
        size, stride: in elements; elements may overlap.
        storage_offset: where the view begins in the storage; where the tensor begins, if it is None.

    Raises:
        RuntimeError: if it would reach out of the storage.

    >>> import stowgrad
    >>> stowgrad.arange(5).as_strided((3, 3), (1, 1)).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    return strided_ops.strided_tensor(input, tuple(size), tuple(stride), storage_offset)


def fill_diagonal(x: Any, value: Any, wrap: bool) -> None:
    """Set the main diagonal of a tensor: see `Tensor.fill_diagonal_`."""
    sizes = x._array.shape
    if len(sizes) < 2:
        raise RuntimeError("fill_diagonal_: dimensions must larger than 1")
    if len(sizes) > 2 and len(set(sizes)) > 1:
        raise RuntimeError(f"fill_diagonal_: all dimensions of input must be of equal length, got {list(sizes)}")
    height, width = sizes[:2]
    if len(sizes) > 2:
        as_strided(x, (height,), (sum(x.stride()),)).fill_(value)
        return
    diagonal(x).fill_(value)
    if wrap and height > width + 1:
        fill_diagonal(x[width + 1 :], value, wrap)


# -- copies with a part replaced ---------------------------------------------------------------------------------------


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy of ``input`` in which the slice ``start:end:step`` of a dimension is ``src``."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    dim = normalize_dim("slice_scatter", dim, input._array.ndim)
    return ops.slice_scatter(input, src, (*[slice(None)] * dim, slice(start, end, step)))


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy of ``input`` in which the elements at one number along a dimension are ``src``."""
    dim = normalize_dim("select_scatter", dim, input._array.ndim)
    _index.view(input._array, (*[slice(None)] * dim, index))  # whether there is one
    return ops.select_scatter(input, src, (*[slice(None)] * dim, index))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy of ``input`` in which a diagonal is ``src``."""
    return ops.diagonal_scatter(input, src, offset, dim1, dim2)


def as_strided_scatter(
    input: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """A copy of ``input`` whose memory is ``src`` where sizes and strides look; they must not overlap.

    Raises:
        NotImplementedError: if the elements of ``input`` do not lie in C order.
    """
    return strided_ops.strided_scatter(input, src, tuple(size), tuple(stride), storage_offset)
