"""Layer norm and RMS norm over the rows of a matrix, and biases: forward and backward.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel
from .reduce import sum as sum_over

__all__ = [
    "add_bias",
    "bias_grad",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]


def _reduction(parameters: str, mapped: str, result: str, name: str) -> cupy.ReductionKernel:
    """A sum ``a`` of what is ``mapped``."""
    return cupy.ReductionKernel(
        parameters,
        "T y",
        mapped,
        "a + b",
        f"y = (T)({result})",
        "0",
        f"stowgrad_{name}",
        reduce_type="W",
        preamble=WIDE,
    )


_MEAN = _reduction("T x, float64 count", "(W)x", "a / (W)count", "row_mean")
_LAYER_RSTD = _reduction(
    "T x, T mean, float64 count, float64 eps",
    "((W)x - (W)mean) * ((W)x - (W)mean)",
    "(W)1 / sqrt(a / (W)count + (W)eps)",
    "layer_norm_rstd",
)
_RMS_RSTD = _reduction(
    "T x, float64 count, float64 eps", "(W)x * (W)x", "(W)1 / sqrt(a / (W)count + (W)eps)", "rms_norm_rstd"
)
_LAYER_NORM = cupy.ElementwiseKernel(
    "T x, T mean, T rstd, T weight, T bias",
    "T y",
    "y = (T)(((W)x - (W)mean) * (W)rstd * (W)weight + (W)bias)",
    "stowgrad_layer_norm",
    preamble=WIDE,
)
_RMS_NORM = cupy.ElementwiseKernel(
    "T x, T rstd, T weight", "T y", "y = (T)((W)x * (W)rstd * (W)weight)", "stowgrad_rms_norm", preamble=WIDE
)
# With n = (x - mean) * rstd and h = grad * weight: grad_x = rstd * (h - mean(h) - n * mean(h * n)).
_NORMAL = "(((W)x - (W)mean) * (W)rstd)"
_MEAN_PRODUCT = _reduction(
    "T grad, T x, T mean, T rstd, T weight, float64 count",
    f"(W)grad * (W)weight * {_NORMAL}",
    "a / (W)count",
    "norm_mean_product",
)
_MEAN_SCALED = _reduction("T grad, T weight, float64 count", "(W)grad * (W)weight", "a / (W)count", "norm_mean_scaled")
_GRAD_X = cupy.ElementwiseKernel(
    "T grad, T x, T mean, T rstd, T weight, T scaled, T product",
    "T y",
    f"y = (T)((W)rstd * ((W)grad * (W)weight - (W)scaled - {_NORMAL} * (W)product))",
    "stowgrad_norm_backward",
    preamble=WIDE,
)
_GRAD_WEIGHT = _reduction("T grad, T x, T mean, T rstd", f"(W)grad * {_NORMAL}", "a", "norm_weight_backward")


@kernel
def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, rstd: Array, *, eps: float
) -> None:
    """``out = (x - mean) * rstd * weight + bias`` for each row of ``x`` (rows, columns).

    ``mean`` and ``rstd`` (rows,) are outs too: all that backward needs beside ``x``.
    """
    if not x.size:
        return
    columns = float(x.shape[1])
    _MEAN(x, columns, mean, axis=1)
    _LAYER_RSTD(x, mean[:, None], columns, eps, rstd, axis=1)
    _LAYER_NORM(x, mean[:, None], rstd[:, None], _or(weight, 1, x), _or(bias, 0, x), out)


@kernel
def layer_norm_backward(
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
) -> None:
    """The gradients of `layer_norm` that are asked for: those that are not None."""
    if grad_b is not None:  # first: grad_x may be grad
        sum_over(grad, grad_b, axes=(0,))
    _backward(grad, x, weight, mean[:, None], rstd[:, None], grad_x, grad_w, centred=True)


@kernel
def rms_norm(x: Array, weight: Array | None, out: Array, rstd: Array, *, eps: float) -> None:
    """``out = x * rstd * weight`` with ``rstd = 1 / sqrt(mean(x * x) + eps)`` (rows,) for each row of ``x``."""
    if not x.size:
        return
    _RMS_RSTD(x, float(x.shape[1]), eps, rstd, axis=1)
    _RMS_NORM(x, rstd[:, None], _or(weight, 1, x), out)


@kernel
def rms_norm_backward(
    grad: Array, x: Array, weight: Array | None, rstd: Array, grad_x: Array | None, grad_w: Array | None
) -> None:
    """The gradients of `rms_norm` that are asked for: those that are not None."""
    _backward(grad, x, weight, _or(None, 0, x), rstd[:, None], grad_x, grad_w, centred=False)


def _backward(
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    *,
    centred: bool,
) -> None:
    if not x.size:
        if grad_w is not None:
            grad_w.fill(0)
        return
    if grad_w is not None:
        _GRAD_WEIGHT(grad, x, mean, rstd, grad_w, axis=0)
    if grad_x is not None:
        columns, scale = float(x.shape[1]), _or(weight, 1, x)
        product = _MEAN_PRODUCT(grad, x, mean, rstd, scale, columns, axis=1, keepdims=True)
        scaled = _MEAN_SCALED(grad, scale, columns, axis=1, keepdims=True) if centred else _or(None, 0, x)
        _GRAD_X(grad, x, mean, rstd, scale, scaled, product, grad_x)


def _or(array: Array | None, value: float, like: Array) -> Array:
    """An array, or one with the number that changes nothing, to be broadcast."""
    return cupy.full((1,), value, like.dtype) if array is None else array


@kernel
def add_bias(x: Array, bias: Array, out: Array) -> None:
    """``out = x + bias`` for each row of ``x`` (rows, columns); ``out`` may be ``x``."""
    cupy.add(x, bias, out=out)


@kernel
def bias_grad(grad: Array, out: Array) -> None:
    """``out = grad.sum(0)`` of a matrix."""
    sum_over(grad, out, axes=(0,))
