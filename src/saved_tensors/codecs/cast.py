"""Half the bytes of a float32 and a quarter of a float64, with 8 bits of significand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site
from .host import HostArray, HostCodec

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_LARGEST = 2.0**128 - 2.0**120
_INFINITY_BITS = 0x7F80
_SIGN_BIT = 0x8000
_TILE = 1 << 15


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
