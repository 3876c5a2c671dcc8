"""Elements by number along one axis: read, written, added, folded.

Sums and folds sort the numbers (NOTE [ Sums by row ] in embedding.py), so that they round alike in every run. Where a
number comes twice among those to write, any of its values may stay.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from .embedding import embedding_backward
from .launch import Array, kernel

__all__ = [
    "gather_along",
    "index_add",
    "index_added",
    "index_put_rows",
    "index_sums",
    "scatter_add_along",
    "scatter_along",
    "scatter_fold_along",
    "take_rows",
]

_NUMBERS = cupy.ElementwiseKernel(
    "int64 index, int64 columns, int64 length",
    "int64 number",
    "number = (long long)i / columns * length + index",
    "stowgrad_numbers_along",
)
_FOLD = """
long long end = starts[i + 1];
T total = y[targets[i]];
for (long long place = starts[i]; place < end; ++place) {
  T value = src[order[place]];
  %s
}
y[targets[i]] = total;
"""
_STEPS = {
    "sum": "total = (T)(total + value);",
    "prod": "total = (T)(total * value);",
    "amin": "if (total == total && !(value >= total)) total = value;",
    "amax": "if (total == total && !(value <= total)) total = value;",
}
_FOLDS = {
    name: cupy.ElementwiseKernel(
        "raw T src, raw int64 order, raw int64 starts, raw int64 targets",
        "raw T y",
        _FOLD % step,
        f"stowgrad_fold_{name}",
    )
    for name, step in _STEPS.items()
}


@kernel
def gather_along(x: Array, index: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, index[i, j, k], k]`` (with ``axis`` in the middle); ``index`` may be smaller than ``x``."""
    if index.size:
        rows, numbers = _fitting(x, index, axis), _numbers(index, x.shape[axis], axis)
        cupy.copyto(_last(out, axis), rows.reshape(-1)[numbers].reshape(_last(index, axis).shape))


@kernel
def scatter_along(out: Array, index: Array, src: Any, *, axis: int) -> None:
    """``out[i, index[i, j, k], k] = src[i, j, k]``; ``src`` is an array of ``index``'s shape or a number."""
    if index.size:
        rows = _fitting(out, index, axis)
        flat = rows.reshape(-1)
        values = _last(src, axis).reshape(-1) if isinstance(src, cupy.ndarray) and src.ndim else src
        flat[_numbers(index, out.shape[axis], axis)] = values
        cupy.copyto(rows, flat.reshape(rows.shape))


@kernel
def scatter_add_along(out: Array, index: Array, src: Array, *, axis: int) -> None:
    """``out[i, index[i, j, k], k] += src[i, j, k]``, for each place in the order of ``j``."""
    if out.dtype.kind in "biuc":  # not computed in floats
        _fold(out, index, src, axis, "sum")
    elif index.size:
        rows = _fitting(out, index, axis)
        sums = cupy.empty((rows.size, 1), out.dtype)
        embedding_backward(_last(src, axis).reshape(-1, 1), _numbers(index, out.shape[axis], axis), sums)
        cupy.add(rows, sums.reshape(rows.shape), out=rows)


@kernel
def scatter_fold_along(out: Array, index: Array, src: Array, *, axis: int, fold: str) -> None:
    """``out[i, index[i, j, k], k]`` takes ``src[i, j, k]`` in: as a factor, or if it is a new extreme.

    Args:
        fold: ``"prod"``, ``"amin"`` or ``"amax"``.
    """
    _fold(out, index, src, axis, fold)


def _fold(out: Array, index: Array, src: Array, axis: int, fold: str) -> None:
    if not index.size:
        return
    rows = _fitting(out, index, axis)
    flat = cupy.ascontiguousarray(rows).reshape(-1)
    numbers = _numbers(index, out.shape[axis], axis)
    order = cupy.argsort(numbers, kind="stable")
    ordered = numbers[order]
    inner = cupy.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    count = len(inner) + 1
    starts = cupy.empty((count + 1,), np.int64)
    starts[0], starts[1:-1], starts[-1] = 0, inner, len(numbers)
    values = cupy.ascontiguousarray(_last(src, axis)).reshape(-1)
    _FOLDS[fold](values, order, starts, ordered[starts[:-1]], flat, size=count)
    cupy.copyto(rows, flat.reshape(rows.shape))


def _last(array: Array, axis: int) -> Array:
    """A view with an axis as the last one."""
    return array.transpose([dim for dim in range(array.ndim) if dim != axis] + [axis]) if array.ndim else array


def _fitting(x: Array, index: Array, axis: int) -> Array:
    """The part of ``x`` that an index reaches, with the axis as the last one: a view."""
    return _last(x[tuple([slice(None) if d == axis else slice(size) for d, size in enumerate(index.shape)])], axis)


def _numbers(index: Array, length: int, axis: int) -> Array:
    """Numbers along rows of a length as numbers in the whole, flat, with the axis as the last one."""
    flat = _last(index, axis).reshape(-1)
    numbers = cupy.empty(flat.shape, np.int64)
    _NUMBERS(flat.astype(np.int64, copy=False), index.shape[axis], length, numbers)
    return numbers


@kernel
def take_rows(x: Array, index: Array, out: Array, *, axis: int) -> None:
    """``out[i, j, k] = x[i, index[j], k]``; numbers are in range, or count from the end."""
    if out.size:
        cupy.take(x, index, axis=axis, out=out)


@kernel
def index_put_rows(out: Array, index: Array, src: Any, *, axis: int) -> None:
    """``out[i, index[j], k] = src[i, j, k]``; ``src`` is an array that broadcasts, or a number."""
    out[(*[slice(None)] * axis, index)] = src


@kernel
def index_add(out: Array, index: Array, src: Array, *, axis: int, alpha: Any = 1) -> None:
    """``out[i, index[j], k] += alpha * src[i, j, k]``, in the order of ``j``; negative numbers count from the end."""
    if not src.size:
        return
    index = index % out.shape[axis]
    if out.dtype.kind in "biuc":
        spread = cupy.broadcast_to(index.reshape([-1 if dim == axis else 1 for dim in range(out.ndim)]), src.shape)
        _fold(out, spread, src if alpha == 1 else src * alpha, axis, "sum")
        return
    first = [axis, *[dim for dim in range(out.ndim) if dim != axis]]
    target, values = out.transpose(first), src.transpose(first)
    sums = cupy.empty((len(target), math.prod(target.shape[1:])), out.dtype)
    embedding_backward(values.reshape(len(values), -1), index, sums)
    if alpha != 1:
        cupy.multiply(sums, alpha, out=sums)
    cupy.add(target, sums.reshape(target.shape), out=target)


@kernel
def index_added(x: Array, index: Array, src: Array, out: Array, *, axis: int, alpha: Any = 1) -> None:
    """`index_add` into a copy of ``x`` in ``out``."""
    out[...] = x
    index_add(out, index, src, axis=axis, alpha=alpha)


@kernel
def index_sums(index: Array, src: Array, out: Array, *, axis: int) -> None:
    """Zeros with rows added: ``out[i, index[j], k] = `` the sum of these ``src[i, j, k]``, in the order of ``j``."""
    out.fill(0)
    index_add(out, index, src, axis=axis)
