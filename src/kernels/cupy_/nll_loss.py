"""Minus what stands at the right classes, times their weights, and the gradient of that."""

from __future__ import annotations

import math

import cupy
import numpy as np

from .launch import Array, kernel

__all__ = ["nll_loss", "nll_loss_backward"]

_NUMBERS = "raw int64 targets, raw T weight, bool weighted, int64 ignored, int64 classes, int64 inner"
_PLACE = """
long long target = targets[i], place = ((long long)i / inner * classes + target) * inner + (long long)i % inner;
"""
_LOSSES = cupy.ElementwiseKernel(
    f"raw T x, {_NUMBERS}",
    "T y",
    _PLACE
    + """
    T own = 0;
    if (target != ignored) own = weighted ? (T)(-x[place] * weight[target]) : (T)-x[place];
    y = own;
    """,
    "stowgrad_nll_loss",
)
_GRADIENT = cupy.ElementwiseKernel(
    f"raw T grad, {_NUMBERS}",
    "raw T y",
    _PLACE
    + """
    if (target != ignored) y[place] = weighted ? (T)(-grad[i] * weight[target]) : (T)-grad[i];
    """,
    "stowgrad_nll_loss_backward",
)


@kernel
def nll_loss(x: Array, targets: Array, losses: Array, *, weight: Array | None = None, ignore_index: int = -100) -> None:
    """``losses[n, p] = -x[n, targets[n, p], p] * weight[targets[n, p]]``; the shapes are in the twin on NumPy."""
    if losses.size:
        _LOSSES(cupy.ascontiguousarray(x), *_arguments(x, targets, weight, ignore_index), losses)


@kernel
def nll_loss_backward(
    grad: Array, targets: Array, out: Array, *, weight: Array | None = None, ignore_index: int = -100
) -> None:
    """Zeros with ``out[n, targets[n, p], p] = -grad[n, p] * weight[targets[n, p]]``."""
    out.fill(0)
    if targets.size:
        given = cupy.ascontiguousarray(grad)
        _GRADIENT(given, *_arguments(out, targets, weight, ignore_index), out, size=targets.size)


def _arguments(x: Array, targets: Array, weight: Array | None, ignore_index: int) -> tuple[object, ...]:
    """For `_NUMBERS`."""
    classes = x.shape[min(x.ndim - 1, 1)]
    numbers = cupy.ascontiguousarray(targets.astype(np.int64, copy=False))
    factors = x if weight is None else weight.astype(x.dtype, copy=False)
    return numbers, factors, weight is not None, ignore_index, classes, math.prod(x.shape[2:])
