"""A bit for each element that says whether it is zero, and those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..payload import PACKED, RUN_BYTES, Site, as_bytes, byte_runs
from .host import HostArray, HostCodec
from .sampling import Answers

_BYTE = np.dtype(np.uint8)
_UNSIGNED: dict[int, np.dtype[Any]] = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_WORTHWHILE = 0.4  # the part of zeros from which it pays


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
        count = sum(int(np.count_nonzero(run.view(bits))) for run in byte_runs(array))
        if count > (1.0 - _WORTHWHILE) * array.size:
            self._answers.was_wrong(array, site)
            return None
        mask, _ = memory.lease((-(-array.size // 8),), _BYTE, PACKED)
        kept, _ = memory.lease((count,), array.dtype, PACKED)
        patterns, start, filled = kept.view(bits), 0, 0
        with memory.charge(2 * RUN_BYTES):
            for run in byte_runs(array):
                numbers = run.view(bits)
                found = numbers[numbers != 0]
                patterns[filled : filled + found.size] = found
                filled += found.size
                packed = np.packbits(numbers != 0)
                mask[start : start + packed.size] = packed
                start += packed.size
        return (mask, kept), None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        mask, kept = buffers
        bits = _UNSIGNED[out.itemsize]
        patterns, start, read = kept.view(bits), 0, 0
        for run in byte_runs(as_bytes(out)):
            numbers = run.view(bits)
            size = -(-numbers.size // 8)
            chosen = np.unpackbits(mask[start : start + size], count=numbers.size).view(np.bool_)
            start += size
            count = int(np.count_nonzero(chosen))
            numbers[...] = 0
            numbers[chosen] = patterns[read : read + count]
            read += count
