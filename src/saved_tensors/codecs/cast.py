"""Two bytes for a float32 or a float64: bfloat16 with 8 bits of significand, float16 with 11 and a smaller range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...memory import MemoryPool
from ..layout import Array
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .rounding import CHUNK, bfloat16_bits, from_bfloat16_bits, largest_finite
from .tiles import TILE, for_tiles

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BITS = np.dtype(np.uint16)
_LARGEST = 2.0**128 - 2.0**120
_INFINITY_BITS = 0x7F80
_SIGN_BIT = 0x8000
_FLOAT16 = np.dtype(np.float16)
_LARGEST_FLOAT16 = 65504.0
# What the largest number of an array is scaled to lies below this; and the float16 before it.
_POWER = 2.0**15
_BELOW_POWER = _POWER - 2.0**4


def _is_taken(array: Array) -> bool:
    return array.dtype in (np.float32, np.float64)


class BFloat16(HostCodec):
    """Rounds float32 and float64 to the nearest bfloat16; leaves every other dtype alone.

    The relative error is at most 2**-8 (a float64 is rounded to float32 on the way, which adds 2**-24). Below 2**-126,
    where bfloat16 has no more bits, the error is at most 2**-134. NaN and the infinities stay what they are. A finite
    value that would round to infinity becomes the largest bfloat16 where that keeps the bound; a float64 array with a
    larger one is left alone.
    """

    name = "bfloat16"
    lossy = True
    on_device = True

    def describe(self) -> str:
        return "bfloat16 (lossy: relative error at most 2**-8)"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if not _is_taken(array):
            return None
        rounded, _ = memory.lease((array.size,), _BFLOAT16, PACKED)
        too_large = []

        def tile(start: int, numbers: HostArray) -> None:
            part = rounded[start : start + numbers.size]
            np.copyto(part, numbers, casting="unsafe")
            if not _keep_finite(part, numbers):
                too_large.append(start)

        with np.errstate(all="ignore"):
            for_tiles(array, tile)
        return None if too_large else ((rounded,), None)

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        flat = out.reshape(-1)

        def tile(start: int, numbers: HostArray) -> None:
            np.copyto(flat[start : start + numbers.size], numbers, casting="unsafe")

        for_tiles(buffers[0].reshape(-1), tile)

    def encode_on_device(self, xp: Any, flat: Array, memory: MemoryPool) -> tuple[Sequence[Array], Any] | None:
        if not _is_taken(flat):
            return None
        rounded, _ = memory.lease((flat.size,), _BITS, PACKED)
        for start in range(0, flat.size, CHUNK):
            bits = bfloat16_bits(xp, flat[start : start + CHUNK])
            if bits is None:
                return None
            rounded[start : start + CHUNK] = bits
        return (rounded,), None

    def decode_on_device(self, xp: Any, buffers: Sequence[Array], flat: Array, note: Any) -> None:
        for start in range(0, flat.size, CHUNK):
            flat[start : start + CHUNK] = from_bfloat16_bits(buffers[0][start : start + CHUNK])


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
    on_device = True

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled

    def describe(self) -> str:
        if self.scaled:
            return "float16, scaled (lossy: relative error at most 2**-11 down to 2**-29 of the largest)"
        return "float16 (lossy: relative error at most 2**-11 from 2**-14 to 65504)"

    def _exponent(self, largest: float, dtype: np.dtype[Any]) -> tuple[int, bool] | None:
        """The power of two to scale by, and whether rounding may reach the end of the dtype; None to leave it alone."""
        if not self.scaled and largest > _LARGEST_FLOAT16:
            return None
        # From 2**14 to below 2**15: the largest never rounds to infinity. Powers of two beyond the dtype's own aren't.
        limit = -int(np.finfo(dtype).minexp)
        power = int(np.frexp(largest)[1])
        exponent = int(np.clip(15 - power, -limit, limit)) if self.scaled and largest else 0
        return exponent, bool(exponent) and power == np.finfo(dtype).maxexp

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if not _is_taken(array):
            return None
        scaling = self._exponent(_largest_finite(array), array.dtype)
        if scaling is None:
            return None
        exponent, at_the_end = scaling
        factor = array.dtype.type(2.0**exponent)
        rounded, _ = memory.lease((array.size,), _FLOAT16, PACKED)

        def tile(start: int, numbers: HostArray, scratch: HostArray) -> None:
            part = rounded[start : start + numbers.size]
            part[...] = np.multiply(numbers, factor, out=scratch[: numbers.size])
            if at_the_end:
                _keep_below(np, part)

        with np.errstate(all="ignore"):
            for_tiles(array, tile, [((min(TILE, array.size),), array.dtype)])
        return (rounded,), exponent

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        flat = out.reshape(-1)

        def tile(start: int, numbers: HostArray) -> None:
            part = flat[start : start + numbers.size]
            np.copyto(part, numbers)
            if note:
                np.ldexp(part, -note, out=part)

        for_tiles(buffers[0], tile)

    def encode_on_device(self, xp: Any, flat: Array, memory: MemoryPool) -> tuple[Sequence[Array], Any] | None:
        if not _is_taken(flat):
            return None
        starts = range(0, flat.size, CHUNK)
        scaling = self._exponent(max(largest_finite(xp, flat[at : at + CHUNK]) for at in starts), flat.dtype)
        if scaling is None:
            return None
        exponent, at_the_end = scaling
        rounded, _ = memory.lease((flat.size,), _FLOAT16, PACKED)
        for start in starts:
            part = rounded[start : start + CHUNK]
            with np.errstate(all="ignore"):
                part[...] = (flat[start : start + CHUNK] * flat.dtype.type(2.0**exponent)).astype(_FLOAT16)
            if at_the_end:
                _keep_below(xp, part)
        return (rounded,), exponent

    def decode_on_device(self, xp: Any, buffers: Sequence[Array], flat: Array, note: Any) -> None:
        for start in range(0, flat.size, CHUNK):
            part = buffers[0][start : start + CHUNK].astype(flat.dtype)
            flat[start : start + CHUNK] = xp.ldexp(part, np.int32(-note)) if note else part


def _keep_below(xp: Any, rounded: Array) -> None:
    """Take back what was rounded up to a power of two beyond the dtype's range: it would come back as infinity."""
    for sign in (1, -1):
        rounded[...] = xp.where(rounded == np.float16(sign * _POWER), np.float16(sign * _BELOW_POWER), rounded)


def _largest_finite(array: HostArray) -> float:
    """The largest absolute value among the finite ones; 0 if there is none."""
    found: list[float] = [0.0]

    def tile(start: int, numbers: HostArray, scratch: HostArray) -> None:
        sizes = np.abs(numbers, out=scratch[: numbers.size])
        largest = float(sizes.max())
        found.append(largest if np.isfinite(largest) else float(np.max(sizes, where=np.isfinite(sizes), initial=0.0)))

    for_tiles(array, tile, [((min(TILE, array.size),), array.dtype)])
    return max(found)


def _keep_finite(rounded: HostArray, numbers: HostArray) -> bool:
    """Make infinities of finite values the largest number again; False if one is too large for that."""
    bits = rounded.view(np.uint16)
    # two passes without a temporary array find out that there is nothing to do: positive, then negative
    if bits.view(np.int16).max() < _INFINITY_BITS and bits.max() < _INFINITY_BITS | _SIGN_BIT:
        return True
    infinite = np.flatnonzero(bits & (_SIGN_BIT - 1) == _INFINITY_BITS)
    if infinite.size:
        values = numbers[infinite]
        finite = np.isfinite(values)
        if np.any(np.abs(values[finite]) > np.finfo(np.float32).max):
            return False
        rounded[infinite[finite]] = np.copysign(_LARGEST, values[finite])
    return True
