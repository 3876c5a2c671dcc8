"""Choosing elements by indices and masks, and scattering into them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...kernels.index_range import all_in_range
from ..ops import masked as masked_ops
from ..ops import scatter as ops
from ..ops import shape as shape_ops
from ..ops.arrange import constant_pad as _constant_pad
from ..ops.cast import clone as _clone
from ..ops.sum_to import expand as _expand
from ..out import into
from ..record import broadcast_shapes as _broadcast_shapes
from ..record import normalize_dim
from ..variable import Variable as _Variable
from .shape import unsqueeze

__all__ = [
    "argwhere",
    "gather",
    "index_select",
    "masked_scatter",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "take",
    "take_along_dim",
    "unravel_index",
]


def lined(x: Any) -> Any:
    """A tensor without dimensions as a vector of one element."""
    return x if x._array.ndim else unsqueeze(x, 0)


def checked_index(name: str, x: Any, dim: int, index: Any, src: Any = None) -> int:
    """The dimension, if an index with a number for each element fits a tensor (and what is scattered into it).

    Raises:
        RuntimeError: if it does not.
        IndexError: if there is no such dimension.
    """
    dim = normalize_dim(name, dim, x._array.ndim)
    if not isinstance(index, _Variable):
        raise TypeError(f"{name}(): argument 'index' must be Tensor, not {type(index).__name__}")
    numbers, sizes = index._array, x._array.shape
    if not numbers.size:
        return dim
    if not _are_numbers(numbers.dtype):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if numbers.shape != sizes or (isinstance(src, _Variable) and src._array.shape != sizes):
        _check_sizes(name, numbers, sizes, dim, src)
    ops.check_numbers(name, index, sizes[dim] if sizes else 1, dim)
    return dim


def _are_numbers(dtype: Any) -> bool:
    return bool(dtype.kind == "i" and dtype.itemsize >= 4)


def _check_sizes(name: str, numbers: Any, sizes: tuple[int, ...], dim: int, src: Any) -> None:
    """`checked_index` of an index that has not the shape of everything else."""
    if max(numbers.ndim, 1) != max(len(sizes), 1):
        raise RuntimeError(f"{name}(): Index tensor must have the same number of dimensions as self tensor")
    for place, size in enumerate(numbers.shape if sizes else ()):
        if place != dim and size > sizes[place]:
            raise RuntimeError(
                f"{name}(): Size does not match at dimension {place} expected index {list(numbers.shape)} to be no"
                f" larger than self {list(sizes)} apart from dimension {dim}"
            )
        if isinstance(src, _Variable) and (src._array.ndim != numbers.ndim or size > src._array.shape[place]):
            raise RuntimeError(
                f"{name}(): Expected index {list(numbers.shape)} to be no larger than src {list(src._array.shape)}"
            )


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False, out: Any = None) -> Any:
    """Elements by number along a dimension: ``out[i, j] = input[i, index[i, j]]`` for dimension 1.

    Args:
        index: integers, in a shape no larger than ``input``'s along the other dimensions; the result has it. It is what
            the node keeps.
        sparse_grad: only False.
    """
    if out is not None:
        return into(out, gather, input, dim, index, sparse_grad=sparse_grad)
    if sparse_grad:
        raise NotImplementedError("gather: there are no sparse gradients")
    dim = checked_index("gather", input, dim, index)
    found = ops.gather_along(lined(input), lined(index), dim)
    return found if index._array.ndim else shape_ops.view(found, ())


def take(input: Any, index: Any, *, out: Any = None) -> Any:
    """Elements by number as if the tensor were one row; negative numbers count from the end."""
    if out is not None:
        return into(out, take, input, index)
    if index._array.dtype != "int64":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index._array.dtype}")
    size = input._array.size
    check_flat(index, size)
    return shape_ops.gather(shape_ops.reshape(input, (size,)), index)


def check_flat(index: Any, size: int) -> None:
    """Raise unless all numbers lie in a row of a size."""
    array = index._array
    if not array.size or index._storage.device.type == "meta":
        return
    least, most = int(array.min()), int(array.max())
    if least < -size or most >= size:
        wrong = least if least < -size else most
        raise IndexError(f"out of range: tried to access index {wrong} on a tensor of {size} elements.")


def take_along_dim(input: Any, indices: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """`gather`, where ``input`` and ``indices`` broadcast along the other dimensions; of one row without ``dim``."""
    if out is not None:
        return into(out, take_along_dim, input, indices, dim)
    if not _are_numbers(indices._array.dtype):
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices._array.dtype}")
    if dim is None:
        return gather(
            shape_ops.reshape(input, (input._array.size,)), 0, shape_ops.reshape(indices, (indices._array.size,))
        )
    if input._array.ndim != indices._array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got"
            f" {input._array.ndim} dimensions for input, and {indices._array.ndim} dimensions for indices"
        )
    dim = normalize_dim("take_along_dim", dim, input._array.ndim)
    sizes, numbers = input._array.shape, indices._array.shape
    if not sizes:
        return gather(input, dim, indices)
    length, index = sizes[dim], indices
    before, behind = _broadcast_but_one(sizes, numbers, dim)
    whole = input if (*before, length, *behind) == sizes else _expand(input, (*before, length, *behind))
    if (*before, numbers[dim], *behind) != numbers:
        index = _expand(indices, (*before, numbers[dim], *behind))
    if length and indices._storage.device.type != "meta":
        if not all_in_range(indices._array, length):
            index = index.remainder(length)
        return ops.gather_along(whole, index, dim)
    return gather(whole, dim, index)


def _broadcast_but_one(sizes: tuple[int, ...], numbers: tuple[int, ...], dim: int) -> tuple[tuple[int, ...], ...]:
    """What two shapes broadcast to before and behind a dimension."""
    parts = (sizes[:dim], numbers[:dim]), (sizes[dim + 1 :], numbers[dim + 1 :])
    return tuple(
        first if first == second else _broadcast_shapes("take_along_dim", first, second) for first, second in parts
    )


def index_select(input: Any, dim: int, index: Any, *, out: Any = None) -> Any:
    """Rows by number along a dimension: ``out[i, j] = input[i, index[j]]`` for dimension 1.

    Args:
        index: a vector of integers, or one integer; it is what the node keeps.
    """
    if out is not None:
        return into(out, index_select, input, dim, index)
    dim = checked_rows("index_select", input, dim, index, IndexError)
    found = ops.index_select(lined(input), lined(index), dim)
    return found if input._array.ndim else shape_ops.view(found, ())


def checked_rows(name: str, x: Any, dim: int, index: Any, error: type[Exception] = IndexError) -> int:
    """The dimension, if an index with a number for each row fits a tensor.

    Raises:
        RuntimeError: for an index of another dtype.
        IndexError: for one with more dimensions, and if there is no such dimension.
        Exception: ``error`` for a number out of range.
    """
    dim = normalize_dim(name, dim, x._array.ndim)
    if not isinstance(index, _Variable):
        raise TypeError(f"{name}(): argument 'index' must be Tensor, not {type(index).__name__}")
    if not _are_numbers(index._array.dtype):
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index")
    if index._array.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    ops.check_numbers(name, index, x._array.shape[dim] if x._array.ndim else 1, dim, error)
    return dim


def masked_select(input: Any, mask: Any, *, out: Any = None) -> Any:
    """The elements where a mask of bools is true, in one dimension; both broadcast. The node keeps the mask."""
    if out is not None:
        return into(out, masked_select, input, mask)
    if mask._array.dtype != bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = _broadcast_shapes("masked_select", input._array.shape, mask._array.shape)
    return shape_ops.gather(*[lined(x if x._array.shape == shape else _expand(x, shape)) for x in (input, mask)])


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy of ``input`` in which elements where a mask is true are the first ones of ``source``, in order.

    Raises:
        RuntimeError: if ``source`` has too few, or another dtype.
    """
    shape = _broadcast_shapes("masked_scatter", input._array.shape, mask._array.shape)
    check_masked(input, mask, source)
    return masked_ops.masked_scatter(
        *[x if x._array.shape == shape else _expand(x, shape) for x in (input, mask)], source
    )


def check_masked(x: Any, mask: Any, source: Any) -> None:
    """Raise unless a mask and a source are of the right dtypes."""
    if mask._array.dtype != bool:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask._array.dtype}")
    if source._array.dtype != x._array.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f" {x._array.dtype} and {source._array.dtype}"
        )


def nonzero(input: Any, *, out: Any = None, as_tuple: bool = False) -> Any:
    """Where the elements are that are not 0: a row of numbers for each; with ``as_tuple`` a vector a dimension."""
    if out is not None:
        return into(out, nonzero, input)
    if input._storage.device.type == "meta":
        raise NotImplementedError("nonzero: the size of the result depends on values, which the meta device has not")
    if not as_tuple:
        return masked_ops.nonzero(input)
    found = masked_ops.nonzero(lined(input))
    return tuple(_clone(shape_ops.index(found, (slice(None), dim))) for dim in range(found._array.shape[1]))


def argwhere(input: Any) -> Any:
    """Where the elements are that are not 0: a row of numbers for each."""
    return nonzero(input)


def nonzero_static(input: Any, *, size: int, fill_value: int = -1, out: Any = None) -> Any:
    """The first ``size`` rows of `nonzero`; rows of ``fill_value`` follow where there are fewer."""
    if out is not None:
        return into(out, nonzero_static, input, size=size, fill_value=fill_value)
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found = nonzero(input)
    return _constant_pad(found, ((0, size - found._array.shape[0]), (0, 0)), fill_value)


def unravel_index(indices: Any, shape: int | Sequence[int]) -> tuple[Any, ...]:
    """Numbers that count all elements of a shape as coordinates: a tensor for each dimension.

    >>> import stowgrad
    >>> stowgrad.unravel_index(stowgrad.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices._array.dtype.kind not in "iu":
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices._array.dtype}")
    if min(sizes, default=0) < 0:
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    return tuple(
        (indices // max(math.prod(sizes[dim + 1 :]), 1)).remainder(max(size, 1)) for dim, size in enumerate(sizes)
    )


def elements(x: Any, sizes: Sequence[int]) -> Any:
    """The first elements of a tensor in each dimension: what an index of those sizes reaches."""
    if x._array.shape == tuple(sizes):
        return x
    return shape_ops.index(x, tuple(slice(size) for size in sizes))
