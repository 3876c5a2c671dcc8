"""Gradients of a scaled loss back at their own size."""

from __future__ import annotations

import cupy
import numpy as np

from .launch import WIDE, Array, kernel

__all__ = ["unscale"]

_UNSCALE = cupy.ElementwiseKernel(
    "float64 factor",
    "T grad, raw int32 found",
    """
    W g = (W)grad;
    if (g - g != 0) found[0] = 1;
    grad = (T)(g * (W)factor);
    """,
    "stowgrad_unscale",
    preamble=WIDE,
)


@kernel
def unscale(grad: Array, *, factor: float) -> bool:
    """``grad *= factor``; whether something in it is infinite or no number."""
    found = cupy.zeros((1,), np.int32)
    _UNSCALE(factor, grad, found)
    return bool(found.get()[0])
