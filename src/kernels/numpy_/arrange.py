"""Copies with elements in other places or left out: triangles, and the padding of arrays by their own elements."""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array, parallel_slices, scratch
from ..geometry import inner_part, margins
from .tiling import DType, contiguous, copy_tiled, elementwise, rows_per_tile

__all__ = [
    "pad_edges",
    "pad_edges_backward",
    "triangle",
]


_WORDS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # by the bytes of an element


def triangle(x: Array, out: Array, *, diagonal: int, upper: bool) -> None:
    """``out = x`` above (or below) a diagonal, which belongs to it, and 0 elsewhere; ``out`` may be ``x``."""
    rows, columns = x.shape[-2:]
    step = rows_per_tile(rows, columns * math.prod(x.shape[:-2]), x.dtype)
    words = _WORDS.get(x.itemsize)
    if words is None:
        parallel_slices(lambda where: _masked(x, out, where, diagonal, upper), rows, step)
        return
    keep = _diagonals(rows, columns, diagonal, upper, np.dtype(words))

    def tile(where: slice) -> None:
        part, kept = x[..., where, :].view(words), out[..., where, :].view(words)
        elementwise(np.bitwise_and, keep[where], part, kept)

    parallel_slices(tile, rows if columns else 0, step)


def _diagonals(rows: int, columns: int, diagonal: int, upper: bool, words: DType) -> Array:
    """All bits where an element of a matrix stays, else none: a view of the numbers of its diagonals.

    Along a diagonal they are equal, so each row is the one above it from an element further left on.
    """
    bits = scratch((rows + columns,), words)
    first = min(max(rows - 1 + diagonal, 0), len(bits)) if upper else min(max(rows + diagonal, 0), len(bits))
    bits[:first], bits[first:] = (0, -1) if upper else (-1, 0)
    return np.ndarray(
        (rows, columns), words, bits, max(rows - 1, 0) * words.itemsize, (-words.itemsize, words.itemsize)
    )


def _masked(x: Array, out: Array, where: slice, diagonal: int, upper: bool) -> None:
    """`triangle` of some rows, of elements that no integer is as long as."""
    rows, columns = x.shape[-2:]
    line = np.arange(where.start, where.stop)[:, None]
    number = np.arange(columns) - min(max(diagonal, -rows), columns)
    if out is not x:
        np.copyto(out[..., where, :], x[..., where, :])
    np.copyto(out[..., where, :], out.dtype.type(0), where=number < line if upper else number > line)


def pad_edges(x: Array, out: Array, *, pads: tuple[tuple[int, int, int], ...], mode: str) -> None:
    """``out = x`` with more elements before and behind in some dimensions: copies of those of ``x``.

    Args:
        pads: dimension, elements before, elements behind: none is negative.
        mode: ``"reflect"``, ``"replicate"`` or ``"circular"``.
    """
    copy_tiled(x, out[inner_part(x.shape, pads)])
    for margin, source in margins(x.shape, pads, mode):
        copy_tiled(out[source], out[margin])


def pad_edges_backward(grad: Array, out: Array, *, pads: tuple[tuple[int, int, int], ...], mode: str) -> None:
    """``out``: the sums of ``grad`` over the copies that `pad_edges` makes of each element."""
    first = min(dim for dim, _, _ in pads)
    lead, rest = math.prod(grad.shape[:first]), grad.shape[first:]
    given, result = contiguous(grad).reshape(lead, *rest), out.reshape(lead, *out.shape[first:])
    moved = tuple([(dim - first + 1, before, behind) for dim, before, behind in pads])
    inner, steps = inner_part(result.shape, moved), margins(result.shape, moved, mode)

    def tile(where: slice, total: Array) -> None:
        total = total[: where.stop - where.start]
        np.copyto(total, given[where])
        for margin, source in reversed(steps):
            target = total[source]
            axes = tuple(axis for axis, size in enumerate(target.shape) if size == 1 != total[margin].shape[axis])
            more = total[margin].sum(axis=axes, keepdims=True, dtype=total.dtype) if axes else total[margin]
            np.add(target, more, out=target)
        np.copyto(result[where], total[inner])

    step = rows_per_tile(lead, math.prod(rest), grad.dtype)
    parallel_slices(tile, lead, step, [((step, *rest), grad.dtype)])
