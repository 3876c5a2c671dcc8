"""Windows of images as columns, and columns added back into images."""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_for
from ..windows import Windows, add_windows, take_windows
from .tiling import contiguous, tile_size

__all__ = [
    "col2im",
    "im2col",
]

Numbers = tuple[int, ...]


def im2col(
    x: Array, out: Array, *, count: Numbers, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """``out`` (N, C * places, windows): what windows of ``x`` (N, C, *size) see."""
    if out.size == 0:
        return
    windows = Windows(x.shape[2:], count, kernel, stride, padding, dilation)
    columns = out.reshape(len(x), x.shape[1], *kernel, 1, *count)
    step = _channels(windows, out)

    def run(index: int) -> None:
        sample, number = divmod(index, -(-x.shape[1] // step))
        where = slice(number * step, (number + 1) * step)
        take_windows(x[sample, where][:, None], columns[sample, where], windows, windows.block())

    parallel_for(run, len(x) * -(-x.shape[1] // step))


def col2im(
    x: Array, out: Array, *, count: Numbers, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """``out`` (N, C, *size): the sum of what ``x`` (N, C * places, windows) has for each element."""
    if out.size == 0:
        return
    windows = Windows(out.shape[2:], count, kernel, stride, padding, dilation)
    columns = contiguous(x).reshape(len(x), out.shape[1], *kernel, 1, *count)
    step = _channels(windows, x)

    def run(index: int) -> None:
        sample, number = divmod(index, -(-out.shape[1] // step))
        where = slice(number * step, (number + 1) * step)
        target = out[sample, where][:, None]
        target.fill(0)
        add_windows(columns[sample, where], target, windows, windows.block(), np.add)

    parallel_for(run, len(out) * -(-out.shape[1] // step))


def _channels(windows: Windows, columns: Array) -> int:
    """Channels of a task: as many as make a tile."""
    return max(1, tile_size(1 << 30, columns.dtype) // max(1, windows.places * windows.positions))
