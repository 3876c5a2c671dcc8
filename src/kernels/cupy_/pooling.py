"""Pooling by the largest element of windows at equal distances, and its gradients.

What is kept of a window is the number of the place, in it, of its largest element (the note in the twin on NumPy).
"""

from __future__ import annotations

import math

import cupy
import numpy as np

from .launch import Array, kernel

__all__ = [
    "max_pool",
    "max_pool_backward",
    "max_pool_gather",
    "max_pool_indices",
]

Numbers = tuple[int, ...]

# g: size, count, kernel, stride, padding and dilation of three axes.
_READ = """
const long long *size = &g[0], *count = &g[3], *places = &g[6], *stride = &g[9], *pad = &g[12], *spread = &g[15];
"""
_WINDOW = (
    _READ
    + """
long long window = (long long)i, w = window % count[2], h = window / count[2] % count[1];
long long d = window / (count[2] * count[1]) % count[0], plane = window / (count[2] * count[1] * count[0]);
long long start = plane * size[0] * size[1] * size[2];
"""
)
_MAX_POOL = cupy.ElementwiseKernel(
    "raw T x, raw int64 g",
    "T y, int64 place",
    _WINDOW
    + """
    bool found = false; T most = 0; long long number = 0, best = 0;
    for (long long a = 0; a < places[0]; ++a) for (long long b = 0; b < places[1]; ++b)
      for (long long c = 0; c < places[2]; ++c, ++number) {
        long long z = d * stride[0] + a * spread[0] - pad[0], v = h * stride[1] + b * spread[1] - pad[1];
        long long u = w * stride[2] + c * spread[2] - pad[2];
        if (z < 0 || z >= size[0] || v < 0 || v >= size[1] || u < 0 || u >= size[2]) continue;
        T value = x[start + (z * size[1] + v) * size[2] + u];
        if (!found || value > most || value != value) { most = value; best = number; found = true; }
      }
    y = most; place = best;
    """,
    "stowgrad_max_pool",
)
_BACKWARD = cupy.ElementwiseKernel(
    "raw T grad, raw int64 place, raw int64 g",
    "T y",
    _READ
    + """
    long long at = (long long)i, u = at % size[2], v = at / size[2] % size[1], z = at / (size[2] * size[1]) % size[0];
    long long start = at / (size[2] * size[1] * size[0]) * count[0] * count[1] * count[2], number = 0;
    T total = 0;
    for (long long a = 0; a < places[0]; ++a) for (long long b = 0; b < places[1]; ++b)
      for (long long c = 0; c < places[2]; ++c, ++number) {
        long long d = z + pad[0] - a * spread[0], h = v + pad[1] - b * spread[1], w = u + pad[2] - c * spread[2];
        if (d < 0 || h < 0 || w < 0 || d % stride[0] || h % stride[1] || w % stride[2]) continue;
        d /= stride[0]; h /= stride[1]; w /= stride[2];
        if (d >= count[0] || h >= count[1] || w >= count[2]) continue;
        long long window = start + (d * count[1] + h) * count[2] + w;
        if (place[window] == number) total = total + grad[window];
      }
    y = total;
    """,
    "stowgrad_max_pool_backward",
)
_ELEMENT = """
long long number = place[i];
long long z = d * stride[0] + number / (places[2] * places[1]) * spread[0] - pad[0];
long long v = h * stride[1] + number / places[2] % places[1] * spread[1] - pad[1];
long long u = w * stride[2] + number % places[2] * spread[2] - pad[2];
"""
_GATHER = cupy.ElementwiseKernel(
    "raw T x, raw int64 place, raw int64 g",
    "T y",
    _WINDOW + _ELEMENT + "y = x[start + (z * size[1] + v) * size[2] + u]",
    "stowgrad_max_pool_gather",
)
_INDICES = cupy.ElementwiseKernel(
    "raw int64 place, raw int64 g",
    "int64 y",
    _WINDOW + _ELEMENT + "y = (z * size[1] + v) * size[2] + u",
    "stowgrad_max_pool_indices",
)


@kernel
def max_pool(
    x: Array, out: Array, places: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """The largest element of each window, and its place in it.

    Args:
        x: (*, *size), any strides.
        out: (*, *count).
        places: of the same shape; unsigned integers.
    """
    if out.size == 0:
        return
    axes = len(kernel)
    geometry = _geometry(x.shape[x.ndim - axes :], out.shape[out.ndim - axes :], kernel, stride, padding, dilation)
    wide = cupy.empty(out.shape, np.int64)
    _MAX_POOL(cupy.ascontiguousarray(x), geometry, out, wide)
    cupy.copyto(places, wide, casting="unsafe")


@kernel
def max_pool_backward(
    grad: Array, places: Array, out: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """Zeros with each gradient added at the place that its window chose.

    Args:
        grad: (*, *count), any strides.
        places: as `max_pool` found them.
        out: (*, *size).
    """
    if out.size == 0:
        return
    if grad.size == 0:
        out.fill(0)
        return
    axes = len(kernel)
    geometry = _geometry(
        out.shape[out.ndim - axes :], grad.shape[grad.ndim - axes :], kernel, stride, padding, dilation
    )
    _BACKWARD(cupy.ascontiguousarray(grad), _wide(places), geometry, out)


@kernel
def max_pool_gather(
    x: Array, places: Array, out: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> None:
    """What lies at the place that each window chose: the gradient of `max_pool_backward`.

    Args:
        x: (*, *size), any strides.
        places: as `max_pool` found them.
        out: (*, *count).
    """
    if out.size == 0:
        return
    axes = len(kernel)
    geometry = _geometry(x.shape[x.ndim - axes :], out.shape[out.ndim - axes :], kernel, stride, padding, dilation)
    _GATHER(cupy.ascontiguousarray(x), _wide(places), geometry, out)


@kernel
def max_pool_indices(
    places: Array,
    out: Array,
    *,
    size: Numbers,
    kernel: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
) -> None:
    """The numbers, among the elements of a plane of ``size``, of what `max_pool` found; ``out`` is int64."""
    if out.size == 0:
        return
    count = out.shape[out.ndim - len(kernel) :]
    _INDICES(_wide(places), _geometry(size, count, kernel, stride, padding, dilation), out)


def _wide(places: Array) -> Array:
    return cupy.ascontiguousarray(places).astype(np.int64)


def _geometry(*numbers: Numbers) -> Array:
    """The numbers of three axes on the device; axes that are missing have one element."""
    neutral = (1, 1, 1, 1, 0, 1)
    filled = [(value,) * (3 - len(given)) + tuple(given) for given, value in zip(numbers, neutral, strict=True)]
    copied = cupy.empty((18,), np.int64)
    copied.set(np.array(filled, np.int64).reshape(math.prod((3, 6))))
    return copied
