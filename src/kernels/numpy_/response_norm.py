"""Sums over neighbouring channels, and local response norm, which divides by a power of one.

Arrays are seen as (samples, channels, inner); tiles are runs of inner places with all of their channels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..executor import Array, parallel_for
from .tiling import tile_size

__all__ = ["local_response_norm", "local_response_norm_backward", "window_sum"]


def window_sum(x: Array, out: Array, *, before: int, after: int) -> None:
    """``out[:, c] = x[:, c - before : c + after + 1].sum(1)``, as far as there are channels."""

    def tile(x: Array, out: Array) -> None:
        _window_sum_tile(x, out, before, after)

    _over_runs(tile, [x, out], 0)


def local_response_norm(x: Array, out: Array, *, size: int, alpha: float, beta: float, k: float) -> None:
    """``out = x / (k + alpha * mean of x**2 over size channels around it) ** beta``."""

    def tile(x: Array, out: Array, squares: Array, total: Array) -> None:
        np.multiply(x, x, squares)
        _denominators_tile(squares, total, size, alpha, k)
        np.power(total, -beta, total)
        np.multiply(x, total, out)

    _over_runs(tile, [x, out], 2)


def local_response_norm_backward(
    grad: Array, x: Array, grad_x: Array, *, size: int, alpha: float, beta: float, k: float
) -> None:
    """The gradient of `local_response_norm`: with the denominator d ** beta, ``g / d**beta`` less what changes d."""

    def tile(grad: Array, x: Array, grad_x: Array, work: Array, total: Array, power: Array) -> None:
        np.multiply(x, x, work)
        _denominators_tile(work, total, size, alpha, k)
        np.power(total, -beta, power)
        np.multiply(grad, power, power)
        np.divide(power, total, work)
        np.multiply(work, x, work)
        _window_sum_tile(work, total, (size - 1) // 2, size // 2)
        np.multiply(total, x, total)
        np.multiply(total, -2 * alpha * beta / size, total)
        np.add(power, total, grad_x)

    _over_runs(tile, [grad, x, grad_x], 3)


def _window_sum_tile(x: Array, out: Array, before: int, after: int) -> None:
    channels = len(x)
    np.copyto(out, x)
    for step in range(1, min(before, channels - 1) + 1):
        np.add(out[step:], x[:-step], out[step:])
    for step in range(1, min(after, channels - 1) + 1):
        np.add(out[:-step], x[step:], out[:-step])


def _denominators_tile(squares: Array, out: Array, size: int, alpha: float, k: float) -> None:
    _window_sum_tile(squares, out, size // 2, (size - 1) // 2)
    np.multiply(out, alpha / size, out)
    np.add(out, k, out)


def _over_runs(body: Callable[..., None], arrays: list[Array], buffers: int) -> None:
    samples, channels, inner = arrays[-1].shape
    dtype = arrays[-1].dtype
    if not arrays[-1].size:
        return
    run = min(inner, max(1, tile_size(channels * inner, dtype) // channels))
    runs = -(-inner // run)

    def task(index: int, *scratch: Array) -> None:
        sample, part = divmod(index, runs)
        views = [array[sample, :, part * run : (part + 1) * run] for array in arrays]
        count = views[-1].size
        body(*views, *[buffer[:count].reshape(views[-1].shape) for buffer in scratch])

    parallel_for(task, samples * runs, [((channels * run,), dtype)] * buffers)
