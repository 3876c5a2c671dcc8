"""Adafactor's step: the mean square of a matrix of gradients is kept as means of its rows and of its columns.

The update is computed twice, for its norm and for the parameter, which costs less memory than to keep it.
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = ["adafactor_step"]

_SQUARES = cupy.ReductionKernel(
    "T x",
    "float64 y",
    "(double)((W)x * (W)x)",
    "a + b",
    "y = a",
    "0",
    "stowgrad_adafactor_squares",
    preamble=WIDE,
)
_LERP = cupy.ElementwiseKernel(
    "float64 total, float64 count, float64 weight",
    "T mean",
    """
    W m = (W)mean, x = (W)(total / count);
    mean = (T)(weight < 0.5 ? m + (W)weight * (x - m) : x - (W)(1 - weight) * (x - m));
    """,
    "stowgrad_adafactor_lerp",
    preamble=WIDE,
)
_VECTOR_LERP = cupy.ElementwiseKernel(
    "T grad, float64 weight",
    "T mean",
    """
    W m = (W)mean, x = (W)grad * (W)grad;
    mean = (T)(weight < 0.5 ? m + (W)weight * (x - m) : x - (W)(1 - weight) * (x - m));
    """,
    "stowgrad_adafactor_vector",
    preamble=WIDE,
)
_TOTAL = cupy.ReductionKernel(
    "T x", "float64 y", "(double)(W)x", "a + b", "y = a", "0", "stowgrad_adafactor_total", preamble=WIDE
)
# Row times column over the mean of the rows, total / count: for a vector the mean square itself, and ones.
_UPDATE = (
    WIDE
    + """
template <class W> __device__ W update(W g, W row, W column, W mean, W eps1) {
    W v = row * column / (mean > eps1 ? mean : eps1);
    return g / sqrt(v > eps1 * eps1 ? v : eps1 * eps1);
}
static inline __device__ double square(double x) { return x * x; }
"""
)
_NORM = cupy.ReductionKernel(
    "T grad, T row, T column, float64 total_rows, float64 count, float64 eps1",
    "float64 y",
    "square(update<W>((W)grad, (W)row, (W)column, (W)(total_rows / count), (W)eps1))",
    "a + b",
    "y = a",
    "0",
    "stowgrad_adafactor_norm",
    preamble=_UPDATE,
)
_STEP = cupy.ElementwiseKernel(
    "T grad, T row, T column, float64 total_rows, float64 count, float64 eps1, float64 shrink, float64 step",
    "T param",
    "param = (T)((W)shrink * (W)param - (W)step"
    " * update<W>((W)grad, (W)row, (W)column, (W)(total_rows / count), (W)eps1))",
    "stowgrad_adafactor",
    preamble=_UPDATE,
)


@kernel
def adafactor_step(
    param: Array,
    grad: Array,
    row_var: Array | None,
    col_var: Array | None,
    variance: Array | None,
    *,
    lr: float,
    weight: float,
    rho: float,
    eps1: float,
    eps2: float,
    d: float,
    weight_decay: float,
    maximize: bool = False,
) -> None:
    """One step of Adafactor (Shazeer and Stern, 2018); the arguments are described in the NumPy kernel."""
    if param.size == 0:
        return
    size = max(eps2, math.sqrt(float(_SQUARES(param)) / param.size))
    if row_var is not None and col_var is not None:
        _LERP(_SQUARES(grad, axis=-1, keepdims=True), grad.shape[-1], weight, row_var)
        _LERP(_SQUARES(grad, axis=-2, keepdims=True), grad.shape[-2], weight, col_var)
        factors = (row_var, col_var, _TOTAL(row_var, axis=-2, keepdims=True), row_var.shape[-2])
    else:
        _VECTOR_LERP(grad, weight, variance)
        factors = (variance, cupy.full((), 1.0, param.dtype), 1.0, 1)
    norm = math.sqrt(float(_NORM(grad, *factors, eps1)))
    step = rho * size / max(1.0, norm / (math.sqrt(param.size) * d))
    _STEP(grad, *factors, eps1, 1 - lr * weight_decay, -step if maximize else step, param)
