"""Soft-max, its logarithm and log-sum-exp along one axis, forward and backward: two reductions and one launch.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = [
    "log_softmax",
    "log_softmax_backward",
    "logsumexp",
    "logsumexp_backward",
    "softmax",
    "softmax_backward",
]

_SUM_OF_EXPONENTIALS = cupy.ReductionKernel(
    "T x, T most",
    "T y",
    "exp((W)x - (W)most)",
    "a + b",
    "y = (T)a",
    "0",
    "stowgrad_sum_of_exponentials",
    reduce_type="W",
    preamble=WIDE,
)
_SUM_OF_PRODUCTS = cupy.ReductionKernel(
    "T x, T z",
    "T y",
    "(W)x * (W)z",
    "a + b",
    "y = (T)a",
    "0",
    "stowgrad_sum_of_products",
    reduce_type="W",
    preamble=WIDE,
)
_SUM = cupy.ReductionKernel(
    "T x", "T y", "(W)x", "a + b", "y = (T)a", "0", "stowgrad_sum", reduce_type="W", preamble=WIDE
)


def _elementwise(parameters: str, code: str, name: str) -> cupy.ElementwiseKernel:
    return cupy.ElementwiseKernel(parameters, "T y", code, f"stowgrad_{name}", preamble=WIDE)


_SOFTMAX = _elementwise("T x, T most, T total", "y = (T)(exp((W)x - (W)most) / (W)total)", "softmax")
_LOG_SOFTMAX = _elementwise("T x, T most, T total", "y = (T)((W)x - (W)most - log((W)total))", "log_softmax")
_LOGSUMEXP = _elementwise(
    "T most, T total", "W m = (W)most; y = (T)(m - m == (W)0 ? m + log((W)total) : m)", "logsumexp"
)
_SOFTMAX_BACKWARD = _elementwise("T grad, T z, T dot", "y = (T)((W)z * ((W)grad - (W)dot))", "softmax_backward")
_LOG_SOFTMAX_BACKWARD = _elementwise(
    "T grad, T z, T total", "y = (T)((W)grad - exp((W)z) * (W)total)", "log_softmax_backward"
)
_LOGSUMEXP_BACKWARD = _elementwise(
    "T grad, T x, T lse",
    "W z = (W)lse; y = (T)((W)grad * (z < (W)0 && z + z == z ? (W)0 : exp((W)x - z)))",
    "logsumexp_backward",
)


@kernel
def softmax(x: Array, out: Array, *, axis: int = -1) -> None:
    """``out = exp(x) / sum(exp(x))`` along ``axis``."""
    if x.size:
        _SOFTMAX(_rows(x), *_statistics(x, axis), _rows(out))


@kernel
def log_softmax(x: Array, out: Array, *, axis: int = -1) -> None:
    """``out = x - log(sum(exp(x)))`` along ``axis``."""
    if x.size:
        _LOG_SOFTMAX(_rows(x), *_statistics(x, axis), _rows(out))


@kernel
def logsumexp(x: Array, out: Array, *, axis: int | tuple[int, ...] = -1) -> None:
    """``out = log(sum(exp(x)))`` along one axis or several; ``out`` has them as 1 or not at all."""
    if x.size:
        x, axis = _one_axis(x, axis)
        most, total = _statistics(x, axis)
        _LOGSUMEXP(most, total, out.reshape(most.shape))


@kernel
def softmax_backward(grad: Array, y: Array, grad_x: Array, *, axis: int = -1) -> None:
    """``grad_x = y * (grad - sum(grad * y))`` with the forward's result ``y``."""
    if y.size:
        grad, y = _rows(grad), _rows(y)
        _SOFTMAX_BACKWARD(grad, y, _SUM_OF_PRODUCTS(grad, y, axis=axis, keepdims=True), _rows(grad_x))


@kernel
def log_softmax_backward(grad: Array, y: Array, grad_x: Array, *, axis: int = -1) -> None:
    """``grad_x = grad - exp(y) * sum(grad)`` with the forward's result ``y``."""
    if y.size:
        grad, y = _rows(grad), _rows(y)
        _LOG_SOFTMAX_BACKWARD(grad, y, _SUM(grad, axis=axis, keepdims=True), _rows(grad_x))


@kernel
def logsumexp_backward(grad: Array, x: Array, lse: Array, grad_x: Array, *, axis: int | tuple[int, ...] = -1) -> None:
    """``grad_x = grad * exp(x - lse)`` with the forward's result ``lse``; ``grad`` has its shape."""
    if x.size:
        x = _rows(x)
        shape = list(x.shape)
        for number in (axis,) if isinstance(axis, int) else axis:
            shape[number] = 1
        _LOGSUMEXP_BACKWARD(grad.reshape(shape), x, lse.reshape(shape), _rows(grad_x))


def _rows(x: Array) -> Array:
    """A 0-dimensional array as a row of one element."""
    return x if x.ndim else x.reshape(1)


def _one_axis(x: Array, axis: int | tuple[int, ...]) -> tuple[Array, int]:
    """``x`` with several axes made one, the last, and which it is."""
    if isinstance(axis, int):
        return x, axis
    if len(axis) == 1:
        return x, axis[0]
    gone = [number % x.ndim for number in axis]
    kept = [number for number in range(x.ndim) if number not in gone]
    moved = cupy.ascontiguousarray(x.transpose(*kept, *gone))
    return moved.reshape(*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :])), -1


def _statistics(x: Array, axis: int) -> tuple[Array, Array]:
    """The largest element and the sum of ``exp(x - largest)``, with ``axis`` as 1."""
    x = _rows(x)
    most = cupy.amax(x, axis=axis, keepdims=True)
    return most, _SUM_OF_EXPONENTIALS(x, most, axis=axis, keepdims=True)
