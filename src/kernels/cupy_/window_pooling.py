"""Pooling by the largest element of windows at any distance, and elements of planes by number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cupy
import numpy as np

from .launch import WIDE, Array, kernel

__all__ = [
    "adaptive_max_pool",
    "fractional_max_pool",
    "plane_gather",
    "plane_scatter",
    "plane_scatter_add",
]

# starts, ends: of the windows along three axes, one after the other, for each plane if `own` is 1. g: size, count.
_LARGEST = cupy.ElementwiseKernel(
    "raw T x, raw int64 starts, raw int64 ends, raw int64 g, int64 own",
    "T y, int64 index",
    """
    const long long *size = &g[0], *count = &g[3];
    long long window = (long long)i, w = window % count[2], h = window / count[2] % count[1];
    long long d = window / (count[2] * count[1]) % count[0], plane = window / (count[2] * count[1] * count[0]);
    long long first = plane * own * (count[0] + count[1] + count[2]);
    const long long *low = &starts[first], *high = &ends[first];
    long long from = plane * size[0] * size[1] * size[2], best = 0;
    h += count[0]; w += count[0] + count[1];
    bool found = false; T most = 0;
    for (long long z = low[d]; z < high[d]; ++z) for (long long v = low[h]; v < high[h]; ++v)
      for (long long u = low[w]; u < high[w]; ++u) {
        long long at = (z * size[1] + v) * size[2] + u;
        T value = x[from + at];
        if (!found || value > most || value != value) { most = value; best = at; found = true; }
      }
    y = most; index = best;
    """,
    "stowgrad_largest_of_windows",
)
_GATHER = cupy.ElementwiseKernel(
    "raw T x, int64 index, int64 size, int64 count",
    "T y",
    "y = x[(long long)i / count * size + index]",
    "stowgrad_plane_gather",
)
_SCATTER = cupy.ElementwiseKernel(
    "T x, int64 index, int64 size, int64 count",
    "raw T y",
    "y[(long long)i / count * size + index] = x",
    "stowgrad_plane_scatter",
)
# The elements of a plane in the order of their numbers; each result adds up its stretch of them, found by bisection.
_SUM_SORTED = cupy.ElementwiseKernel(
    "raw T x, raw int64 order, raw int64 sorted, int64 size, int64 count",
    "T y",
    """
    long long plane = (long long)i / size, wanted = (long long)i % size, low = plane * count, high = low + count;
    long long end = high;
    while (low < high) {
      long long middle = (low + high) / 2;
      if (sorted[middle] < wanted) low = middle + 1; else high = middle;
    }
    W total = 0;
    for (; low < end && sorted[low] == wanted; ++low) total += (W)x[plane * count + order[low]];
    y = (T)total;
    """,
    "stowgrad_plane_sum_sorted",
    preamble=WIDE,
)


@kernel
def adaptive_max_pool(
    x: Array, out: Array, indices: Array, *, windows: Sequence[tuple[np.ndarray, np.ndarray]]
) -> None:
    """The largest element of each window, and its number in its plane; the first of equal ones, the last NaN.

    Args:
        x: (*, *size), any strides.
        out: (*, *count).
        indices: of the same shape; integers.
        windows: for each of the last axes, the first elements of its windows and those after their last.
    """
    if out.size == 0:
        return
    axes = len(windows)
    missing = [(np.zeros(1, np.int64), np.ones(1, np.int64))] * (3 - axes)
    starts, ends = (np.concatenate([pair[side] for pair in [*missing, *windows]]) for side in range(2))
    _largest(x, axes, _on_device(starts), _on_device(ends), 0, out, indices)


@kernel
def fractional_max_pool(x: Array, samples: Array, out: Array, indices: Array, *, kernel: tuple[int, ...]) -> None:
    """The largest element of each window, and its number in its plane, with windows at random distances.

    Args:
        x: (N, C, *size), any strides.
        samples: (N, C, axes) numbers from 0 to 1, the last axis first for two axes.
        out, indices: (N, C, *count).

    Source: Graham, Fractional Max-Pooling, 2014.
    """
    if out.size == 0:
        return
    axes = len(kernel)
    given = cupy.ascontiguousarray(samples).get().reshape(-1, axes)
    given = given[:, ::-1] if axes == 2 else given
    starts = [np.zeros((len(given), 1), np.int64)] * (3 - axes)
    ends = [np.ones((len(given), 1), np.int64)] * (3 - axes)
    for axis in range(axes):
        results, room = out.shape[2 + axis], x.shape[2 + axis] - kernel[axis]
        step = given.dtype.type(room / (results - 1) if results > 1 else 0.0)
        sample = given[:, axis, None]
        start = ((np.arange(results, dtype=given.dtype) + sample) * step).astype(np.int64)
        start -= (sample * step).astype(np.int64)
        start[:, -1] = room
        starts.append(start)
        ends.append(start + kernel[axis])
    first, last = (_on_device(np.concatenate(part, axis=1).reshape(-1)) for part in (starts, ends))
    _largest(x, axes, first, last, 1, out, indices)


def _largest(x: Array, axes: int, starts: Array, ends: Array, own: int, out: Array, indices: Array) -> None:
    size, count = x.shape[x.ndim - axes :], out.shape[out.ndim - axes :]
    missing = (1,) * (3 - axes)
    wide = cupy.empty(out.shape, np.int64)
    geometry = _on_device(np.array((*missing, *size, *missing, *count), np.int64))
    _LARGEST(cupy.ascontiguousarray(x), starts, ends, geometry, own, out, wide)
    cupy.copyto(indices, wide, casting="unsafe")


@kernel
def plane_gather(x: Array, indices: Array, out: Array, *, axes: int) -> None:
    """``out[p, i] = x[p, indices[p, i]]``, where planes are the last ``axes`` axes, numbered through."""
    if out.size:
        _GATHER(cupy.ascontiguousarray(x), _wide(indices), _plane(x, axes), _plane(indices, axes), out)


@kernel
def plane_scatter(x: Array, indices: Array, out: Array, *, axes: int) -> None:
    """Zeros with ``out[p, indices[p, i]] = x[p, i]``, where planes are the last ``axes`` axes, numbered through.

    Raises:
        RuntimeError: if there is no element of that number.
    """
    out.fill(0)
    if x.size == 0:
        return
    wide, size = _wide(indices), _plane(out, axes)
    if bool((wide < 0).any()) or bool((wide >= size).any()):
        raise RuntimeError(
            f"found an invalid max index: indices go from {int(wide.min())} to {int(wide.max())}, but there are {size}"
            " elements in a plane of the result"
        )
    _SCATTER(x, wide, size, _plane(indices, axes), out)


@kernel
def plane_scatter_add(x: Array, indices: Array, out: Array, *, axes: int) -> None:
    """Zeros with each ``x[p, i]`` added to ``out[p, indices[p, i]]``, planes as in `plane_gather`."""
    if out.size == 0 or x.size == 0:
        out.fill(0)
        return
    count = _plane(indices, axes)
    numbers = _wide(indices).reshape(-1, count)
    order = cupy.argsort(numbers, axis=1, kind="stable")
    ordered = cupy.empty(numbers.shape, np.int64)
    _GATHER(numbers, order, count, count, ordered)
    _SUM_SORTED(cupy.ascontiguousarray(x), order, ordered, _plane(out, axes), count, out)


def _plane(x: Array, axes: int) -> int:
    return math.prod(x.shape[x.ndim - axes :])


def _wide(indices: Array) -> Array:
    return cupy.ascontiguousarray(indices).astype(np.int64)


def _on_device(array: np.ndarray) -> Array:
    copied = cupy.empty(array.shape, np.int64)
    copied.set(np.ascontiguousarray(array, np.int64))
    return copied
