"""Batch norm, and group norm with instance norm as its limit: forward and backward.

Kept for backward are mean and biased variance, a number each for what is normalised together.
"""

from __future__ import annotations

import cupy

from .channels import channel_norm, channel_norm_backward, channel_products, channel_statistics
from .launch import WIDE, Array, kernel

__all__ = ["batch_norm", "batch_norm_backward", "group_norm", "group_norm_backward"]

_RSTD = cupy.ElementwiseKernel(
    "T variance, float64 eps", "T y", "y = (T)((W)1 / sqrt((W)variance + (W)eps))", "stowgrad_rstd", preamble=WIDE
)


@kernel
def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    variance: Array,
    *,
    eps: float,
    given: bool,
) -> None:
    """``out = (x - mean) / sqrt(variance + eps) * weight + bias`` for each channel of ``x`` (outer, channels, inner).

    ``mean`` and ``variance`` (channels,) are computed, unless they are ``given``.
    """
    if not given:
        channel_statistics(x, mean, variance)
    scale = _rstd(variance, eps)
    if weight is not None:
        cupy.multiply(scale, weight, out=scale)
    channel_norm(x, mean, scale, bias, out)


@kernel
def batch_norm_backward(
    grad: Array,
    x: Array | None,
    weight: Array | None,
    mean: Array,
    variance: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
    *,
    eps: float,
    given: bool,
) -> None:
    """The gradients of `batch_norm` that are asked for: those that are not None.

    ``x`` may be None where the statistics were given and no gradient of the weight is asked for.
    """
    rstd = _rstd(variance, eps)
    total, product = cupy.empty(rstd.shape, grad.dtype), None if x is None else cupy.empty(rstd.shape, grad.dtype)
    if not given or grad_w is not None or grad_b is not None:
        channel_products(grad, x, mean, rstd, total, product)
    if grad_b is not None:
        cupy.copyto(grad_b, total)
    if grad_w is not None and product is not None:
        cupy.copyto(grad_w, product)
    if grad_x is None:
        return
    factor = cupy.empty(rstd.shape, grad.dtype)
    if weight is None:
        cupy.copyto(factor, rstd)
    else:
        cupy.multiply(rstd, weight, out=factor)
    if given or x is None or product is None:
        cupy.multiply(grad, factor.reshape(-1, 1), out=grad_x)
    elif x.size:
        cupy.multiply(product, factor, out=product)
        cupy.multiply(total, factor, out=total)
        count = x.size / len(mean)
        channel_norm_backward(grad, x, mean, factor, *_slopes(product, total, rstd, count), grad_x)


@kernel
def group_norm(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, variance: Array, *, eps: float
) -> None:
    """`layer_norm` of each group of channels of ``x`` (samples, groups, channels of a group, inner).

    ``weight`` and ``bias`` (groups, channels of a group); ``mean`` and ``variance`` (samples, groups) are outs too.
    """
    samples, groups, members, inner = x.shape
    channel_statistics(x.reshape(1, samples * groups, members * inner), mean.reshape(-1), variance.reshape(-1))
    shape = (samples, groups, members)
    mu, scale, shift = _spread(mean, shape), _spread(_rstd(variance, eps), shape), None
    if weight is not None:
        cupy.multiply(scale, weight, out=scale)
    if bias is not None:
        shift = cupy.empty(shape, x.dtype)
        cupy.copyto(shift, bias)
        shift = shift.reshape(-1)
    flat = (1, samples * groups * members, inner)
    channel_norm(x.reshape(flat), mu.reshape(-1), scale.reshape(-1), shift, out.reshape(flat))


@kernel
def group_norm_backward(
    grad: Array,
    x: Array | None,
    weight: Array | None,
    mean: Array,
    variance: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
    *,
    eps: float,
) -> None:
    """The gradients of `group_norm` that are asked for: those that are not None.

    ``x`` may be None where only that of the bias is.
    """
    samples, groups, members, inner = grad.shape
    shape, flat = (samples, groups, members), (1, samples * groups * members, inner)
    rstd = _rstd(variance, eps)
    mu, factor = _spread(mean, shape), _spread(rstd, shape)
    total, product = cupy.empty(shape, grad.dtype), None if x is None else cupy.empty(shape, grad.dtype)
    flat_x = None if x is None else x.reshape(flat)
    flat_product = None if product is None else product.reshape(-1)
    channel_products(grad.reshape(flat), flat_x, mu.reshape(-1), factor.reshape(-1), total.reshape(-1), flat_product)
    if grad_b is not None:
        cupy.sum(total, axis=0, out=grad_b)
    if grad_w is not None and product is not None:
        cupy.sum(product, axis=0, out=grad_w)
    if grad_x is None or flat_x is None or product is None or not grad.size:
        return
    if weight is not None:
        for numbers in (total, product, factor):
            cupy.multiply(numbers, weight, out=numbers)
    sums = cupy.empty((2, samples, groups), grad.dtype)
    cupy.sum(product, axis=2, out=sums[0])
    cupy.sum(total, axis=2, out=sums[1])
    cupy.multiply(sums, rstd, out=sums)
    slope, shift = (_spread(numbers, shape).reshape(-1) for numbers in _slopes(sums[0], sums[1], rstd, members * inner))
    channel_norm_backward(
        grad.reshape(flat), flat_x, mu.reshape(-1), factor.reshape(-1), slope, shift, grad_x.reshape(flat)
    )


def _rstd(variance: Array, eps: float) -> Array:
    """``1 / sqrt(variance + eps)``."""
    rstd = cupy.empty(variance.shape, variance.dtype)
    _RSTD(variance, eps, rstd)
    return rstd


def _slopes(product: Array, total: Array, rstd: Array, count: float) -> tuple[Array, Array]:
    """What ``x - mean`` is multiplied with, and what is added, in the gradient; both sums carry a factor ``rstd``.

    With n = (x - mean) * rstd and h = grad * weight: grad_x = rstd * (h - mean(h) - n * mean(h * n)).
    """
    cupy.multiply(product, rstd, out=product)
    cupy.multiply(product, -1 / count, out=product)
    cupy.multiply(total, -1 / count, out=total)
    return product, total


def _spread(numbers: Array, shape: tuple[int, ...]) -> Array:
    """Numbers of the groups, repeated for each channel of a group."""
    spread = cupy.empty(shape, numbers.dtype)
    cupy.copyto(spread, numbers.reshape(*numbers.shape, 1))
    return spread
