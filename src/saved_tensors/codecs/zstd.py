"""Zstandard, where a sample says that it pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.executor import get_num_threads, parallel_for
from ...memory import MemoryPool
from ..payload import PACKED, RUN_BYTES, Site, as_bytes, byte_runs
from .host import HostArray, HostCodec
from .sampling import Answers

_WORTHWHILE = 1.5


class Zstd(HostCodec):
    """Compresses without loss, in frames of 1 MiB; leaves alone what a 64 KiB sample shrinks by less than 1.5.

    Args:
        level: zstandard's; above 1 it is slower for next to no gain on activations.

    Raises:
        ValueError: for a level that zstandard doesn't have.

    The sample's answer is remembered for each op, slot and dtype. Dense activations don't shrink; values with many
    zeros (after ReLU, masks, indices) do.
    """

    name = "zstd"

    def __init__(self, level: int = 1) -> None:
        import zstandard

        if isinstance(level, bool) or not isinstance(level, int) or not -7 <= level <= zstandard.MAX_COMPRESSION_LEVEL:
            raise ValueError(f"zstd: level must be from -7 to {zstandard.MAX_COMPRESSION_LEVEL}, got {level!r}")
        self.level = level
        self._answers = Answers()

    def describe(self) -> str:
        return f"zstd, level {self.level}"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        import zstandard

        compressor = zstandard.ZstdCompressor(level=self.level, write_checksum=False)
        if not self._pays(array, compressor, site):
            return None
        frames: dict[int, HostArray] = {}

        def compress(index: int, run: HostArray) -> None:
            own = zstandard.ZstdCompressor(level=self.level, write_checksum=False)  # one isn't for several threads
            frame = np.frombuffer(own.compress(run.data), np.uint8)
            memory.adopt(frame, PACKED)
            frames[index] = frame

        if array.flags.c_contiguous:
            runs = list(byte_runs(array))
            # zstandard shrinks its result after making it
            with memory.charge(min(len(runs), get_num_threads()) * min(RUN_BYTES, array.nbytes)):
                parallel_for(lambda index: compress(index, runs[index]), len(runs))
        else:
            with memory.charge(min(RUN_BYTES, array.nbytes)):
                for index, run in enumerate(byte_runs(array)):
                    compress(index, run)
        size = sum(frame.nbytes for frame in frames.values())
        if size >= array.nbytes:  # the sample misled
            self._answers.was_wrong(array, site)
            return None
        return [frames[index] for index in range(len(frames))], None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        import zstandard

        runs = list(byte_runs(as_bytes(out)))

        def decompress(index: int) -> None:
            run = runs[index]
            # closefd=False: the reader would close the array's buffer, which it doesn't own
            with zstandard.ZstdDecompressor().stream_reader(buffers[index].data, closefd=False) as reader:
                filled = 0
                while filled < run.size:
                    got = reader.readinto(run[filled:])
                    if not got:
                        raise RuntimeError(f"zstd: a frame of {run.size} bytes ends after {filled}")
                    filled += got

        parallel_for(decompress, len(runs))

    def _pays(self, array: HostArray, compressor: Any, site: Site) -> bool:
        def shrinks(sample: HostArray) -> bool:
            return sample.nbytes >= _WORTHWHILE * len(compressor.compress(sample.data))

        return self._answers.pays(array, site, shrinks)
