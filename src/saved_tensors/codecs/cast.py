"""Two bytes for a float32 or a float64: bfloat16 with 8 bits of significand, float16 with 11 and a smaller range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site, byte_runs
from .host import HostArray, HostCodec

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_LARGEST = 2.0**128 - 2.0**120
_INFINITY_BITS = 0x7F80
_SIGN_BIT = 0x8000
_TILE = 1 << 15
_FLOAT16 = np.dtype(np.float16)
_LARGEST_FLOAT16 = 65504.0


class BFloat16(HostCodec):
    """Rounds float32 and float64 to the nearest bfloat16; leaves every other dtype alone.

    The relative error is at most 2**-8 (a float64 is rounded to float32 on the way, which adds 2**-24). Below 2**-126,
    where bfloat16 has no more bits, the error is at most 2**-134. NaN and the infinities stay what they are. A finite
    value that would round to infinity becomes the largest bfloat16 where that keeps the bound; a float64 array with a
    larger one is left alone.
    """

    name = "bfloat16"
    lossy = True

    def describe(self) -> str:
        return "bfloat16 (lossy: relative error at most 2**-8)"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype not in (np.float32, np.float64):
            return None
        rounded, _ = memory.lease(array.shape, _BFLOAT16, PACKED)
        with np.errstate(all="ignore"):
            np.copyto(rounded, array, casting="unsafe")
        if not _keep_finite(rounded.reshape(-1), array):
            return None
        return (rounded,), None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        np.copyto(out, buffers[0].reshape(out.shape), casting="unsafe")


class Float16(HostCodec):
    """Rounds float32 and float64 to the nearest float16, by default after scaling; leaves every other dtype alone.

    Args:
        scaled: multiply each array by the power of two that brings its largest finite number near the largest float16.
            Without it, arrays with numbers above 65504 are left alone.

    The relative error is at most 2**-11 for numbers down to 2**-29 of the largest (without scaling, down to 2**-14);
    for smaller ones the error is at most 2**-41 of the largest (2**-25). NaN and the infinities stay what they are.
    """

    name = "float16"
    lossy = True

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled

    def describe(self) -> str:
        if self.scaled:
            return "float16, scaled (lossy: relative error at most 2**-11 down to 2**-29 of the largest)"
        return "float16 (lossy: relative error at most 2**-11 from 2**-14 to 65504)"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype not in (np.float32, np.float64):
            return None
        largest = _largest_finite(array)
        if not self.scaled and largest > _LARGEST_FLOAT16:
            return None
        # From 2**14 to below 2**15: the largest never rounds to infinity. Powers of two beyond the dtype's own aren't.
        limit = -np.finfo(array.dtype).minexp
        exponent = int(np.clip(15 - np.frexp(largest)[1], -limit, limit)) if self.scaled and largest else 0
        rounded, _ = memory.lease((array.size,), _FLOAT16, PACKED)
        factor, start = array.dtype.type(2.0**exponent), 0
        with memory.charge(_TILE * array.itemsize), np.errstate(all="ignore"):
            for run in byte_runs(array, _TILE * array.itemsize):
                numbers = run.view(array.dtype)
                rounded[start : start + numbers.size] = numbers * factor
                start += numbers.size
        return (rounded,), exponent

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        flat = out.reshape(-1)
        np.copyto(flat, buffers[0])
        if note:
            np.ldexp(flat, -note, out=flat)


def _largest_finite(array: HostArray) -> float:
    """The largest absolute value among the finite ones; 0 if there is none."""
    found = 0.0
    for run in byte_runs(array, _TILE * array.itemsize):
        sizes = np.abs(run.view(array.dtype))
        largest = float(sizes.max())
        found = max(found, largest if np.isfinite(largest) else float(sizes[np.isfinite(sizes)].max(initial=0.0)))
    return found


def _keep_finite(rounded: HostArray, array: HostArray) -> bool:
    """Make infinities of finite values the largest number again; False if one is too large for that."""
    bits = rounded.view(np.uint16)
    # two passes without a temporary array find out that there is nothing to do: positive, then negative
    if bits.view(np.int16).max() < _INFINITY_BITS and bits.max() < _INFINITY_BITS | _SIGN_BIT:
        return True
    for start in range(0, bits.size, _TILE):
        tile = bits[start : start + _TILE]
        infinite = np.flatnonzero(tile & (_SIGN_BIT - 1) == _INFINITY_BITS)
        if infinite.size:
            values = array.flat[infinite + start]
            finite = np.isfinite(values)
            if np.any(np.abs(values[finite]) > np.finfo(np.float32).max):
                return False
            rounded[infinite[finite] + start] = np.copysign(_LARGEST, values[finite])
    return True
