"""Reductions, as functions: ``stowgrad.sum(x, dim=0)``."""

from __future__ import annotations

from typing import Any

import numpy as _np

from .. import return_types
from ..grad_mode import no_grad as _no_grad
from ..numpy_names import numpy_names as _numpy_names
from ..ops import elementwise as _elementwise
from ..ops import reduce as ops
from ..ops import scan as _scan
from ..ops import softmax as _softmax
from ..ops import sort as _sort
from ..ops.cast import to_dtype as _to_dtype
from ..ops.comparison import isfinite as _isfinite
from ..ops.complex import real as _real
from ..ops.extremes import maximum as _maximum
from ..ops.extremes import minimum as _minimum
from ..ops.reduce import Dims
from ..ops.shape import reshape as _reshape
from ..ops.sum_to import sum_to as _sum_to
from ..ops.view import diagonal as _diagonal
from ..out import into
from ..queries import check_tensors as _check_tensors

__all__ = [
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "prod",
    "sum",
    "sum_to_size",
    "trace",
]


@_numpy_names
def sum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """The sum over dimensions, or over all; of integers and bools in int64, or in ``dtype``."""
    return ops.sum(input, dim, keepdim, dtype) if out is None else into(out, ops.sum, input, dim, keepdim, dtype)


@_numpy_names
def mean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """The mean over dimensions, or over all; of floating-point numbers, or in ``dtype``."""
    return ops.mean(input, dim, keepdim, dtype) if out is None else into(out, ops.mean, input, dim, keepdim, dtype)


@_numpy_names
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """The sum of what is not NaN."""
    if out is not None:
        return into(out, nansum, input, dim, keepdim, dtype=dtype)
    kind = input._array.dtype.kind
    if kind == "c":
        raise RuntimeError("nansum does not support complex inputs")
    if kind in "iub":
        return ops.sum(input, dim, keepdim, dtype)
    same = dtype is None or input._array.dtype == dtype
    return ops.nansum(input if same else _to_dtype(input, _np.dtype(dtype)), dim, keepdim)


@_numpy_names
def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """The mean of what is not NaN."""
    if out is not None:
        return into(out, nanmean, input, dim, keepdim, dtype=dtype)
    if input._array.dtype.kind in "iub":
        raise RuntimeError(f"nanmean(): expected input to have floating point dtype but got {input._array.dtype}")
    count = ops.sum(_elementwise.eq(input, input), dim, keepdim)
    return _elementwise.div(nansum(input, dim, keepdim, dtype=dtype), count)


@_numpy_names
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None) -> Any:
    """The product along a dimension, or of all elements; its gradient is exact at zeros, too."""
    return _scan.prod(input, dim, keepdim, dtype) if out is None else into(out, _scan.prod, input, dim, keepdim, dtype)


@_numpy_names
def amax(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The largest element over dimensions, or over all; equal ones share the gradient."""
    return ops.amax(input, dim, keepdim) if out is None else into(out, ops.amax, input, dim, keepdim)


@_numpy_names
def amin(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The smallest element over dimensions, or over all; equal ones share the gradient."""
    return ops.amin(input, dim, keepdim) if out is None else into(out, ops.amin, input, dim, keepdim)


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """The smallest and the largest element along a dimension, or of all: ``(min, max)``."""
    if out is not None:
        return into(out, aminmax, input, dim=dim, keepdim=keepdim)
    if dim is not None and not isinstance(dim, int):
        raise TypeError(f"aminmax(): argument 'dim' must be int, not {type(dim).__name__}")
    return return_types.aminmax(ops.amin(input, dim, keepdim), ops.amax(input, dim, keepdim))


@_numpy_names
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """The largest element of all; along a dimension ``(values, indices)``; or the larger of two tensors.

    Of equal elements of a line the first one counts, and gets the gradient; without ``dim`` they share it.

    >>> import stowgrad
    >>> values, indices = stowgrad.max(stowgrad.tensor([[1.0, 5.0], [7.0, 3.0]]), 1)
    >>> values, indices
    (tensor([5., 7.]), tensor([1, 0]))
    """
    return _extreme(return_types.max, _sort.max, ops.amax, _maximum, input, dim, keepdim, other, out)


@_numpy_names
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None) -> Any:
    """The smallest element of all; along a dimension ``(values, indices)``; or the smaller of two tensors: as `max`."""
    return _extreme(return_types.min, _sort.min, ops.amin, _minimum, input, dim, keepdim, other, out)


def _extreme(
    made: Any, along: Any, of_all: Any, of_two: Any, input: Any, dim: Any, keepdim: bool, other: Any, out: Any
) -> Any:
    if hasattr(dim, "_array"):
        dim, other = None, dim
    _check_tensors(along.name, input=input)
    if other is not None:
        return of_two(input, other) if out is None else into(out, of_two, input, other)
    if dim is None:
        return of_all(input) if out is None else into(out, of_all, input)
    return made(*(along(input, dim, keepdim) if out is None else into(out, along, input, dim, keepdim)))


@_numpy_names
def argmax(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The index of the largest element along a dimension, or in the flattened tensor."""
    return ops.argmax(input, dim, keepdim) if out is None else into(out, ops.argmax, input, dim, keepdim)


@_numpy_names
def argmin(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The index of the smallest element along a dimension, or in the flattened tensor."""
    return ops.argmin(input, dim, keepdim) if out is None else into(out, ops.argmin, input, dim, keepdim)


@_numpy_names
def all(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Whether all elements are true (not zero), over dimensions or over all."""
    return ops.all(input, dim, keepdim) if out is None else into(out, ops.all, input, dim, keepdim)


@_numpy_names
def any(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Whether any element is true (not zero), over dimensions or over all."""
    return ops.any(input, dim, keepdim) if out is None else into(out, ops.any, input, dim, keepdim)


@_numpy_names
def count_nonzero(input: Any, dim: Dims = None) -> Any:
    """How many elements are not zero, over dimensions or over all."""
    return ops.sum(_elementwise.ne(input, 0), dim)


@_numpy_names
def logsumexp(input: Any, dim: Dims, keepdim: bool = False, *, out: Any = None) -> Any:
    """The logarithm of the sum of exponentials over dimensions, computed without overflow."""
    if out is not None:
        return into(out, logsumexp, input, dim, keepdim)
    if input._array.dtype.kind != "c":
        return _softmax.logsumexp(input, dim, keepdim)
    with _no_grad():
        most = ops.amax(_real(input), dim, True)
        most = _elementwise.where(_isfinite(most), most, 0.0)
    total = _elementwise.log(ops.sum(_elementwise.exp(_elementwise.sub(input, most)), dim, True))
    found = _elementwise.add(total, most)
    dims = ops.normalize_dims("logsumexp", dim, input._array.ndim)
    return found if keepdim else _reshape(found, ops.reduced_shape(input._array.shape, dims, False))


def sum_to_size(input: Any, *size: Any) -> Any:
    """The sum over the dimensions along which a tensor of that size would be broadcast to the input's.

    Raises:
        RuntimeError: if it could not be.
    """
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    shape = input._array.shape
    lead = len(shape) - len(wanted)
    if lead < 0 or [n for n, m in zip(wanted, shape[lead:], strict=True) if n not in (1, m)]:
        raise RuntimeError(f"size {list(wanted)} is not expandable to size {list(shape)}.")
    return input if wanted == shape else _sum_to(input, tuple(wanted))


def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    if input._array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input._array.ndim}")
    return ops.sum(_diagonal(input, 0, 0, 1))
