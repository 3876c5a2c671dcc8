"""Copies with elements in other places or left out: triangles, and the padding of arrays by their own elements."""

from __future__ import annotations

import cupy

from ..geometry import inner_part, margins
from .launch import Array, kernel

__all__ = [
    "pad_edges",
    "pad_edges_backward",
    "triangle",
]

_TRIANGLE = cupy.ElementwiseKernel(
    "T x, int64 rows, int64 columns, int64 diagonal, int64 upper",
    "T y",
    """
    long long column = (long long)i % columns, row = (long long)i / columns % rows;
    long long place = column - row - diagonal;
    y = (upper ? place >= 0 : place <= 0) ? x : (T)0;
    """,
    "stowgrad_triangle",
)


@kernel
def triangle(x: Array, out: Array, *, diagonal: int, upper: bool) -> None:
    """``out = x`` above (or below) a diagonal, which belongs to it, and 0 elsewhere; ``out`` may be ``x``."""
    rows, columns = x.shape[-2:]
    if x.size:
        _TRIANGLE(x, rows, columns, diagonal, int(upper), out)


@kernel
def pad_edges(x: Array, out: Array, *, pads: tuple[tuple[int, int, int], ...], mode: str) -> None:
    """``out = x`` with more elements before and behind in some dimensions: copies of those of ``x``.

    Args:
        pads: dimension, elements before, elements behind: none is negative.
        mode: ``"reflect"``, ``"replicate"`` or ``"circular"``.
    """
    cupy.copyto(out[inner_part(x.shape, pads)], x)
    for margin, source in margins(x.shape, pads, mode):
        cupy.copyto(out[margin], out[source])


@kernel
def pad_edges_backward(grad: Array, out: Array, *, pads: tuple[tuple[int, int, int], ...], mode: str) -> None:
    """``out``: the sums of ``grad`` over the copies that `pad_edges` makes of each element."""
    total = grad.copy()
    for margin, source in reversed(margins(out.shape, pads, mode)):
        target, more = total[source], total[margin]
        axes = tuple(axis for axis, size in enumerate(target.shape) if size == 1 != more.shape[axis])
        if axes:
            more = cupy.sum(more, axis=axes, keepdims=True)
        cupy.add(target, more, out=target)
    cupy.copyto(out, total[inner_part(out.shape, pads)])
