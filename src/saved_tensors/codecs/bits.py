"""One bit for each bool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .tiles import for_tiles

_BOOL = np.dtype(np.bool_)
_BYTE = np.dtype(np.uint8)
_TILE = 1 << 20


class PackBits(HostCodec):
    """Packs bool arrays into an eighth of their size, exactly; leaves others alone."""

    name = "packbits"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype != _BOOL:
            return None
        bits, _ = memory.lease((-(-array.size // 8),), _BYTE, PACKED)

        def tile(start: int, flags: HostArray) -> None:
            bits[start // 8 : -(-(start + flags.size) // 8)] = np.packbits(flags)

        for_tiles(array, tile, tile=_TILE, workspace=1)
        return (bits,), None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        (bits,) = buffers

        # NumPy unpacks into an array of its own: a tile at a time keeps that small
        def tile(start: int, flags: HostArray) -> None:
            flags[:] = np.unpackbits(bits[start // 8 : -(-(start + flags.size) // 8)], count=flags.size)

        for_tiles(out, tile, tile=_TILE, workspace=1)
