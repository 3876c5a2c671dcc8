"""Batch norm, and group norm with instance norm as its limit: forward and backward.

Kept for backward are mean and biased variance, a number each for what is normalised together.
"""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .channels import LONG, channel_norm, channel_norm_backward, channel_products, channel_statistics
from .elementwise import multiply
from .row_tiles import ColumnSums, rows_of_a_tile
from .set_norm import fits, rstd_of, set_norm, set_norm_backward
from .tiling import FLOAT32, rows_per_tile

__all__ = ["batch_norm", "batch_norm_backward", "group_norm", "group_norm_backward"]


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
        sets = x[:, :, None]
        if fits(sets):
            weight, bias = (numbers if numbers is None else numbers[:, None] for numbers in (weight, bias))
            set_norm(sets, weight, bias, out[:, :, None], mean, variance, eps=eps)
            return
        channel_statistics(x, mean, variance)
    scale = rstd_of(variance, eps)
    if weight is not None:
        np.multiply(scale, weight, scale)
    channel_norm(x, mean, scale, bias, out)


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
    rstd, channels = rstd_of(variance, eps), len(mean)
    sets = grad[:, :, None]
    if not given and fits(sets):
        totals, products = (scratch(mean.shape, grad.dtype) if array is None else array for array in (grad_b, grad_w))
        values, target = (None if array is None else array[:, :, None] for array in (x, grad_x))
        factors = None if weight is None else weight[:, None]
        set_norm_backward(sets, values, factors, mean, rstd, target, totals[:, None], products[:, None])
        return
    total, product = scratch((channels,), grad.dtype), None if x is None else scratch((channels,), grad.dtype)
    if not given or grad_w is not None or grad_b is not None:
        channel_products(grad, x, mean, rstd, total, product)
    if grad_b is not None:
        np.copyto(grad_b, total)
    if grad_w is not None and product is not None:
        np.copyto(grad_w, product)
    if grad_x is None:
        return
    factor = scratch((channels,), grad.dtype)
    np.copyto(factor, rstd if weight is None else np.multiply(rstd, weight, factor))
    if given or x is None or product is None:
        multiply(grad, factor[:, None], grad_x)
    elif x.size:
        np.multiply(product, factor, product)
        np.multiply(total, factor, total)
        count = x.size / channels
        channel_norm_backward(grad, x, mean, factor, *_slopes(product, total, rstd, count), grad_x)


def group_norm(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, variance: Array, *, eps: float
) -> None:
    """`layer_norm` of each group of channels of ``x`` (samples, groups, channels of a group, inner).

    ``weight`` and ``bias`` (groups, channels of a group); ``mean`` and ``variance`` (samples, groups) are outs too.
    """
    samples, groups, members, inner = x.shape
    sets = _sets(x)
    if fits(sets):
        scales, shifts = (_for_samples(numbers, samples) for numbers in (weight, bias))
        set_norm(sets, scales, shifts, _sets(out), mean.reshape(-1), variance.reshape(-1), eps=eps)
        return
    channel_statistics(x.reshape(1, samples * groups, members * inner), mean.reshape(-1), variance.reshape(-1))
    if inner < LONG:
        _short_group_norm(x, weight, bias, out, mean, rstd_of(variance, eps))
        return
    shape = (samples, groups, members)
    mu, scale, shift = _spread(mean, shape), _spread(rstd_of(variance, eps), shape), None
    if weight is not None:
        np.multiply(scale, weight, scale)
    if bias is not None:
        shift = scratch(shape, x.dtype)
        np.copyto(shift, bias)
        shift = shift.reshape(-1)
    flat = (1, samples * groups * members, inner)
    channel_norm(x.reshape(flat), mu.reshape(-1), scale.reshape(-1), shift, out.reshape(flat))


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
    rstd = rstd_of(variance, eps)
    if fits(_sets(grad)):
        sums = scratch((2, samples * groups, members), grad.dtype)
        values, target = (None if array is None else _sets(array) for array in (x, grad_x))
        scales = _for_samples(weight, samples)
        set_norm_backward(_sets(grad), values, scales, mean.reshape(-1), rstd.reshape(-1), target, *sums)
        for gradient, found in zip((grad_b, grad_w), sums, strict=True):
            if gradient is not None:
                np.add.reduce(found.reshape(samples, groups, members), axis=0, out=gradient)
        return
    if inner < LONG:
        _short_group_norm_backward(grad, x, weight, mean, rstd, grad_x, grad_w, grad_b)
        return
    shape, flat = (samples, groups, members), (1, samples * groups * members, inner)
    mu, factor = _spread(mean, shape), _spread(rstd, shape)
    total, product = scratch(shape, grad.dtype), None if x is None else scratch(shape, grad.dtype)
    flat_x = None if x is None else x.reshape(flat)
    flat_product = None if product is None else product.reshape(-1)
    channel_products(grad.reshape(flat), flat_x, mu.reshape(-1), factor.reshape(-1), total.reshape(-1), flat_product)
    if grad_b is not None:
        np.add.reduce(total, axis=0, out=grad_b)
    if grad_w is not None and product is not None:
        np.add.reduce(product, axis=0, out=grad_w)
    if grad_x is None or flat_x is None or product is None or not grad.size:
        return
    if weight is not None:
        for numbers in (total, product, factor):
            np.multiply(numbers, weight, numbers)
    sums = scratch((2, samples, groups), grad.dtype)
    np.add.reduce(product, axis=2, out=sums[0])
    np.add.reduce(total, axis=2, out=sums[1])
    np.multiply(sums, rstd, sums)
    slope, shift = (_spread(numbers, shape).reshape(-1) for numbers in _slopes(sums[0], sums[1], rstd, members * inner))
    channel_norm_backward(
        grad.reshape(flat), flat_x, mu.reshape(-1), factor.reshape(-1), slope, shift, grad_x.reshape(flat)
    )


def _sets(x: Array) -> Array:
    """An array (samples, groups, channels of a group, inner) as `set_norm` has it."""
    return x.reshape(1, -1, *x.shape[2:])


def _for_samples(numbers: Array | None, samples: int) -> Array | None:
    """Numbers of the channels (groups, channels of a group), for the groups of all samples."""
    if numbers is None or samples == 1:
        return numbers
    spread = scratch((samples, *numbers.shape), numbers.dtype)
    np.copyto(spread, numbers)
    return spread.reshape(-1, numbers.shape[1])


def _slopes(product: Array, total: Array, rstd: Array, count: float) -> tuple[Array, Array]:
    """What ``x - mean`` is multiplied with, and what is added, in the gradient; both sums carry a factor ``rstd``.

    With n = (x - mean) * rstd and h = grad * weight: grad_x = rstd * (h - mean(h) - n * mean(h * n)).
    """
    np.multiply(product, rstd, product)
    np.multiply(product, -1 / count, product)
    np.multiply(total, -1 / count, total)
    return product, total


def _spread(numbers: Array, shape: tuple[int, ...]) -> Array:
    """Numbers of the groups, repeated for each channel of a group."""
    spread = scratch(shape, numbers.dtype)
    np.copyto(spread, numbers[..., None])
    return spread


# -- groups of channels with few places: numbers of a channel would be nearly as many as elements ----------------------


def _short_group_norm(x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, rstd: Array) -> None:
    samples, groups, members, inner = x.shape
    values, target = (array.reshape(samples, groups, members * inner) for array in (x, out))
    scale, shift = _widened(weight, inner), _widened(bias, inner)

    def tile(where: slice) -> None:
        part = target[where]
        np.subtract(values[where], mean[where][:, :, None], part)
        np.multiply(part, rstd[where][:, :, None], part)
        if scale is not None:
            np.multiply(part, scale, part)
        if shift is not None:
            np.add(part, shift, part)

    parallel_slices(tile, samples, rows_per_tile(samples, x[:1].size, x.dtype))


def _short_group_norm_backward(
    grad: Array,
    x: Array | None,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
) -> None:
    samples, groups, members, inner = grad.shape
    shape, width = (samples, groups, members * inner), groups * members * inner
    values, upstream = None if x is None else x.reshape(shape), grad.reshape(shape)
    target = None if grad_x is None else grad_x.reshape(shape)
    scale = _widened(weight, inner)
    wide = [None if numbers is None else scratch((width,), grad.dtype) for numbers in (grad_w, grad_b)]
    sums = ColumnSums(grad.reshape(samples, width), wide)

    def tile(where: slice, normal: Array, work: Array) -> None:
        g, r, count = upstream[where], rstd[where][:, :, None], where.stop - where.start
        normal, work = normal[:count], work[:count]
        sums.add(1, where, g.reshape(count, width))
        if values is None:
            return
        np.subtract(values[where], mean[where][:, :, None], normal)
        np.multiply(normal, r, normal)
        np.multiply(g, normal, work)
        sums.add(0, where, work.reshape(count, width))
        if target is None:
            return
        if scale is not None:
            np.multiply(work, scale, work)
        np.multiply(normal, _mean_of_groups(work), normal)
        scaled = g if scale is None else np.multiply(g, scale, work)
        np.add(normal, _mean_of_groups(scaled), normal)
        np.subtract(scaled, normal, target[where])
        np.multiply(target[where], r, target[where])

    step = rows_of_a_tile(samples, width, grad.dtype)
    parallel_slices(tile, samples if width else 0, step, [((step, *shape[1:]), grad.dtype)] * 2)
    sums.finish()
    for numbers, found in zip((grad_w, grad_b), wide, strict=True):
        if numbers is not None and found is not None:
            np.add.reduce(found.reshape(groups, members, inner), axis=2, out=numbers)


def _mean_of_groups(x: Array) -> Array:
    """The mean over the last axis, which stays; half precision is added up in float32."""
    mean: Array = x.mean(2, keepdims=True, dtype=FLOAT32 if x.dtype.itemsize == 2 else x.dtype)
    return mean.astype(x.dtype, copy=False)


def _widened(numbers: Array | None, inner: int) -> Array | None:
    """Numbers of the channels (groups, channels of a group), repeated for each place."""
    if numbers is None or inner == 1:
        return numbers
    wide = scratch((*numbers.shape, inner), numbers.dtype)
    np.copyto(wide, numbers[:, :, None])
    return wide.reshape(len(numbers), -1)
