"""One bit for each bool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, RUN_BYTES, Site, as_bytes, byte_runs
from .host import HostArray, HostCodec

_BOOL = np.dtype(np.bool_)
_BYTE = np.dtype(np.uint8)


class PackBits(HostCodec):
    """Packs bool arrays into an eighth of their size, exactly; leaves others alone."""

    name = "packbits"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype != _BOOL:
            return None
        bits, _ = memory.lease((-(-array.size // 8),), _BYTE, PACKED)
        start = 0
        with memory.charge(RUN_BYTES // 8):
            for run in byte_runs(array):
                packed = np.packbits(run)
                bits[start : start + packed.size] = packed
                start += packed.size
        return (bits,), None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        (bits,) = buffers
        start = 0
        # NumPy unpacks into an array of its own: a run at a time keeps that small
        for run in byte_runs(as_bytes(out)):
            run[:] = np.unpackbits(bits[start : start + -(-run.size // 8)], count=run.size)
            start += RUN_BYTES // 8
