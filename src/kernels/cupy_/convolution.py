"""Convolutions of any number of dimensions: forward, transposed, and by the weights."""

from __future__ import annotations

from typing import Any

import cupy

from ..columns import Forward, Library, Transposed, Weights
from ..windows import Windows
from .launch import Array, kernel
from .linalg import matmul

__all__ = [
    "convolution",
    "convolution_backward_weight",
    "convolution_transposed",
]

Numbers = tuple[int, ...]


def _product(a: Array, b: Array, out: Array) -> None:
    matmul(a, b, out)


def _empty(shape: tuple[int, ...], dtype: Any) -> Array:
    return cupy.empty(shape, dtype)


def _library() -> Library:
    return Library(_product, cupy.add, cupy.ascontiguousarray, _empty, 64 << 20, 1)


def _run(job: Forward | Transposed | Weights) -> None:
    buffers = [cupy.empty(shape, dtype) for shape, dtype in job.specs]
    for number in range(job.count):
        job.run(number, *buffers)


@kernel
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
    windows = Windows(x.shape[2:], out.shape[2:], weight.shape[2:], stride, padding, dilation)
    _run(Forward(windows, groups, x, weight, bias, out, _library()))


@kernel
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
    windows = Windows(out.shape[2:], y.shape[2:], weight.shape[2:], stride, padding, dilation)
    _run(Transposed(windows, groups, y, weight, bias, out, _library()))


@kernel
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
        out.fill(0)
        return
    windows = Windows(x.shape[2:], y.shape[2:], out.shape[2:], stride, padding, dilation)
    job = Weights(windows, groups, x, y, out, _library())
    _run(job)
    job.finish()


def _fill(out: Array, bias: Array | None) -> None:
    if bias is None:
        out.fill(0)
    else:
        cupy.copyto(out, bias.reshape(-1, *(1,) * (out.ndim - 2)))
