"""Convolutions of any number of dimensions: forward, transposed, and by the weights."""

from __future__ import annotations

import numpy as np

from ..columns import Forward, Library, Transposed, Weights
from ..executor import Array, get_num_threads, scratch
from ..windows import Windows
from . import row_convolution, small_convolution
from .tiling import DType, contiguous, copy_tiled

__all__ = [
    "convolution",
    "convolution_backward_weight",
    "convolution_transposed",
]

Numbers = tuple[int, ...]
_LIBRARY = Library(np.matmul, np.add, contiguous, scratch, 1 << 20)


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
    windows = Windows(x.shape[2:], out.shape[2:], weight.shape[2:], stride, padding, dilation)
    small = small_convolution.geometry(windows)
    if _is_small(small, x, out):
        small_convolution.convolve(x, weight, bias, out, small, groups)
        return
    if row_convolution.pays_forward(windows, weight.shape[1], groups, out.dtype):
        row_convolution.forward(x, weight, bias, out, windows, groups)
        return
    job = Forward(windows, groups, x, weight, bias, out, _LIBRARY)
    row_convolution.run_tasks(job.run, job.count, job.specs)


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
    windows = Windows(out.shape[2:], y.shape[2:], weight.shape[2:], stride, padding, dilation)
    small = small_convolution.reverse_geometry(windows)
    if _is_small(small, y, out):
        small_convolution.convolve(y, _turned(weight, groups), bias, out, small, groups)
        return
    if all(step == 1 for step in stride):  # a convolution with the weights turned round: nothing is added twice
        turned, before = _turned(weight, groups), []
        for kernel, step, pad in zip(weight.shape[2:], dilation, padding, strict=True):
            before.append(step * (kernel - 1) - pad)
        convolution(y, turned, bias, out, stride=stride, padding=tuple(before), dilation=dilation, groups=groups)
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
    job = Transposed(windows, groups, y, weight, bias, out, _LIBRARY)
    row_convolution.run_tasks(job.run, job.count, job.specs)


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
    windows = Windows(x.shape[2:], y.shape[2:], out.shape[2:], stride, padding, dilation)
    small = small_convolution.geometry(windows)
    if _is_small(small, x, out):
        small_convolution.by_weights(x, y, out, small, groups)
        return
    if row_convolution.pays_by_weights(windows, groups, out.dtype):
        row_convolution.by_weights(x, y, out, windows, groups)
        return
    job = Weights(windows, groups, x, y, out, _LIBRARY)
    row_convolution.run_tasks(job.run, job.count, job.specs)
    job.finish()


def _is_small(shape: small_convolution.Geometry, x: Array, out: Array) -> bool:
    in_its_dtype = row_convolution.product_dtype(out.dtype) == out.dtype
    return in_its_dtype and small_convolution.pays(shape, len(x), x.shape[1], out.itemsize)


def _fill(out: Array, bias: Array | None) -> None:
    copy_tiled(0 if bias is None else bias.reshape(-1, *(1,) * (out.ndim - 2)), out)


def _cast(array: Array, dtype: DType) -> Array:
    copied = scratch(array.shape, dtype)
    copy_tiled(array, copied)
    return copied


def _turned(weight: Array, groups: int) -> Array:
    """Weights (channels, features / groups, *kernel) of the reverse, in scratch."""
    features, inputs = weight.shape[0] // groups, weight.shape[1]
    kernel = weight.shape[2:]
    turned = scratch((groups * inputs, features, *kernel), weight.dtype)
    backwards = (slice(None), slice(None), slice(None), *(slice(None, None, -1) for _ in kernel))
    source = weight.reshape(groups, features, inputs, *kernel)[backwards]
    turned.reshape(groups, inputs, features, *kernel)[...] = source.swapaxes(1, 2)
    return turned
