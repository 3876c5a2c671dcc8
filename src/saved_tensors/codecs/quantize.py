"""8 or 4 bits an element: groups of numbers on an even grid, rounded at random so that the mean error is zero."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.executor import get_num_threads, parallel_slices
from ...memory import CPU, MemoryPool, pool
from ..layout import Array
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .rounding import CHUNK, grid_of, steps_of
from .tiles import TILE, for_tiles

_BYTE = np.dtype(np.uint8)
# Random numbers for rounding have 16 bits: half the price of a float, and fine enough for 256 steps.
_DRAWS = 1 << 16
# Arrays of a tile's size that NumPy makes at a time.
_TEMPORARIES = 4


class Quantizer(HostCodec):
    """Keeps float32 and float64 as steps of a grid from the smallest to the largest number of each group.

    Args:
        bits: 8 or 4 for each element.
        group: how many neighbours share a grid; even.
        seed: of the private generator that the rounding draws from.

    Raises:
        ValueError: for other ``bits`` or a ``group`` that is odd or not positive.

    The error is below one step: ``(largest - smallest) / (2**bits - 1)`` of the group. An element goes up with the
    probability that makes its expected value exact (stochastic rounding; Chen et al., ActNN, 2021), so gradients are
    unbiased where they are linear in it. Arrays with a NaN or an infinity are left alone.
    """

    lossy = True
    on_device = True

    def __init__(self, bits: int = 8, group: int = 256, seed: int = 0) -> None:
        if bits not in (4, 8):
            raise ValueError(f"quantize: bits must be 8 or 4, got {bits!r}")
        if not isinstance(group, int) or group <= 0 or group % 2:
            raise ValueError(f"quantize: group must be an even positive number, got {group!r}")
        self.bits = bits
        self.group = group
        self.name = f"int{bits}"
        self._steps = 2**bits - 1
        self._tile = max(TILE // group, 1) * group
        self._seed = seed
        self._next = itertools.count().__next__

    def describe(self) -> str:
        bound = f"error below (max - min) / {self._steps} of the group, mean 0"
        return f"{self.bits}-bit groups of {self.group} (lossy: {bound})"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype not in (np.float32, np.float64):
            return None
        codes, grids, number = *self._lease(array, memory), self._next()
        unfit: list[int] = []

        def tile(start: int, numbers: HostArray) -> None:
            if unfit:
                return
            rows = _rows(np, numbers, self.group)
            found = grid_of(np, rows, self._steps)
            if found is None:
                unfit.append(start)
                return
            # a generator for each tile: the same numbers whichever thread draws them
            random = np.random.Generator(np.random.SFC64((self._seed, number, start)))
            draws = random.integers(0, _DRAWS, rows.shape, np.uint16).astype(rows.dtype)
            draws += rows.dtype.type(0.5)
            draws *= rows.dtype.type(1 / _DRAWS)
            self._store(np, rows, found, draws, (codes, grids), start, numbers.size)

        tiles = min(-(-array.size // self._tile), get_num_threads())
        with pool(CPU).charge(_TEMPORARIES * tiles * min(self._tile, array.size + self.group) * array.itemsize):
            for_tiles(array, tile, tile=self._tile)
        return None if unfit else ((codes, grids), None)

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        flat = out.reshape(-1)
        tiles = min(-(-flat.size // self._tile), get_num_threads())

        def tile(part: slice) -> None:
            self._restore(np, buffers, flat, part.start, part.stop)

        with pool(CPU).charge(_TEMPORARIES * tiles * min(self._tile, flat.size + self.group) * flat.itemsize):
            parallel_slices(tile, flat.size, self._tile)

    def encode_on_device(self, xp: Any, flat: Array, memory: MemoryPool) -> tuple[Sequence[Array], Any] | None:
        if flat.dtype not in (np.float32, np.float64):
            return None
        codes, grids = self._lease(flat, memory)
        random = xp.random.default_rng((self._seed, self._next()))
        chunk = max(CHUNK // self._tile, 1) * self._tile
        for start in range(0, flat.size, chunk):
            numbers = flat[start : start + chunk]
            rows = _rows(xp, numbers, self.group)
            found = grid_of(xp, rows, self._steps)
            if found is None:
                return None
            draws = random.random(rows.shape, np.float32)
            self._store(xp, rows, found, draws, (codes, grids), start, numbers.size)
        return (codes, grids), None

    def decode_on_device(self, xp: Any, buffers: Sequence[Array], flat: Array, note: Any) -> None:
        chunk = max(CHUNK // self._tile, 1) * self._tile
        for start in range(0, flat.size, chunk):
            self._restore(xp, buffers, flat, start, min(start + chunk, flat.size))

    # -- a tile --------------------------------------------------------------------------------------------------------

    def _lease(self, array: Array, memory: MemoryPool) -> tuple[Array, Array]:
        codes, _ = memory.lease((-(-array.size * self.bits // 8),), _BYTE, PACKED)
        grids, _ = memory.lease((-(-array.size // self.group), 2), array.dtype, PACKED)
        return codes, grids

    def _store(
        self,
        xp: Any,
        rows: Array,
        found: tuple[Array, Array],
        draws: Array,
        into: tuple[Array, Array],
        start: int,
        size: int,
    ) -> None:
        """Write the grids and the codes of some rows, which begin at an element."""
        codes, grids = into
        low, step = found
        grid = grids[start // self.group : start // self.group + rows.shape[0]]
        grid[:, 0] = low
        grid[:, 1] = step
        steps = steps_of(xp, rows, low, step, draws, self._steps).reshape(-1)[:size]
        stop = start + size
        codes[start * self.bits // 8 : -(-stop * self.bits // 8)] = steps if self.bits == 8 else _joined(xp, steps)

    def _restore(self, xp: Any, buffers: Sequence[Array], flat: Array, start: int, stop: int) -> None:
        """Fill the elements from ``start``, the first of a group, to ``stop``."""
        codes, grids = buffers
        part = codes[start * self.bits // 8 : -(-stop * self.bits // 8)]
        steps = part if self.bits == 8 else _parted(xp, part)[: stop - start]
        grid = grids[start // self.group : -(-stop // self.group)]
        rows = _rows(xp, steps.astype(flat.dtype), self.group)
        rows *= grid[:, 1:]
        rows += grid[:, :1]
        flat[start:stop] = rows.reshape(-1)[: stop - start]


def _rows(xp: Any, numbers: Array, group: int) -> Array:
    """Numbers as rows of a group each; the last row is filled up with its last number."""
    missing = -numbers.size % group
    if missing:
        filled = xp.empty(numbers.size + missing, numbers.dtype)
        filled[: numbers.size] = numbers
        filled[numbers.size :] = numbers[-1]
        numbers = filled
    return numbers.reshape(-1, group)


def _joined(xp: Any, steps: Array) -> Array:
    """Two 4-bit steps a byte."""
    joined = xp.zeros(-(-steps.size // 2), np.uint8)
    joined[: steps.size // 2] = steps[1::2] << np.uint8(4)
    joined |= steps[::2]
    return joined


def _parted(xp: Any, codes: Array) -> Array:
    """4-bit steps, one a byte."""
    steps = xp.empty(2 * codes.size, _BYTE)
    steps[::2] = codes & np.uint8(15)
    steps[1::2] = codes >> np.uint8(4)
    return steps
