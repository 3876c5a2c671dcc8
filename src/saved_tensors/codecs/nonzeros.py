"""A bit for each element that says whether it is zero, and those that are not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .sampling import Answers
from .tiles import TILE, for_tiles

_BYTE = np.dtype(np.uint8)
_UNSIGNED: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_WORTHWHILE = 0.4  # the part of zeros from which it pays
# Bytes for each element that NumPy allocates: its place in 8, a flag or two, itself.
_WORKSPACE = 18


class NonZeros(HostCodec):
    """Keeps a bit mask and the elements that are not zero, exactly; leaves alone what has fewer than 40 % of zeros.

    Zero means all bits zero: -0.0 is kept. A 64 KiB sample decides, and its answer is remembered for each op, slot and
    dtype. What comes after ReLU, dropout or a mask has such zeros.
    """

    name = "nonzeros"

    def __init__(self) -> None:
        self._answers = Answers()

    def describe(self) -> str:
        return "bit mask and non-zeros"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        bits = _UNSIGNED.get(array.itemsize)
        if bits is None:
            return None

        def has_zeros(sample: HostArray) -> bool:
            numbers = sample.view(bits)
            return bool(np.count_nonzero(numbers) <= (1.0 - _WORTHWHILE) * numbers.size)

        if not self._answers.pays(array, site, has_zeros):
            return None
        ends = _ends(array, bits)
        if ends[-1] > (1.0 - _WORTHWHILE) * array.size:
            self._answers.was_wrong(array, site)
            return None
        mask, _ = memory.lease((-(-array.size // 8),), _BYTE, PACKED)
        kept, _ = memory.lease((ends[-1],), array.dtype, PACKED)
        patterns = kept.view(bits)

        def tile(start: int, numbers: HostArray) -> None:
            flags = numbers.view(bits) != 0
            mask[start // 8 : -(-(start + numbers.size) // 8)] = np.packbits(flags)
            # places first: a boolean index takes six times as long
            patterns[_part(ends, start)] = numbers.view(bits).take(np.flatnonzero(flags))

        for_tiles(array, tile, workspace=_WORKSPACE)
        return (mask, kept), ends

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        mask, kept = buffers
        bits = _UNSIGNED[out.itemsize]
        patterns = kept.view(bits)

        def tile(start: int, numbers: HostArray) -> None:
            flags = np.unpackbits(mask[start // 8 : -(-(start + numbers.size) // 8)], count=numbers.size).view(np.bool_)
            numbers.fill(0)
            numbers[np.flatnonzero(flags)] = patterns[_part(note, start)]

        for_tiles(out.view(bits), tile, workspace=_WORKSPACE)


def _ends(array: HostArray, bits: np.dtype[Any]) -> tuple[int, ...]:
    """How many elements are not zero up to the end of each tile."""
    counts = [0] * -(-array.size // TILE)

    def tile(start: int, numbers: HostArray) -> None:
        counts[start // TILE] = int(np.count_nonzero(numbers.view(bits)))

    for_tiles(array, tile)
    return tuple(itertools.accumulate(counts))


def _part(ends: Sequence[int], start: int) -> slice:
    """Which of the elements that are kept belong to the tile that begins at ``start``."""
    index = start // TILE
    return slice(ends[index - 1] if index else 0, ends[index])
