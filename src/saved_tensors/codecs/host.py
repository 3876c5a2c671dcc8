"""The base of codecs that work in host memory, an array at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...memory import MemoryPool, pool
from ..layout import Array
from ..payload import Payload, Site, Stage, host_outs, host_place, to_host

HostArray: TypeAlias = np.ndarray[Any, Any]


class HostCodec(Stage):
    """Encodes each buffer by itself; a subclass writes `encode` and `decode`.

    Arrays on CUDA devices are copied to the host, and stay there encoded; unless ``on_device`` says that the codec has
    a form for them, `encode_on_device` and `decode_on_device`.
    """

    on_device = False

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        """The encoded buffers, counted by ``memory``, and a note for `decode`; None if it doesn't pay.

        ``array`` may have any strides.
        """
        raise NotImplementedError

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        """Fill ``out``, a contiguous array, from what `encode` returned."""
        raise NotImplementedError

    def encode_on_device(self, xp: Any, flat: Array, memory: MemoryPool) -> tuple[Sequence[Array], Any] | None:
        """`encode` for a flat array of CuPy, which is given as ``xp``."""
        raise NotImplementedError

    def decode_on_device(self, xp: Any, buffers: Sequence[Array], flat: Array, note: Any) -> None:
        """`decode` for arrays of CuPy."""
        raise NotImplementedError

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        if payload.place is None:
            return None
        there = self.on_device and payload.place.type == "cuda"
        place = payload.place if there else host_place(payload.place)
        buffers: list[HostArray] = []
        notes = []
        for buffer in payload.buffers:
            if there:
                xp = _cupy()
                encoded = self.encode_on_device(xp, xp.ascontiguousarray(buffer).reshape(-1), pool(place))
            else:
                encoded = self.encode(to_host(buffer), pool(place), site)
            if encoded is None:
                return None
            buffers.extend(encoded[0])
            notes.append((len(encoded[0]), encoded[1]))
        return payload.then(self, tuple(buffers), place, notes)

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        start = 0
        if not isinstance(payload.buffers[0], np.ndarray):
            for out, (count, note) in zip(outs, payload.undo[-1].note):
                self.decode_on_device(_cupy(), payload.buffers[start : start + count], out.reshape(-1), note)
                start += count
            return
        with host_outs(outs) as targets:
            for target, (count, note) in zip(targets, payload.undo[-1].note):
                self.decode(payload.buffers[start : start + count], target, note)
                start += count


def _cupy() -> Any:
    import cupy

    return cupy
