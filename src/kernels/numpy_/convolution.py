"""Convolutions of any number of dimensions: forward, transposed, and by the weights."""

from __future__ import annotations

import functools

import numpy as np

from ..columns import Forward, Library, Transposed, Weights
from ..executor import Array, get_num_threads, scratch
from ..windows import Windows
from . import depthwise, phased_convolution, row_convolution, small_convolution, winograd
from .tiling import DType, contiguous, copy_tiled

__all__ = [
    "convolution",
    "convolution_backward_weight",
    "convolution_transposed",
]

Numbers = tuple[int, ...]
_LIBRARY = Library(row_convolution.product, np.add, contiguous, scratch, 1 << 22, 8)


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    *,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
) -> None:
    """Results of windows: ``out[n, o, p] = sum of x[n, c, p * stride + k * dilation - padding] * weight[o, c, k]``.

    Args:
        x: (samples, channels, *size), any strides.
        weight: (features, channels / groups, *kernel).
        bias: (features,) or None.
        out: (samples, features, *count).
    """
    if out.size == 0:
        return
    if weight.size == 0 or x.size == 0:
        _fill(out, bias)
        return
    get_num_threads()  # BLAS follows our setting from the first product on
    small = _small(x.shape, weight.shape, out.shape, stride, padding, dilation, groups, out.dtype)
    if small is not None:
        small_convolution.convolve(x, weight, bias, out, small)
        return
    windows = Windows(x.shape[2:], out.shape[2:], weight.shape[2:], stride, padding, dilation)
    if depthwise.pays(windows, len(x), weight.shape, groups, out.dtype):
        depthwise.forward(x, weight, bias, out, windows)
        return
    if winograd.pays_forward(windows, len(x), weight.shape[1], out.shape[1] // groups, out.dtype):
        winograd.forward(x, weight, bias, out, windows, groups)
        return
    if row_convolution.pays_forward(windows, weight.shape[1], len(weight) // groups, groups, out.dtype):
        row_convolution.forward(x, weight, bias, out, windows, groups)
        return
    job = Forward(windows, groups, x, weight, bias, out, _LIBRARY)
    row_convolution.run_tasks(job.run, job.count, job.specs, job.work)


def convolution_transposed(
    y: Array,
    weight: Array,
    bias: Array | None,
    out: Array,
    *,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
) -> None:
    """The reverse: ``y`` (samples, features, *count) spread over ``out`` (samples, channels, *size).

    Args:
        weight: as in `convolution`.
        bias: (channels,) or None.
    """
    if out.size == 0:
        return
    if weight.size == 0 or y.size == 0:
        _fill(out, bias)
        return
    get_num_threads()
    if all(step == 1 for step in stride):  # a convolution with the weights turned round: nothing is added twice
        before = _turned_padding(weight.shape[2:], padding, dilation)
        turned = _turned(weight, groups)
        convolution(y, turned, bias, out, stride=stride, padding=before, dilation=dilation, groups=groups)
        return
    small = _small_reverse(y.shape, weight.shape, out.shape, stride, padding, dilation, groups, out.dtype)
    if isinstance(small, small_convolution.Copies):
        small_convolution.convolve(y, _turned(weight, groups), bias, out, small)
        return
    if small is not None:
        phased_convolution.transposed_small(y, _turned(weight, groups), bias, out, small)
        return
    wide = row_convolution.product_dtype(out.dtype)
    if wide != out.dtype:
        offset = None if bias is None else _cast(bias, wide)
        y, weight, whole = _cast(y, wide), _cast(weight, wide), scratch(out.shape, wide)
        convolution_transposed(
            y, weight, offset, whole, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        copy_tiled(whole, out)
        return
    windows = Windows(out.shape[2:], y.shape[2:], weight.shape[2:], stride, padding, dilation)
    if phased_convolution.pays(windows, weight.shape[0] // groups, weight.shape[1]):
        phased_convolution.transposed(y, _turned(weight, groups), bias, out, windows, groups, _LIBRARY)
        return
    job = Transposed(windows, groups, y, weight, bias, out, _LIBRARY)
    row_convolution.run_tasks(job.run, job.count, job.specs, job.work)


def convolution_backward_weight(
    x: Array, y: Array, out: Array, *, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> None:
    """``out`` (features, channels / groups, *kernel): the sum over all windows of what they see times their ``y``.

    Args:
        x: (samples, channels, *size).
        y: (samples, features, *count).
    """
    if out.size == 0:
        return
    if x.size == 0 or y.size == 0:
        copy_tiled(0, out)
        return
    get_num_threads()
    small = _small(x.shape, out.shape, y.shape, stride, padding, dilation, groups, out.dtype)
    if small is not None:
        small_convolution.by_weights(x, y, out, small)
        return
    windows = Windows(x.shape[2:], y.shape[2:], out.shape[2:], stride, padding, dilation)
    if depthwise.pays(windows, len(x), out.shape, groups, out.dtype):
        depthwise.by_weights(x, y, out, windows)
        return
    if winograd.pays_by_weights(windows, len(x), out.shape[1], y.shape[1] // groups, out.dtype):
        winograd.by_weights(x, y, out, windows, groups)
        return
    if row_convolution.pays_by_weights(windows, out.shape[1], len(out) // groups, groups, out.dtype):
        row_convolution.by_weights(x, y, out, windows, groups)
        return
    job = Weights(windows, groups, x, y, out, _LIBRARY)
    row_convolution.run_tasks(job.run, job.count, job.specs, job.work)
    job.finish()


@functools.lru_cache(maxsize=128)
def _small(
    x: Numbers,
    weight: Numbers,
    y: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
    dtype: DType,
) -> small_convolution.Copies | None:
    """How images of a shape are copied if they are small; None if they aren't."""
    windows = Windows(x[2:], y[2:], weight[2:], stride, padding, dilation)
    if depthwise.pays(windows, x[0], weight, groups, dtype):
        return None
    return _copies(small_convolution.geometry(windows), x, weight[0], groups, dtype)


@functools.lru_cache(maxsize=128)
def _small_reverse(
    y: Numbers,
    weight: Numbers,
    out: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
    dtype: DType,
) -> small_convolution.Copies | tuple[phased_convolution.SmallPhase, ...] | None:
    """The same for the images of a transposed convolution, or for each remainder of the stride."""
    windows = Windows(out[2:], y[2:], weight[2:], stride, padding, dilation)
    if row_convolution.product_dtype(dtype) == dtype:
        phases = phased_convolution.small_phases(windows, y[0], y[1], out[1], groups, dtype.itemsize)
        if phases is not None:
            return phases
    return _copies(small_convolution.reverse_geometry(windows), y, out[1], groups, dtype)


def _copies(
    shape: small_convolution.Geometry, x: Numbers, features: int, groups: int, dtype: DType
) -> small_convolution.Copies | None:
    in_its_dtype = row_convolution.product_dtype(dtype) == dtype
    size = small_convolution.columns_bytes(shape, x[0], x[1], dtype.itemsize)
    if in_its_dtype and size <= small_convolution.MOST_BYTES:
        return small_convolution.copies(shape, x[0], x[1], features, groups, dtype.itemsize)
    return None


@functools.lru_cache(maxsize=128)
def _turned_padding(kernel: Numbers, padding: Numbers, dilation: Numbers) -> Numbers:
    reach = zip(kernel, padding, dilation, strict=True)
    return tuple([step * (places - 1) - pad for places, pad, step in reach])


def _fill(out: Array, bias: Array | None) -> None:
    copy_tiled(0 if bias is None else bias.reshape(-1, *(1,) * (out.ndim - 2)), out)


def _cast(array: Array, dtype: DType) -> Array:
    copied = scratch(array.shape, dtype)
    copy_tiled(array, copied)
    return copied


def _turned(weight: Array, groups: int) -> Array:
    """Weights (channels, features / groups, *kernel) of the reverse, in scratch."""
    features, inputs = weight.shape[0] // groups, weight.shape[1]
    turned = scratch((groups * inputs, features, *weight.shape[2:]), weight.dtype)
    source = weight.reshape(groups, features, inputs, -1)[..., ::-1]  # backwards along all axes of the kernel
    turned.reshape(groups, inputs, features, -1)[...] = source.swapaxes(1, 2)
    return turned
