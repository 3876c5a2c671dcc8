"""Norms of vectors: powers are summed tile by tile, never written out."""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array, parallel_for, scratch
from .rows import SUMMED, combine, reduce_rows, sum_of_columns, sum_of_products
from .tiling import FLOAT32, contiguous, tile_size

__all__ = [
    "vector_norm",
]

_FEW_BYTES = 2048  # below which NumPy's own reduction takes less time than what stands around tiles


def vector_norm(x: Array, out: Array, *, order: float, axes: tuple[int, ...]) -> None:
    """``out = (|x| ** order).sum(axes) ** (1 / order)``; how many are not 0 for 0, the extreme for infinity."""
    if not axes or x.nbytes < _FEW_BYTES:
        _small(x, out, order, axes)
        return
    lead, trail = min(axes), max(axes) + 1
    if trail - lead != len(axes):  # bring the axes together
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        x = x.transpose((*kept, *sorted(axes)))
        lead, trail = len(kept), x.ndim
    x = contiguous(x)
    outer, length, inner = (math.prod(part) for part in (x.shape[:lead], x.shape[lead:trail], x.shape[trail:]))
    source, target = x.reshape(outer, length, inner), out.reshape(outer, inner)
    working = FLOAT32 if out.dtype.itemsize == 2 else out.dtype
    tile = tile_size(x.size, x.dtype)
    width = min(inner, tile)
    chunk = min(length, max(1, tile // width))
    batch = max(1, tile // (chunk * width)) if chunk == length and width == inner else 1
    chunks, widths, batches = -(-length // chunk), -(-inner // width), -(-outer // batch)
    partials = scratch((chunks, outer, inner), working)

    def block(index: int, powers: Array) -> None:
        index, across = divmod(index, widths)
        first, along = divmod(index, chunks)
        rows = slice(first * batch, (first + 1) * batch)
        columns = slice(across * width, (across + 1) * width)
        part = source[rows, along * chunk : (along + 1) * chunk, columns]
        if by_products:
            with np.errstate(all="ignore"):
                sum_of_products(part[:, :, 0], part[:, :, 0], partials[along, rows, 0], powers)
            return
        power = powers[: part.size].reshape(part.shape)
        _raise(part, power, order)
        _reduce(_fold(order), power, partials[along, rows, columns])

    by_products = order == 2 and inner == 1 and x.dtype in SUMMED
    parallel_for(block, batches * chunks * widths, [((0 if by_products else batch * chunk * width,), working)])
    total = partials[0]
    if chunks > 1:
        total = scratch((outer, inner), working)
        if _fold(order) is np.add:
            combine(partials, total)
        else:
            _fold(order).reduce(partials, axis=0, out=total)
    _root(total, order)
    np.copyto(target, total, casting="unsafe")


def _reduce(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """``out = ufunc.reduce(x, axis=1)`` of three axes."""
    if x.shape[2] == 1:
        reduce_rows(ufunc, x[:, :, 0], out[:, 0])
    elif ufunc is np.add:
        for matrix, sums in zip(x, out, strict=True):
            sum_of_columns(matrix, sums)
    else:
        ufunc.reduce(x, axis=1, out=out)


def _small(x: Array, out: Array, order: float, axes: tuple[int, ...]) -> None:
    power = np.empty(x.shape, FLOAT32 if out.dtype.itemsize == 2 else out.dtype)
    _raise(x, power, order)
    total = _fold(order).reduce(power, axis=axes) if axes else power
    total = np.asarray(total)
    _root(total, order)
    np.copyto(out.reshape(total.shape), total, casting="unsafe")


def _fold(order: float) -> np.ufunc:
    return np.add if math.isfinite(order) else np.maximum if order > 0 else np.minimum


def _raise(x: Array, out: Array, order: float) -> None:
    """``|x| ** order`` where the order is finite and not 0."""
    if order == 0:
        np.not_equal(x, 0, out=out, casting="unsafe")
        return
    with np.errstate(all="ignore"):
        if order == 2 and x.dtype == out.dtype:
            np.multiply(x, x, out=out)
            return
        np.absolute(x, out=out, casting="unsafe") if x.dtype.kind == "c" else np.absolute(x, out=out)
        if order == 2:
            np.multiply(out, out, out=out)
        elif order != 1 and math.isfinite(order):
            np.power(out, order, out=out)


def _root(total: Array, order: float) -> None:
    with np.errstate(all="ignore"):
        if order == 2:
            np.sqrt(total, out=total)
        elif order not in (0, 1) and math.isfinite(order):
            np.power(total, 1 / order, out=total)
