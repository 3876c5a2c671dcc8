"""Sorting, selecting and searching, as functions: ``stowgrad.sort(x, dim=0)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import return_types
from ..dispatch import SCALARS as _SCALARS
from ..grad_mode import no_grad as _no_grad
from ..ops import elementwise as _elementwise
from ..ops import shape as _shape
from ..ops import sort as ops
from ..ops.along import take_along as _take_along
from ..ops.cast import constant as _constant
from ..ops.cast import to_dtype as _to_dtype
from ..ops.promotion import promote as _promote
from ..ops.reduce import any as _any
from ..ops.reduce import sum as _sum
from ..ops.rounding import ceil as _ceil
from ..ops.rounding import floor as _floor
from ..ops.rounding import round as _round
from ..out import into
from ..record import normalize_dim as _normalize_dim

__all__ = [
    "argsort",
    "bucketize",
    "kthvalue",
    "median",
    "mode",
    "msort",
    "nanmedian",
    "nanquantile",
    "quantile",
    "searchsorted",
    "sort",
    "topk",
]

_INT64 = np.dtype(np.int64)


def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None) -> Any:
    """The elements in order along a dimension, and where they stood: ``(values, indices)``.

    Equal elements stay as they stood, whether ``stable`` or not; NaN is the largest number. For backward only the
    indices are kept, in the smallest integer type that holds them.
    """
    found = ops.sort(input, dim, descending) if out is None else into(out, ops.sort, input, dim, descending)
    return return_types.sort(*found)


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None) -> Any:
    """Where the elements stood that `sort` puts in order."""
    if out is not None:
        return into(out, argsort, input, dim, descending, stable)
    with _no_grad():
        return ops.sort(input, dim, descending)[1]


def msort(input: Any, *, out: Any = None) -> Any:
    """The elements in order along the first dimension."""
    return ops.sort(input, 0)[0] if out is None else into(out, msort, input)


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None) -> Any:
    """The ``k`` largest (or smallest) elements along a dimension, and their indices: ``(values, indices)``."""
    args = (input, k, dim, largest, sorted)
    return return_types.topk(*(ops.topk(*args) if out is None else into(out, ops.topk, *args)))


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The ``k``-th smallest element along a dimension, counted from 1, and its index: ``(values, indices)``."""
    args = (input, k, dim, keepdim)
    return return_types.kthvalue(*(ops.kthvalue(*args) if out is None else into(out, ops.kthvalue, *args)))


def mode(input: Any, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The most frequent element along a dimension, the smallest of several, and its last index."""
    args = (input, dim, keepdim)
    return return_types.mode(*(ops.mode(*args) if out is None else into(out, ops.mode, *args)))


def median(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The median, the lower one of two; along a dimension ``(values, indices)``. NaN if there is a NaN."""
    if dim is None:
        return ops.median(input) if out is None else into(out, ops.median, input)
    args = (input, dim, keepdim)
    return return_types.median(*(ops.median_dim(*args) if out is None else into(out, ops.median_dim, *args)))


def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The median of what is not NaN; along a dimension ``(values, indices)``."""
    if dim is None:
        return ops.nanmedian(input) if out is None else into(out, ops.nanmedian, input)
    args = (input, dim, keepdim)
    return return_types.nanmedian(*(ops.nanmedian_dim(*args) if out is None else into(out, ops.nanmedian_dim, *args)))


def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear", out: Any = None
) -> Any:
    """The ``q``-quantiles along a dimension, or of all elements; NaN where there is a NaN.

    Args:
        input: floats.
        q: a number from 0 to 1, or a vector of them, which becomes the first dimension.
        dim, keepdim: as for reductions.
        interpolation: between two elements: ``linear``, ``lower``, ``higher``, ``midpoint`` or ``nearest``.
    """
    if out is not None:
        return into(out, quantile, input, q, dim, keepdim, interpolation=interpolation)
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear", out: Any = None
) -> Any:
    """The ``q``-quantiles of what is not NaN; arguments as those of `quantile`."""
    if out is not None:
        return into(out, nanquantile, input, q, dim, keepdim, interpolation=interpolation)
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _quantile(name: str, x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    dtype = x._array.dtype
    if dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {dtype}")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not hasattr(q, "_array"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = _constant(np.array(q, dtype), x._storage.device)
    if q._array.ndim > 1 or q._array.dtype != dtype:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor of the input's dtype {dtype}")
    if not x._array.size:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    shape = x._array.shape
    axis = 0 if dim is None else _normalize_dim(name, dim, max(len(shape), 1))
    lines = _shape.reshape(x, (x._array.size,)) if dim is None or not shape else x
    kept = [1] * len(shape) if dim is None else [1 if d == axis else n for d, n in enumerate(shape)]
    rest = [n for d, n in enumerate(lines._array.shape) if d != axis]
    found = _at_ranks(name, lines, axis, _shape.reshape(q, (-1,)), interpolation)
    lead = [] if not q._array.ndim else [q._array.size]
    return _shape.reshape(found, (*lead, *(kept if keepdim else [] if dim is None else rest)))


def _at_ranks(name: str, x: Any, axis: int, q: Any, interpolation: str) -> Any:
    """The quantiles of lines, as a matrix: one row for each of ``q``, one column for each line."""
    count = x._array.shape[axis]
    order = [axis, *[d for d in range(x._array.ndim) if d != axis]]
    rows = _shape.reshape(_shape.permute(ops.sort(x, axis)[0], order), (count, -1))
    columns = rows._array.shape[1]
    known = _elementwise.eq(rows, rows)
    if name == "nanquantile":
        last = _elementwise.sub(_sum(known, (0,), True), 1)
        last = _elementwise.where(_elementwise.lt(last, 0), 0, last)
        ranks = _elementwise.mul(_shape.reshape(q, (-1, 1)), _to_dtype(last, x._array.dtype))
    else:
        ranks = _elementwise.mul(_shape.reshape(q, (-1, 1)), float(count - 1))
        missing = _any(_elementwise.eq(known, 0), (0,), True)
        ranks = _elementwise.where(missing, float(count - 1), ranks)
    numbers = _constant(np.arange(columns), x._storage.device)
    flat = _shape.reshape(rows, (count * columns,))

    def at(rank: Any) -> Any:
        index = _elementwise.add(_elementwise.mul(_to_dtype(rank, _INT64), columns), numbers)
        return _shape.gather(flat, index)

    if interpolation in ("lower", "higher", "nearest"):
        return at({"lower": _floor, "higher": _ceil, "nearest": _round}[interpolation](ranks))
    below = _floor(ranks)
    low, high = at(below), at(_ceil(ranks))
    weight = 0.5 if interpolation == "midpoint" else _elementwise.sub(ranks, below)
    return _elementwise.add(low, _elementwise.mul(_elementwise.sub(high, low), weight))


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
    out: Any = None,
) -> Any:
    """Where numbers belong among sorted ones: in front of equal ones, or behind them if ``right``.

    Args:
        sorted_sequence: a vector for all, or a line in its last dimension for each line of ``input``.
        input: a tensor or a number.
        out_int32: indices in int32 rather than int64.
        right: the same as ``side="right"``.
        side: ``"left"`` or ``"right"``.
        sorter: the indices that sort ``sorted_sequence``, if it is not sorted.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right is true"
        )
    if out is not None:
        return into(
            out, searchsorted, sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter
        )
    lines = sorted_sequence
    if sorter is not None:
        if sorter._array.shape != lines._array.shape:
            raise RuntimeError("searchsorted(): boundary and sorter must have the same size")
        lines = _take_along(lines, sorter, lines._array.ndim - 1, True)
    if isinstance(input, _SCALARS):
        input = _constant(np.array(input, lines._array.dtype), lines._storage.device)
    if lines._array.ndim > 1 and lines._array.shape[:-1] != input._array.shape[:-1]:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor"
            f" and input value tensor must match, but we got boundaries tensor {list(lines._array.shape)} and input"
            f" value tensor {list(input._array.shape)}"
        )
    common = _promote(lines._array.dtype, input._array.dtype)
    lines, input = (x if x._array.dtype == common else _to_dtype(x, common) for x in (lines, input))
    dtype = np.dtype(np.int32) if out_int32 else _INT64
    return ops.searchsorted(lines, input, bool(right or side == "right"), dtype)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False, out: Any = None) -> Any:
    """The number of the bucket, between sorted boundaries, that each element falls into; see `searchsorted`."""
    if boundaries._array.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)
