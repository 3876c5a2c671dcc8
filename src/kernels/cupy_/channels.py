"""Arrays seen as (outer, channels, inner), with numbers a channel: what batch norm and its like are made of.

``out`` and ``grad_x`` may be one of the inputs; numbers of the channels have the shape (channels,).
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = ["prelu", "prelu_backward"]


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


_CHANNEL_MEAN = _reduction("T x, float64 count", "(W)x", "a / (W)count", "channel_mean")
_CHANNEL_VARIANCE = _reduction(
    "T x, T mean, float64 count", "((W)x - (W)mean) * ((W)x - (W)mean)", "a / (W)count", "channel_variance"
)
_CHANNEL_TOTAL = _reduction("T x", "(W)x", "a", "channel_total")
_CHANNEL_PRODUCT = _reduction(
    "T grad, T x, T mean, T rstd", "(W)grad * (((W)x - (W)mean) * (W)rstd)", "a", "channel_product"
)
_CHANNEL_NORM = cupy.ElementwiseKernel(
    "T x, T mean, T scale, T shift",
    "T y",
    "y = (T)(((W)x - (W)mean) * (W)scale + (W)shift)",
    "stowgrad_channel_norm",
    preamble=WIDE,
)
_CHANNEL_NORM_BACKWARD = cupy.ElementwiseKernel(
    "T grad, T x, T mean, T by_grad, T by_x, T shift",
    "T y",
    "y = (T)((W)grad * (W)by_grad + ((W)x - (W)mean) * (W)by_x + (W)shift)",
    "stowgrad_channel_norm_backward",
    preamble=WIDE,
)
_PRELU = cupy.ElementwiseKernel(
    "T x, T weight", "T y", "y = (W)x > (W)0 ? x : (T)((W)x * (W)weight)", "stowgrad_prelu", preamble=WIDE
)
_PRELU_BACKWARD = cupy.ElementwiseKernel(
    "T grad, T x, T weight",
    "T y",
    "y = (W)x > (W)0 ? grad : (T)((W)grad * (W)weight)",
    "stowgrad_prelu_backward",
    preamble=WIDE,
)
_PRELU_BY_WEIGHT = _reduction("T grad, T x", "(W)x > (W)0 ? (W)0 : (W)grad * (W)x", "a", "prelu_by_weight")
_OVER = (0, 2)


@kernel
def channel_statistics(x: Array, mean: Array, variance: Array) -> None:
    """Mean and (biased) variance of each channel of ``x`` (outer, channels, inner); for no elements they are NaN."""
    if not x.size:
        mean.fill(math.nan)
        variance.fill(math.nan)
        return
    count = float(x.size // x.shape[1])
    _CHANNEL_MEAN(x, count, mean, axis=_OVER)
    _CHANNEL_VARIANCE(x, _along(mean), count, variance, axis=_OVER)


@kernel
def channel_norm(x: Array, mean: Array, scale: Array, shift: Array | None, out: Array) -> None:
    """``out = (x - mean) * scale + shift``."""
    added = cupy.zeros((1,), x.dtype) if shift is None else _along(shift)
    _CHANNEL_NORM(x, _along(mean), _along(scale), added, out)


@kernel
def channel_products(
    grad: Array, x: Array | None, mean: Array | None, rstd: Array | None, total: Array, product: Array | None
) -> None:
    """``total = sum(grad)`` and ``product = sum(grad * (x - mean) * rstd)`` of each channel.

    With these come the gradients of bias and weight. ``product`` is None where it is not needed, and ``x`` then too.
    """
    if not grad.size:
        total.fill(0)
        if product is not None:
            product.fill(0)
        return
    _CHANNEL_TOTAL(grad, total, axis=_OVER)
    if product is not None and mean is not None and rstd is not None:
        _CHANNEL_PRODUCT(grad, x, _along(mean), _along(rstd), product, axis=_OVER)


@kernel
def channel_norm_backward(
    grad: Array, x: Array, mean: Array, by_grad: Array, by_x: Array, shift: Array, grad_x: Array
) -> None:
    """``grad_x = grad * by_grad + (x - mean) * by_x + shift``."""
    _CHANNEL_NORM_BACKWARD(grad, x, _along(mean), _along(by_grad), _along(by_x), _along(shift), grad_x)


@kernel
def prelu(x: Array, weight: Array, out: Array) -> None:
    """``out = x`` where it is positive, else ``x`` times the weight of its channel."""
    _PRELU(x, _along(weight), out)


@kernel
def prelu_backward(
    grad: Array, x: Array, weight: Array | None, grad_x: Array | None, grad_weight: Array | None
) -> None:
    """The gradients of `prelu` that are asked for: those that are not None."""
    if grad_weight is not None:
        if grad.size:
            _PRELU_BY_WEIGHT(grad, x, grad_weight, axis=_OVER)
        else:
            grad_weight.fill(0)
    if grad_x is not None and weight is not None:
        _PRELU_BACKWARD(grad, x, _along(weight), grad_x)


def _along(numbers: Array) -> Array:
    """The numbers of the channels, to be broadcast."""
    return numbers.reshape(1, -1, 1)
