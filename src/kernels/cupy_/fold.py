"""Windows of images as columns, and columns added back into images."""

from __future__ import annotations

import cupy

from ..windows import Windows, add_windows, take_windows
from .launch import Array, kernel

__all__ = [
    "col2im",
    "im2col",
]

Numbers = tuple[int, ...]


@kernel
def im2col(
    x: Array, out: Array, *, count: Numbers, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """``out`` (N, C * places, windows): what windows of ``x`` (N, C, *size) see."""
    if out.size == 0:
        return
    windows = Windows(x.shape[2:], count, kernel, stride, padding, dilation)
    columns = out.reshape(len(x) * x.shape[1], *kernel, 1, *count)
    take_windows(x.reshape(len(x) * x.shape[1], 1, *x.shape[2:]), columns, windows, windows.block())


@kernel
def col2im(
    x: Array, out: Array, *, count: Numbers, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """``out`` (N, C, *size): the sum of what ``x`` (N, C * places, windows) has for each element."""
    if out.size == 0:
        return
    out.fill(0)
    windows = Windows(out.shape[2:], count, kernel, stride, padding, dilation)
    columns = x.reshape(len(x) * out.shape[1], *kernel, 1, *count)
    target = out.reshape(len(x) * out.shape[1], 1, *out.shape[2:])
    add_windows(columns, target, windows, windows.block(), cupy.add)
