"""Integers in the narrowest type that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .tiles import for_tiles

_NARROWER: tuple[np.dtype[Any], ...] = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


class NarrowIntegers(HostCodec):
    """Keeps integers as their distances from the smallest one, in 1, 2 or 4 bytes each, exactly.

    Indices, positions and class numbers are int64 by habit and small in fact. Integers that need their own width, and
    every other dtype, are left alone.
    """

    name = "narrow"

    def describe(self) -> str:
        return "narrowest integers"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype.kind not in "iu" or array.itemsize == 1:
            return None
        bounds: list[tuple[int, int]] = []
        for_tiles(array, lambda start, numbers: bounds.append((int(numbers.min()), int(numbers.max()))))
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        narrow = next((dtype for dtype in _NARROWER if high - low <= np.iinfo(dtype).max), None)
        if narrow is None or narrow.itemsize >= array.itemsize:
            return None
        distances, _ = memory.lease((array.size,), narrow, PACKED)
        base = array.dtype.type(low)

        def tile(start: int, numbers: HostArray) -> None:
            part = distances[start : start + numbers.size]
            np.subtract(numbers, base, out=part, dtype=numbers.dtype, casting="unsafe")

        for_tiles(array, tile)
        return (distances,), low

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        (distances,) = buffers
        base = out.dtype.type(note)

        def tile(start: int, numbers: HostArray) -> None:
            part = distances[start : start + numbers.size]
            np.add(part, base, out=numbers, dtype=numbers.dtype, casting="unsafe")

        for_tiles(out, tile)
