"""Elements of images at given places, with values between the elements, and the gradients."""

from __future__ import annotations

import math

import cupy
import numpy as np

from .launch import WIDE, Array, kernel
from .window_pooling import plane_gather

__all__ = [
    "grid_places",
    "grid_sample",
    "grid_sample_backward",
]

_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}

# What a place reads along one axis; the twin on NumPy says what all of it means.
_AXIS = (
    WIDE
    + """
struct Axis { long long index[4]; bool inside[4]; W weight[4], slope[4], multiplier, offset; };
__device__ static inline W padded(W at, W size, long long padding, bool corners, W &sign) {
  sign = 1;
  if (padding == 0) return at;
  if (padding == 2) {
    W least = corners ? (W)0 : (W)-0.5f, span = corners ? size - 1 : size;
    if (span == 0) { sign = 0; return 0; }
    W distance = at - least;
    if (distance < 0) { sign = -1; distance = -distance; }
    W extra = fmod(distance, span);
    if (fmod(floor(distance / span), (W)2) != 0) { sign = -sign; extra = span - extra; }
    at = extra + least;
  }
  if (at <= 0 || at >= size - 1) sign = 0;
  if (at != at) return 0;
  return at < 0 ? (W)0 : at > size - 1 ? size - 1 : at;
}
__device__ static inline Axis axis_at(W place, long long length, long long taps, long long padding, bool corners) {
  Axis r; W size = (W)length, sign = 1;
  W at = corners ? (place + 1) / 2 * (size - 1) : ((place + 1) * size - 1) / 2;
  r.multiplier = corners ? (size - 1) / 2 : size / 2;
  if (taps != 4) { at = padded(at, size, padding, corners, sign); r.multiplier *= sign; }
  W first = taps == 1 ? rint(at) : floor(at), t = at - first;
  r.offset = t - place * r.multiplier;
  const W a = (W)-0.75f;
  for (long long j = 0; j < taps; ++j) {
    W index = first + (W)j;
    if (taps == 1) { r.weight[j] = 1; r.slope[j] = 0; }
    else if (taps == 2) { r.weight[j] = j ? t : 1 - t; r.slope[j] = j ? r.multiplier : -r.multiplier; }
    else {
      index = padded(first + (W)(j - 1), size, padding, corners, sign);
      W d = j == 0 ? t + 1 : j == 1 ? t : j == 2 ? 1 - t : 2 - t, s = j < 2 ? r.multiplier : -r.multiplier;
      bool near = j == 1 || j == 2;
      r.weight[j] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((d - 5) * d + 8) * d * a - 4 * a;
      r.slope[j] = (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : ((3 * d - 10) * d + 8) * a) * s;
    }
    r.inside[j] = index >= 0 && index < size;
    r.index[j] = r.inside[j] ? (long long)index : index < 0 ? 0 : length - 1;
    if (index != index) r.index[j] = 0;
  }
  return r;
}
"""
)
# g: sizes of three axes (1 if there are fewer), the number of axes, places of a sample, channels, taps, modes.
_READ = """
long long axes = g[3], places = g[4], channels = g[5], taps = g[6];
Axis read[3];
for (long long k = 0; k < 3; ++k) {
  if (k < 3 - axes) {
    read[k].index[0] = 0; read[k].inside[0] = true; read[k].weight[0] = 1; read[k].slope[0] = 0;
  } else {
    read[k] = axis_at((W)grid[at * axes + 2 - k], g[k], taps, g[7], g[8] != 0);
  }
}
long long outer = axes == 3 ? taps : 1, plane = g[0] * g[1] * g[2], sample = at / places;
"""
_LOOP = """
for (long long p = 0; p < outer; ++p) for (long long q = 0; q < taps; ++q) for (long long r = 0; r < taps; ++r) {
  bool inside = read[0].inside[p] && read[1].inside[q] && read[2].inside[r];
  long long element = (read[0].index[p] * g[1] + read[1].index[q]) * g[2] + read[2].index[r];
"""
_SAMPLE = cupy.ElementwiseKernel(
    "raw T x, raw T grid, raw int64 g",
    "T y",
    """
    long long number = (long long)i, at = number % g[4] + number / (g[4] * g[5]) * g[4];
    long long channel = number / g[4] % g[5];
    """
    + _READ
    + "W total = 0;"
    + _LOOP
    + """
      W value = inside ? (W)x[(sample * channels + channel) * plane + element] : (W)0;
      total += value * (read[0].weight[p] * read[1].weight[q] * read[2].weight[r]);
    }
    y = (T)total;
    """,
    "stowgrad_grid_sample",
    preamble=_AXIS,
)
_BY_PLACE = cupy.ElementwiseKernel(
    "raw T grad, raw T x, raw T grid, raw int64 g",
    "T y",
    "long long number = (long long)i, at = number / g[3], wanted = 2 - number % g[3];"
    + _READ
    + "W total = 0;"
    + _LOOP
    + """
      if (!inside) continue;
      W factor = wanted == 0 ? read[0].slope[p] : read[0].weight[p];
      factor *= wanted == 1 ? read[1].slope[q] : read[1].weight[q];
      factor *= wanted == 2 ? read[2].slope[r] : read[2].weight[r];
      W shared = 0;
      for (long long c = 0; c < channels; ++c) {
        shared += (W)x[(sample * channels + c) * plane + element]
          * (W)grad[(sample * channels + c) * places + at % places];
      }
      total += shared * factor;
    }
    y = (T)total;
    """,
    "stowgrad_grid_sample_by_place",
    preamble=_AXIS,
)
_PLACES = cupy.ElementwiseKernel(
    "raw T grid, raw int64 g",
    "raw int64 index, raw T exists, raw T multiplier, raw T offset",
    "long long at = (long long)i;"
    + _READ
    + """
    long long corner = 0, corners = outer * taps * taps;
    for (long long k = 3 - axes; k < 3; ++k) {
      multiplier[at * axes + 2 - k] = (T)read[k].multiplier;
      offset[at * axes + 2 - k] = (T)read[k].offset;
    }
    """
    + _LOOP
    + """
      long long where = (sample * corners + corner) * places + at % places;
      index[where] = element; exists[where] = (T)(inside ? 1.0f : 0.0f); ++corner;
    }
    """,
    "stowgrad_grid_places",
    preamble=_AXIS,
)
# Each element adds up what the places that read it have for it, in the order of the places: see `plane_scatter_add`.
_WEIGHTS = cupy.ElementwiseKernel(
    "raw T grid, raw int64 g",
    "raw T weight",
    "long long at = (long long)i;"
    + _READ
    + "long long corner = 0, corners = outer * taps * taps;"
    + _LOOP
    + """
      W product = read[0].weight[p] * read[1].weight[q] * read[2].weight[r];
      weight[(sample * corners + corner) * places + at % places] = (T)(inside ? product : (W)0);
      ++corner;
    }
    """,
    "stowgrad_grid_weights",
    preamble=_AXIS,
)
_BY_IMAGE = cupy.ElementwiseKernel(
    "raw T grad, raw T weight, raw int64 order, raw int64 sorted, raw int64 g, int64 corners",
    "T y",
    """
    long long plane = g[0] * g[1] * g[2], places = g[4], channels = g[5], count = corners * places;
    long long wanted = (long long)i % plane, channel = (long long)i / plane, sample = channel / channels;
    long long low = sample * count, high = low + count, end = high;
    while (low < high) {
      long long middle = (low + high) / 2;
      if (sorted[middle] < wanted) low = middle + 1; else high = middle;
    }
    W total = 0;
    for (; low < end && sorted[low] == wanted; ++low) {
      total += (W)weight[sample * count + order[low]] * (W)grad[channel * places + order[low] % places];
    }
    y = (T)total;
    """,
    "stowgrad_grid_sample_by_image",
    preamble=WIDE,
)


@kernel
def grid_sample(x: Array, grid: Array, out: Array, *, mode: str, padding_mode: str, align_corners: bool) -> None:
    """``out[n, c, p]`` is the value of ``x[n, c]`` at ``grid[n, p]``.

    Args:
        x: (N, C, *size), any strides.
        grid: (N, *count, axes): places from -1 to 1, the last axis first.
        out: (N, C, *count).
        mode: ``nearest``, ``bilinear`` (linear along each axis) or ``bicubic``.
        padding_mode: what lies outside: ``zeros``, the ``border``, or the ``reflection``.
        align_corners: whether -1 and 1 are the outermost elements, or their outer edges.
    """
    if out.size:
        geometry = _geometry(x.shape[2:], grid, x.shape[1], mode, padding_mode, align_corners)
        _SAMPLE(cupy.ascontiguousarray(x), cupy.ascontiguousarray(grid), geometry, out)


@kernel
def grid_sample_backward(
    grad: Array,
    x: Array | None,
    grid: Array,
    grad_x: Array | None,
    grad_grid: Array | None,
    *,
    mode: str,
    padding_mode: str,
    align_corners: bool,
) -> None:
    """The gradients of `grid_sample` that are asked for: those that are not None.

    Args:
        grad: (N, C, *count).
        x: (N, C, *size), read for ``grad_grid``.
        grad_x: (N, C, *size); grad_grid: (N, *count, axes).
    """
    like = x if grad_x is None else grad_x
    if like is None:
        return
    if grad.size == 0:
        for out in (grad_x, grad_grid):
            if out is not None:
                out.fill(0)
        return
    size = like.shape[2:]
    upstream, places = cupy.ascontiguousarray(grad), cupy.ascontiguousarray(grid)
    geometry = _geometry(size, grid, grad.shape[1], mode, padding_mode, align_corners)
    if grad_grid is not None and x is not None:
        _BY_PLACE(upstream, cupy.ascontiguousarray(x), places, geometry, grad_grid)
    if grad_x is not None:
        shape = len(grid), _TAPS[mode] ** len(size), math.prod(grid.shape[1:-1])
        index, exists = cupy.empty(shape, np.int64), cupy.empty(shape, grid.dtype)
        multiplier, offset = cupy.empty(grid.shape, grid.dtype), cupy.empty(grid.shape, grid.dtype)
        count = shape[0] * shape[2]
        _PLACES(places, geometry, index, exists, multiplier, offset, size=count)
        del multiplier, offset
        weight = exists
        _WEIGHTS(places, geometry, weight, size=count)
        flat = index.reshape(len(grid), -1)
        order = cupy.argsort(flat, axis=1, kind="stable")
        ordered = cupy.empty(flat.shape, np.int64)
        plane_gather(flat, order, ordered, axes=1)
        _BY_IMAGE(upstream, weight, order, ordered, geometry, shape[1], grad_x)


@kernel
def grid_places(
    grid: Array,
    index: Array,
    inside: Array,
    multiplier: Array,
    offset: Array,
    *,
    size: tuple[int, ...],
    mode: str,
    padding_mode: str,
    align_corners: bool,
) -> None:
    """What `grid_sample` reads, for what composes it of other operations.

    Args:
        grid: (N, *count, axes).
        index: an out, int64 (N, corners, *count): the elements' numbers in their plane.
        inside: an out, (N, corners, *count): 1 where there is such an element, else 0.
        multiplier, offset: outs like the grid: ``grid * multiplier + offset`` is the place within its element.
    """
    count = math.prod(grid.shape[:-1])
    if count:
        geometry = _geometry(size, grid, 1, mode, padding_mode, align_corners)
        _PLACES(cupy.ascontiguousarray(grid), geometry, index, inside, multiplier, offset, size=count)


def _geometry(
    size: tuple[int, ...], grid: Array, channels: int, mode: str, padding_mode: str, align_corners: bool
) -> Array:
    axes = len(size)
    numbers = (*(1,) * (3 - axes), *size, axes, math.prod(grid.shape[1:-1]), channels)
    copied = cupy.empty((9,), np.int64)
    copied.set(np.array((*numbers, _TAPS[mode], _PADDING[padding_mode], int(align_corners)), np.int64))
    return copied
