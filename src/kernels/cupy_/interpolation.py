"""Maps along the last axes, one after the other: interpolation, and pooling by means."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cupy
import numpy as np

from ..taps import Taps
from .launch import WIDE, Array, kernel

__all__ = [
    "resample",
]

_ALONG = cupy.ElementwiseKernel(
    "raw T x, raw int64 index, raw float64 weight, int64 taps, int64 size, int64 count, int64 inner",
    "T y",
    """
    long long at = (long long)i % inner, rest = (long long)i / inner;
    long long result = rest % count, start = rest / count * size * inner + at;
    W total = 0;
    for (long long j = result * taps; j < (result + 1) * taps; ++j) {
      if (weight[j] != 0) total += (W)weight[j] * (W)x[start + index[j] * inner];
    }
    y = (T)total;
    """,
    "stowgrad_resample",
    preamble=WIDE,
)


@kernel
def resample(x: Array, out: Array, *, taps: Sequence[Taps | None]) -> None:
    """Apply a map (`Taps`) to each of the last axes of ``x``; None leaves an axis as it is.

    Args:
        x: (*, *sizes), any strides.
        out: (*, *sizes of the results).
    """
    if out.size == 0:
        return
    if x.size == 0:
        out.fill(0)
        return
    lead = out.ndim - len(taps)
    todo = [axis for axis, tap in enumerate(taps) if tap is not None]
    todo.sort(key=lambda axis: out.shape[lead + axis] / x.shape[lead + axis])
    values = cupy.ascontiguousarray(x)
    for axis in todo:
        tap = taps[axis]
        assert tap is not None, "only those were chosen"
        shape = list(values.shape)
        shape[lead + axis] = out.shape[lead + axis]
        result = out if axis == todo[-1] else cupy.empty(tuple(shape), out.dtype)
        inner = math.prod(shape[lead + axis + 1 :])
        sizes = tap.element.shape[1], tap.size, shape[lead + axis], inner
        _ALONG(values, _on_device(tap.element, np.int64), _on_device(tap.weight, np.float64), *sizes, result)
        values = result
    if not todo:
        cupy.copyto(out, values)


def _on_device(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], dtype: type) -> Array:
    copied = cupy.empty(array.shape, dtype)
    copied.set(np.ascontiguousarray(array, dtype))
    return copied
