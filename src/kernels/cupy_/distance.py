"""Distances of every vector of one set from every vector of another: a thread a distance, or a gradient's element."""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = [
    "cdist",
    "cdist_backward",
]

_CDIST = cupy.ElementwiseKernel(
    "raw T a, raw T b, int64 rows, int64 columns, int64 width, float64 p, int64 infinite",
    "raw T y",
    """
    long long column = (long long)i % columns, line = (long long)i / columns;
    long long first = line * width, second = (line / rows * columns + column) * width;
    W total = 0;
    for (long long k = 0; k < width; ++k) {
      W d = (W)a[first + k] - (W)b[second + k];
      d = d < (W)0 ? -d : d;
      if (infinite) { total = d > total || d != d ? d : total; }
      else if (p == 2) { total += d * d; }
      else if (p == 1) { total += d; }
      else if (p == 0) { total += d != (W)0 ? (W)1 : (W)0; }
      else { total += pow(d, (W)p); }
    }
    if (!infinite && p == 2) { total = sqrt(total); }
    else if (!infinite && p != 1 && p != 0) { total = pow(total, (W)(1 / p)); }
    y[i] = (T)total;
    """,
    "stowgrad_cdist",
    preamble=WIDE,
)
_CDIST_BACKWARD = cupy.ElementwiseKernel(
    "raw T grad, raw T a, raw T b, raw T dist, int64 rows, int64 columns, int64 width, float64 p, int64 infinite",
    "raw T y",
    """
    long long k = (long long)i % width, line = (long long)i / width;
    long long second = line / rows * columns;
    W total = 0;
    for (long long j = 0; j < columns; ++j) {
      W far = (W)dist[line * columns + j], g = (W)grad[line * columns + j];
      W d = (W)a[i] - (W)b[(second + j) * width + k];
      W size = d < (W)0 ? -d : d, sign = d < (W)0 ? (W)-1 : (d > (W)0 ? (W)1 : (W)0);
      if (infinite) { total += size == far ? sign * g : (W)0; }
      else if (p == 1) { total += sign * g; }
      else if (far == (W)0 || sign == (W)0) { continue; }
      else if (p == 2) { total += d * (g / far); }
      else { total += sign * pow(size, (W)(p - 1)) * (g / pow(far, (W)(p - 1))); }
    }
    y[i] = (T)total;
    """,
    "stowgrad_cdist_backward",
    preamble=WIDE,
)


@kernel
def cdist(x1: Array, x2: Array, out: Array, *, p: float = 2.0) -> None:
    """``out[..., i, j] = norm(x1[..., i, :] - x2[..., j, :])``, of order ``p``; batches are of one shape."""
    if out.size:
        first, second = cupy.ascontiguousarray(x1), cupy.ascontiguousarray(x2)
        _CDIST(first, second, *_sizes(x1, x2, p), out, size=out.size)


@kernel
def cdist_backward(grad: Array, x1: Array, x2: Array, dist: Array, grad_x1: Array, *, p: float = 2.0) -> None:
    """The gradient of ``x1``, from the incoming one and the distances; where a distance is 0, so is its gradient."""
    if not x2.shape[-2] or not x1.size or p == 0:
        grad_x1.fill(0)
        return
    arrays = [cupy.ascontiguousarray(array) for array in (grad, x1, x2, dist)]
    _CDIST_BACKWARD(*arrays, *_sizes(x1, x2, p), grad_x1, size=x1.size)


def _sizes(x1: Array, x2: Array, p: float) -> tuple[int, int, int, float, int]:
    """Rows, columns, width, and the order with whether it is infinite."""
    infinite = math.isinf(p)
    return x1.shape[-2], x2.shape[-2], x1.shape[-1], 0.0 if infinite else p, int(infinite)
