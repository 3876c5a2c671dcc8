"""Norms of vectors."""

from __future__ import annotations

import math

import cupy
import numpy as np

from .launch import Array, is_bfloat16, kernel

__all__ = [
    "vector_norm",
]


@kernel
def vector_norm(x: Array, out: Array, *, order: float, axes: tuple[int, ...]) -> None:
    """``out = (|x| ** order).sum(axes) ** (1 / order)``; how many are not 0 for 0, the extreme for infinity."""
    working = np.dtype(np.float32) if out.dtype.itemsize == 2 else out.dtype
    size = cupy.absolute(x.astype(np.float32) if is_bfloat16(x) else x).astype(working, copy=False)
    if order == 0:
        size = cupy.not_equal(size, 0).astype(working)
    elif order == 2:
        size = cupy.multiply(size, size)
    elif order != 1 and math.isfinite(order):
        size = cupy.power(size, order)
    fold = cupy.sum if math.isfinite(order) else cupy.amax if order > 0 else cupy.amin
    total = fold(size, axis=axes) if axes else size
    if order == 2:
        total = cupy.sqrt(total)
    elif order not in (0, 1) and math.isfinite(order):
        total = cupy.power(total, 1 / order)
    cupy.copyto(out, total.reshape(out.shape), casting="unsafe")
