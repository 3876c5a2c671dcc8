"""The plainest codec: a copy of the elements, without the storage around them."""

from __future__ import annotations

from collections.abc import Sequence

from ..layout import Array
from ..payload import PACKED, Payload, Site, Spec, Stage, copy_into


class Compact(Stage):
    """Copies the elements on their own device, so that a small view doesn't hold a large storage."""

    name = "copy"

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        if payload.place is None:
            return None
        copies = []
        for buffer in payload.buffers:
            copy = Spec(buffer.shape, buffer.dtype, payload.place).lease(PACKED)
            copy_into(copy, buffer)
            copies.append(copy)
        return payload.then(self, tuple(copies), payload.place)

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        for out, buffer in zip(outs, payload.buffers):
            copy_into(out, buffer)
