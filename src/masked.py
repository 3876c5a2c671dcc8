"""Functions of the elements that a mask admits, under the names of ``torch.masked``.

A mask is a bool tensor that broadcasts to the input: true where an element counts. What does not count is replaced by
the value that changes nothing, 0 in a sum and 1 in a product, so that the gradient there is 0. Backward keeps the mask
and what the function itself keeps.

>>> import stowgrad
>>> x, mask = stowgrad.tensor([1.0, 2.0, 3.0]), stowgrad.tensor([True, False, True])
>>> stowgrad.masked.mean(x, mask=mask)
tensor(2.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .autograd import functions as _f
from .autograd.functions.linear_algebra.norms import vector_norm as _vector_norm
from .autograd.functions.reduce import any as _any
from .autograd.ops.cast import to_dtype as _to_dtype
from .autograd.ops.elementwise import where as _where
from .autograd.ops.promotion import category as _category
from .autograd.ops.reduce import Dims, normalize_dims
from .autograd.ops.sum_to import expand as _expand

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def sum(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The sum of the elements that count, over dimensions or over all."""
    return _f.sum(_filled(input, mask, 0), dim, keepdim, dtype=dtype)


def prod(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The product of the elements that count, over dimensions or over all."""
    result = _filled(input, mask, 1)
    for d in reversed(normalize_dims("prod", dim, input._array.ndim)):
        result = _f.prod(result, d, keepdim, dtype=dtype)
    return result if input._array.ndim else _f.prod(result, dtype=dtype)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The running sum of the elements that count, along a dimension."""
    wanted = dtype or input._array.dtype
    return _cast(_f.cumsum(_filled(input, mask, 0), dim, dtype=wanted), wanted)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The running product of the elements that count, along a dimension."""
    wanted = dtype or input._array.dtype
    return _cast(_f.cumprod(_filled(input, mask, 1), dim, dtype=wanted), wanted)


def amax(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The largest of the elements that count, over dimensions or over all."""
    return _cast(_f.amax(_filled(input, mask, _least(input)), dim, keepdim), dtype)


def amin(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The smallest of the elements that count, over dimensions or over all."""
    return _cast(_f.amin(_filled(input, mask, _most(input)), dim, keepdim), dtype)


def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The index of the largest of the elements that count, in the dtype of the input."""
    found = _f.argmax(_filled(input, mask, _least(input)), dim, keepdim)
    return _cast(found, dtype or input._array.dtype)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The index of the smallest of the elements that count, in the dtype of the input."""
    found = _f.argmin(_filled(input, mask, _most(input)), dim, keepdim)
    return _cast(found, dtype or input._array.dtype)


def mean(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The mean of the elements that count, over dimensions or over all; NaN where none does.

    Raises:
        ValueError: for integers and bools without a dtype of floats.
    """
    wanted = np.dtype(dtype or input._array.dtype)
    if _category(wanted) < 2:
        raise ValueError(f"masked.mean: the dtype must be either floating point or complex, got {wanted}")
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return _f.div(total, _count(input, dim, keepdim, mask))


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The median of the elements that count, the lower one of two, along a dimension; NaN where none does.

    Raises:
        ValueError: where none does, for integers: they have no NaN.
    """
    floating = _category(input._array.dtype) >= 2
    numbers = input if floating else _to_dtype(input, np.dtype(np.float32))
    found = _f.nanmedian(_filled(numbers, mask, math.nan), dim, keepdim)[0]
    if floating:
        return found
    if bool(_any(_f.ne(found, found)).item()):
        raise ValueError("masked.median: expected no fully masked out rows if dtype is not floating point")
    return _cast(found, dtype or input._array.dtype)


def logsumexp(input: Any, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of the sum of exponentials of the elements that count."""
    return _cast(_f.logsumexp(_filled(input, mask, _least(input)), dim, keepdim), dtype)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """``log(exp(input) + exp(other))`` of what counts in either."""
    first, second = _filled(input, input_mask, _least(input)), _filled(other, other_mask, _least(other))
    return _cast(_f.logaddexp(first, second), dtype)


def norm(
    input: Any, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The vector norm of the elements that count, over dimensions or over all."""
    order = 2.0 if ord is None else ord
    filled = _filled(input, mask, math.inf if order == -math.inf else 0)
    dims = normalize_dims("norm", dim, input._array.ndim)
    return _vector_norm(filled, order, dims, keepdim, dtype=dtype)


def var(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The variance of the elements that count: squared deviations over their number less ``correction`` (1)."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = correction if correction is not None else 0.0 if unbiased is False else 1.0
    wanted = np.dtype(dtype or input._array.dtype)
    computed = wanted if _category(wanted) >= 2 else np.dtype(np.float32)
    count = _count(input, dim, True, mask)
    average = _f.div(sum(input, dim, keepdim=True, dtype=dtype, mask=mask), count)
    away = _f.sub(input, average)
    squares = _f.mul(away, _f.conj(away))
    total = sum(squares, dim, keepdim=keepdim, dtype=computed, mask=mask)
    freedom = _count(input, dim, keepdim, mask)
    if less and mask is None:
        freedom = max(freedom - less, 0)
    elif less:
        freedom = _f.clamp(_f.sub(_cast(freedom, total._array.real.dtype), less), min=0)
    return _cast(_f.div(total, freedom), computed if dtype is None else wanted)


def std(
    input: Any,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The standard deviation of the elements that count: the square root of `var`."""
    return _f.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Soft-max over the elements that count, along a dimension; the others are 0."""
    return _f.softmax(_filled(input, mask, _least(input)), dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of `softmax`; the elements that don't count are -inf."""
    return _f.log_softmax(_filled(input, mask, _least(input)), dim, dtype)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """`softmax` of the negated elements that count."""
    return _f.softmax(_f.neg(_filled(input, mask, _most(input))), dim, dtype)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The elements that count over their `norm`, which is at least ``eps``; the others are 0."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype or input._array.dtype, mask=mask)
    return _f.div(_filled(input, mask, 0), _f.maximum(length, eps))


def _checked(input: Any, mask: Any) -> Any:
    """A mask, of bools."""
    if mask._array.ndim > input._array.ndim:
        raise IndexError(
            f"masked: expected a mask that broadcasts to the input, got {mask._array.ndim} dimensions for"
            f" {input._array.ndim}"
        )
    return mask if mask._array.dtype == bool else _f.ne(mask, 0)


def _filled(input: Any, mask: Any, value: Any) -> Any:
    """The input with a number in place of what does not count."""
    return input if mask is None else _where(_checked(input, mask), input, value)


def _count(input: Any, dim: Dims, keepdim: bool, mask: Any) -> Any:
    """How many elements count, over dimensions: a number if all do."""
    shape = input._array.shape
    if mask is None:
        return math.prod(shape[d] for d in normalize_dims("masked", dim, len(shape)))
    return _f.sum(_expand(_checked(input, mask), shape), dim, keepdim)


def _cast(x: Any, dtype: Any) -> Any:
    return x if dtype is None or x._array.dtype == dtype else _to_dtype(x, np.dtype(dtype))


def _least(input: Any) -> Any:
    """What is never the largest."""
    dtype = input._array.dtype
    return -math.inf if _category(dtype) >= 2 else int(np.iinfo(dtype).min)


def _most(input: Any) -> Any:
    """What is never the smallest."""
    dtype = input._array.dtype
    return math.inf if _category(dtype) >= 2 else int(np.iinfo(dtype).max)
