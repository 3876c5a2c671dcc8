"""Integers in the narrowest type that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site, byte_runs
from .host import HostArray, HostCodec

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
        low, high = int(array.min()), int(array.max())
        narrow = next((dtype for dtype in _NARROWER if high - low <= np.iinfo(dtype).max), None)
        if narrow is None or narrow.itemsize >= array.itemsize:
            return None
        distances, _ = memory.lease((array.size,), narrow, PACKED)
        base = array.dtype.type(low)
        start = 0
        for run in byte_runs(array):
            numbers = run.view(array.dtype)
            part = distances[start : start + numbers.size]
            np.subtract(numbers, base, out=part, dtype=array.dtype, casting="unsafe")
            start += numbers.size
        return (distances,), low

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        flat = out.reshape(-1)
        np.add(buffers[0], out.dtype.type(note), out=flat, dtype=out.dtype, casting="unsafe")
