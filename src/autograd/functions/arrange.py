"""Copies with elements in another order, repeated, left out or counted up, as functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import as_device
from ..ops import arrange as ops
from ..ops import shape as shape_ops
from ..ops.cast import clone as _clone
from ..ops.cast import constant as _constant
from ..ops.cast import to_dtype as _to_dtype
from ..ops.join import stack as _stack
from ..ops.sum_to import expand as _expand
from ..out import into
from ..record import normalize_dim
from ..variable import Variable as _Variable
from .index import index_select

__all__ = [
    "cartesian_prod",
    "combinations",
    "constant_pad_nd",
    "flip",
    "fliplr",
    "flipud",
    "meshgrid",
    "repeat_interleave",
    "roll",
    "rot90",
    "tile",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "vander",
]


def _dims(name: str, dims: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    found = tuple(normalize_dim(name, dim, ndim) for dim in ((dims,) if isinstance(dims, int) else dims))
    if len(set(found)) != len(found):
        raise RuntimeError(f"{name}: dim {dims} names a dimension twice")
    return found


def flip(input: Any, dims: int | Sequence[int]) -> Any:
    """A copy with some dimensions in reverse order."""
    return ops.flip(input, _dims("flip", dims, input._array.ndim))


def fliplr(input: Any) -> Any:
    """A copy with the columns (the second dimension) in reverse order."""
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return ops.flip(input, (1,))


def flipud(input: Any) -> Any:
    """A copy with the rows (the first dimension) in reverse order."""
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return ops.flip(input, (0,))


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """A copy turned ``k`` times by 90 degrees in the plane of two dimensions, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    ndim = input._array.ndim
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    first, second = dims
    if first == second or abs(first - second) == ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {first} and dim1 = {second}")
    first, second = _dims("rot90", dims, ndim)
    if k % 4 == 0:
        return _clone(input)
    if k % 4 == 2:
        return ops.flip(input, (first, second))
    flipped = (second,) if k % 4 == 1 else (first,)
    return shape_ops.transpose(ops.flip(input, flipped), first, second)


def roll(input: Any, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Any:
    """A copy with elements shifted along dimensions; what leaves at an end comes in at the other.

    Without ``dims`` the elements are shifted as if they were one row.

    >>> import stowgrad
    >>> stowgrad.arange(4).roll(1).tolist()
    [3, 0, 1, 2]
    """
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    sizes = input._array.shape
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        if len(steps) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:0")
        return shape_ops.reshape(roll(shape_ops.reshape(input, (input._array.size,)), steps, 0), sizes)
    places = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(steps) != len(places):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(places)}")
    if not sizes:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    total: dict[int, int] = {}
    for place, step in zip(places, steps, strict=True):
        dim = normalize_dim("roll", place, len(sizes))
        total[dim] = (total.get(dim, 0) + step) % max(sizes[dim], 1)
    return ops.roll(input, tuple((dim, step) for dim, step in total.items() if step))


def tile(input: Any, dims: Sequence[int]) -> Any:
    """The whole repeated along dimensions, counted from the last one."""
    missing = input._array.ndim - len(dims)
    return repeated(input, (*[1] * missing, *dims))


def repeated(input: Any, counts: Sequence[int]) -> Any:
    """`Tensor.repeat`."""
    sizes = input._array.shape
    if len(counts) < len(sizes):
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if min(counts, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(counts)}")
    whole = _expand(input, (*[1] * (len(counts) - len(sizes)), *sizes)) if len(counts) > len(sizes) else input
    return ops.repeat(whole, tuple(counts))


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element repeated in its place.

    Args:
        repeats: how often: a number, or a tensor of one for each element along ``dim``. Without it ``input`` holds such
            numbers, and the result is which element comes where.
        dim: along which dimension; of all elements as one row for None.
        output_size: the size of the result, if it is known.
    """
    if repeats is None:
        return _numbers(input)
    if dim is None:
        input, dim = shape_ops.reshape(input, (input._array.size,)), 0
    if not input._array.ndim:
        input = shape_ops.reshape(input, (1,))
    dim = normalize_dim("repeat_interleave", dim, input._array.ndim)
    size = input._array.shape[dim]
    if isinstance(repeats, _Variable) and repeats._array.size == 1:
        repeats = int(repeats._array.reshape(()))
    if not isinstance(repeats, _Variable):
        if repeats < 0:
            raise RuntimeError("repeats can not be negative")
        found = ops.repeat_each(input, int(repeats), dim)
    else:
        if repeats._array.ndim != 1 or repeats._array.shape[0] != size:
            raise RuntimeError(
                "repeats must have the same size as input along dim, but got"
                f" repeats.size(0) = {repeats._array.size} and input.size({dim}) = {size}"
            )
        found = index_select(input, dim, _numbers(repeats))
    if output_size is not None and found._array.shape[dim] != output_size:
        raise RuntimeError(
            f"repeat_interleave: allocated size {output_size} does not match required size {found._array.shape[dim]}"
        )
    return found


def _numbers(repeats: Any) -> Any:
    """Which element comes where if each comes a number of times."""
    counts = repeats.numpy(force=True)
    if counts.ndim != 1 or counts.dtype.kind != "i":
        raise RuntimeError("repeat_interleave only accepts 1D vector of int32 or int64 as repeat")
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    return _constant(np.repeat(np.arange(len(counts), dtype=counts.dtype), counts), repeats._storage.device)


def tril(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A copy with zeros above a diagonal of the last two dimensions."""
    return ops.tril(input, diagonal) if out is None else into(out, ops.tril, input, diagonal)


def triu(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A copy with zeros below a diagonal of the last two dimensions."""
    return ops.triu(input, diagonal) if out is None else into(out, ops.triu, input, diagonal)


def _indices_of(numbers: Any, dtype: Any, device: Any) -> Any:
    return _constant(np.stack(numbers).astype(dtype or np.int64), as_device(device))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """Where the elements of a matrix on and below a diagonal are: a row of row numbers and one of column numbers."""
    _check_matrix("tril_indices", row, col)
    return _indices_of(np.tril_indices(row, offset, col), dtype, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """Where the elements of a matrix on and above a diagonal are: a row of row numbers and one of column numbers."""
    _check_matrix("triu_indices", row, col)
    return _indices_of(np.triu_indices(row, offset, col), dtype, device)


def _check_matrix(name: str, row: int, col: int) -> None:
    if row < 0 or col < 0:
        raise RuntimeError(f"{name}: row and col must be non-negative, got {row} and {col}")


def constant_pad_nd(input: Any, pad: Sequence[int], value: Any = 0) -> Any:
    """Dimensions made longer with a number, or (by negative numbers) shorter.

    Args:
        pad: how many elements come before and behind: of the last dimension, then of the one before it, and so on.
    """
    pad = tuple(int(part) for part in pad)
    ndim = input._array.ndim
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is"
            f" {len(pad)} while the input has {ndim} dimensions."
        )
    pairs = [(pad[place], pad[place + 1]) for place in range(0, len(pad), 2)]
    return ops.constant_pad(input, (*[(0, 0)] * (ndim - len(pairs)), *reversed(pairs)), value)


# -- grids and combinations --------------------------------------------------------------------------------------------


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Vectors as coordinates of a grid: views, one for each vector, all of the grid's shape.

    Args:
        indexing: ``"ij"``, or ``"xy"`` to have the first two dimensions swapped.
    """
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in tensors:
        if x._array.ndim > 1:
            raise RuntimeError(f"Expected 0D or 1D tensor in the tensor list but got: {list(x._array.shape)}")
        if x._array.dtype != tensors[0]._array.dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swapped = indexing == "xy" and len(tensors) > 1
    order = list(range(len(tensors)))
    if swapped:
        order[:2] = [1, 0]
    shape = tuple(tensors[number]._array.size for number in order)
    found = []
    for number, x in enumerate(tensors):
        place = order.index(number)
        line = shape_ops.reshape(x, tuple(-1 if dim == place else 1 for dim in range(len(shape))))
        found.append(_expand(line, shape))
    return tuple(found)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each of some vectors, a row each."""
    if not tensors:
        raise RuntimeError("cartesian_prod: expected a non-empty list of Tensors")
    for x in tensors:
        if x._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x._array.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    columns = [shape_ops.reshape(grid, (grid._array.size,)) for grid in meshgrid(*tensors)]
    return _stack(columns, 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of ``r`` elements of a vector, a row each, in the order of `itertools.combinations`."""
    if input._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._array.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return shape_ops.zeros_of(input, (0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(input._array.size), r)), np.int64).reshape(-1, r)
    numbers = _constant(rows.reshape(-1), input._storage.device)
    return shape_ops.reshape(index_select(input, 0, numbers), rows.shape)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix of the powers of a vector's elements, N - 1 of them down to 0 (or up)."""
    if x._array.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x._array.size if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    powers = powers_of(_to_dtype(x, np.dtype(np.int64)) if x._array.dtype == bool else x, count)
    return powers if increasing else ops.flip(powers, (1,))


def powers_of(x: Any, count: int) -> Any:
    """The powers from 0 up of each element, as a last dimension."""
    columns = [shape_ops.zeros_of(x, x._array.shape) + 1]
    for _ in range(1, count):
        columns.append(columns[-1] * x)
    return _stack(columns[:count], x._array.ndim) if count else shape_ops.zeros_of(x, (*x._array.shape, 0))
