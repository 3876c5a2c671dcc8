"""Reductions over any axes. Sums are pairwise or nearly so inside a tile; tiles are combined in order, in float64.

``out`` has the reduced axes as 1 or not at all: only its size counts. Arrays whose axes are a permutation of C order
are reduced where they lie; others are copied first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..executor import Array, parallel_for, parallel_slices, scratch
from .rows import SUMMED, combine, reduce_rows, sum_of_all, sum_of_columns
from .tiling import BOOL, FLOAT32, FLOAT64, DType, contiguous, copy_tiled, elementwise, rows_per_tile, tile_size

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "mean",
    "sum",
    "sum_of_squares",
    "sum_to",
]

_LEAST_CHUNK = 64
_FEW_TERMS = 4  # so few are added one after another
_SMALL = 2048  # elements: so few are reduced by one call, whatever the axes
_RUN = 1024  # elements that are added on the lanes of the processor, where all elements are
_TILES_TOGETHER = 4  # one step is short: see the note in tiling.py


def sum(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.sum(axes)``, over all axes for None; in ``out``'s dtype, half precision by way of float32."""
    if out.dtype.kind in "iub?":
        np.add.reduce(x, axis=axes, dtype=out.dtype, out=out.reshape(_kept_shape(x, axes)))
    else:
        _reduce(np.add, x, out, axes, FLOAT32 if out.dtype.itemsize == 2 else out.dtype)


def mean(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.mean(axes)``."""
    sum(x, out, axes=axes)
    with np.errstate(invalid="ignore", divide="ignore"):
        np.divide(out, x.size / out.size if out.size else 1, out, casting="same_kind")


def sum_to(x: Array, out: Array) -> None:
    """``out = x`` summed over the axes along which ``out`` was broadcast to ``x``'s shape: broadcasting's reverse."""
    extra = x.ndim - out.ndim
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, length in enumerate(out.shape) if length == 1 and x.shape[axis + extra] != 1
    )
    if axes:
        sum(x, out, axes=axes)
    else:
        copy_tiled(x, out)


def amax(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.max(axes)``; NaN wins."""
    _reduce(np.maximum, x, out, axes, out.dtype)


def amin(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.min(axes)``; NaN wins."""
    _reduce(np.minimum, x, out, axes, out.dtype)


def any(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out`` (bool): whether an element along the axes is not 0."""
    _reduce(np.logical_or, x, out, axes, BOOL)


def all(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out`` (bool): whether no element along the axes is 0."""
    _reduce(np.logical_and, x, out, axes, BOOL)


def argmax(x: Array, out: Array, *, axis: int | None = None) -> None:
    """``out`` (intp) ``= x.argmax(axis)``, of the flattened array for None: the first of equal ones."""
    _arg_extreme(np.argmax, x, out, axis)


def argmin(x: Array, out: Array, *, axis: int | None = None) -> None:
    """``out`` (intp) ``= x.argmin(axis)``, of the flattened array for None: the first of equal ones."""
    _arg_extreme(np.argmin, x, out, axis)


def sum_of_squares(x: Array) -> float:
    """The sum of all squares, added up in float64 over tiles whose sums are in ``x``'s dtype."""
    if x.size == 0:
        return 0.0
    flat = contiguous(x).reshape(-1)
    step = tile_size(x.size, x.dtype)
    partials = scratch((-(-x.size // step),), FLOAT64)

    def tile(where: slice, squares: Array) -> None:
        part = squares[: where.stop - where.start]
        np.multiply(flat[where], flat[where], part)
        partials[where.start // step] = sum_of_all(part)

    parallel_slices(tile, x.size, step, [((step,), x.dtype)])
    return float(np.add.reduce(partials))


# -- any axes: one primitive over the middle axis of three -------------------------------------------------------------


def _kept_shape(x: Array, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    reduced = set(range(x.ndim)) if axes is None else {axis % x.ndim for axis in axes}
    return tuple(length for axis, length in enumerate(x.shape) if axis not in reduced)


def _reduce(ufunc: np.ufunc, x: Array, out: Array, axes: tuple[int, ...] | None, working: DType) -> None:
    if x.size <= _SMALL and x.dtype == working:
        gone = x.ndim if axes is None else len(axes)
        ufunc.reduce(x, axis=axes, out=out if out.ndim == x.ndim - gone else out.reshape(_kept_shape(x, axes)))
        return
    first, last = (0, x.ndim - 1) if axes is None else (axes[0], axes[-1]) if axes else (0, -1)
    together = axes is None or last - first == len(axes) - 1
    if out.dtype == working and together and 0 <= first <= last and x.flags.c_contiguous:
        before, after = math.prod(x.shape[:first]), math.prod(x.shape[last + 1 :])
        length = math.prod(x.shape[first : last + 1])
        _reduce_middle(ufunc, x.reshape(before, length, after), out.reshape(before, after))
        return
    reduced = [axes is None] * x.ndim
    for axis in axes or ():
        reduced[axis] = True
    order = list(range(x.ndim))
    if not x.flags.c_contiguous:
        order.sort(key=lambda axis: -abs(x.strides[axis]))
    moved = contiguous(x.transpose(order))
    kept = [axis for axis in order if not reduced[axis]]
    direct = out.dtype == working and kept == sorted(kept)
    target = out.reshape(-1) if direct else scratch((out.size,), working)
    _reduce_groups(ufunc, moved, _runs([reduced[axis] for axis in order], moved.shape), target)
    if not direct:
        back = np.argsort(kept) if kept else ()
        result = target.reshape([x.shape[axis] for axis in kept]).transpose(*back)
        np.copyto(out.reshape(result.shape), result, casting="unsafe")


def _runs(reduced: list[bool], shape: tuple[int, ...]) -> list[tuple[bool, int]]:
    """Neighbouring axes with one fate, as one axis."""
    runs: list[tuple[bool, int]] = []
    for gone, length in zip(reduced, shape, strict=True):
        if runs and runs[-1][0] == gone:
            runs[-1] = (gone, runs[-1][1] * length)
        else:
            runs.append((gone, length))
    return runs


def _reduce_groups(ufunc: np.ufunc, x: Array, runs: list[tuple[bool, int]], out: Array) -> None:
    """Reduce the last run that is to go, then the one before it, ..., into the flat ``out``."""
    places = [place for place, (gone, _) in enumerate(runs) if gone]
    if not places:
        copy_tiled(x.reshape(-1), out)
    while places:
        place = places.pop()
        before = math.prod(length for _, length in runs[:place])
        after = math.prod(length for gone, length in runs[place + 1 :] if not gone)
        target = scratch((before * after,), out.dtype) if places else out
        _reduce_middle(ufunc, x.reshape(before, runs[place][1], after), target.reshape(before, after))
        x = target


def _reduce_middle(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """``out[i, k] = ufunc.reduce(x[i, :, k])``.

    Long middles are cut into chunks whose results are combined in order.
    """
    outer, length, inner = x.shape
    if out.size == 0:
        return
    if length == 0:
        ufunc.reduce(x, axis=1, out=out)  # zeros, or NumPy's error for what has no identity
        return
    tile = _TILES_TOGETHER * tile_size(x.size, x.dtype)
    chunk = min(length, max(_LEAST_CHUNK, tile // inner))
    width = min(inner, max(1, tile // chunk))
    batch = max(1, tile // (length * inner)) if chunk == length and width == inner else 1
    chunks, widths, batches = -(-length // chunk), -(-inner // width), -(-outer // batch)
    if chunks * widths * batches == 1:
        _reduce_block(ufunc, x, out)
        return
    if ufunc is np.add and out.size == 1 and x.dtype == out.dtype and x.dtype in SUMMED:
        _sum_flat(x.reshape(-1), out, chunk)
        return
    partials = out[None] if chunks == 1 else scratch((chunks, outer, inner), out.dtype)

    def block(index: int) -> None:
        index, across = divmod(index, widths)
        first, along = divmod(index, chunks)
        rows = slice(first * batch, (first + 1) * batch)
        columns = slice(across * width, (across + 1) * width)
        _reduce_block(ufunc, x[rows, along * chunk : (along + 1) * chunk, columns], partials[along, rows, columns])

    parallel_for(block, batches * chunks * widths)
    if chunks > 1:
        if ufunc is np.add:
            combine(partials, out)
        else:
            ufunc.reduce(partials, axis=0, out=out)


def _sum_flat(x: Array, out: Array, tile: int) -> None:
    """``out = x.sum()`` of floats of 32 or 64 bits: runs in their dtype, then in float64."""
    runs = x[: x.size - x.size % _RUN].reshape(-1, _RUN)
    sums = scratch((len(runs) + 1,), x.dtype)
    parallel_slices(lambda where: np.einsum("ij->i", runs[where], out=sums[:-1][where]), len(runs), tile // _RUN)
    sums[-1] = np.add.reduce(x[runs.size :])
    out[...] = np.add.reduce(sums, dtype=FLOAT64)


def _reduce_block(ufunc: np.ufunc, x: Array, out: Array) -> None:
    if x.shape[2] == 1:
        reduce_rows(ufunc, x[:, :, 0], out[:, 0])
    elif 1 < x.shape[1] <= _FEW_TERMS and x.shape[2] >= _LEAST_CHUNK and x.dtype == out.dtype:
        elementwise(ufunc, x[:, 0], x[:, 1], out)  # a third of the time that the reduction takes
        for term in range(2, x.shape[1]):
            elementwise(ufunc, out, x[:, term], out)
    elif ufunc is np.add and (len(x) == 1 or x.shape[1] > _LEAST_CHUNK):
        for matrix, sums in zip(x, out, strict=True):
            sum_of_columns(matrix, sums)
    else:
        ufunc.reduce(x, axis=1, out=out, dtype=out.dtype)


def _arg_extreme(function: Callable[..., Any], x: Array, out: Array, axis: int | None) -> None:
    x = contiguous(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis %= x.ndim
    outer, length, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    source, target = x.reshape(outer, length, inner), out.reshape(outer, inner)
    step = rows_per_tile(outer, length * inner, x.dtype)

    def tile(where: slice) -> None:
        function(source[where], axis=1, out=target[where])

    parallel_slices(tile, outer, step)
