"""One element for an array in which all are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .tiles import for_tiles

_UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


class Constant(HostCodec):
    """Keeps one element of arrays whose elements are the same bit for bit; leaves others alone.

    Such are the gradients of sums, masks of ones, zeros that were never written. Another array is told from one by its
    first and last elements nearly always, without a look at the rest.
    """

    name = "constant"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        bits = _UNSIGNED.get(array.itemsize)
        if bits is None or array.size < 2:
            return None
        first = array[(0,) * array.ndim].tobytes()
        if array[(-1,) * array.ndim].tobytes() != first:
            return None
        pattern = np.frombuffer(first, bits)[0]
        others: list[int] = []

        def tile(start: int, numbers: HostArray) -> None:
            if not others and not (numbers.view(bits) == pattern).all():
                others.append(start)

        for_tiles(array, tile, workspace=1)
        if others:
            return None
        element, _ = memory.lease((1,), array.dtype, PACKED)
        element.view(np.uint8)[:] = np.frombuffer(first, np.uint8)
        return (element,), None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        bits = _UNSIGNED[out.itemsize]
        pattern = buffers[0].view(bits)[0]
        for_tiles(out.view(bits), lambda start, numbers: numbers.fill(pattern))
