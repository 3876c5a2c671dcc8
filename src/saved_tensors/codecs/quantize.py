"""8 or 4 bits an element: groups of numbers on an even grid, rounded at random so that the mean error is zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...memory import CPU, MemoryPool, pool
from ..payload import PACKED, Site, byte_runs
from .host import HostArray, HostCodec

_BYTE = np.dtype(np.uint8)
_TILE_GROUPS = 128


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

    def __init__(self, bits: int = 8, group: int = 256, seed: int = 0) -> None:
        if bits not in (4, 8):
            raise ValueError(f"quantize: bits must be 8 or 4, got {bits!r}")
        if not isinstance(group, int) or group <= 0 or group % 2:
            raise ValueError(f"quantize: group must be an even positive number, got {group!r}")
        self.bits = bits
        self.group = group
        self.name = f"int{bits}"
        self._steps = 2**bits - 1
        self._random = np.random.Generator(np.random.SFC64(seed))

    def describe(self) -> str:
        bound = f"error below (max - min) / {self._steps} of the group, mean 0"
        return f"{self.bits}-bit groups of {self.group} (lossy: {bound})"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype not in (np.float32, np.float64):
            return None
        groups = -(-array.size // self.group)
        codes, _ = memory.lease((-(-array.size * self.bits // 8),), _BYTE, PACKED)
        grids, _ = memory.lease((groups, 2), array.dtype, PACKED)
        places = self._tiles(array.size)
        with memory.charge(4 * self._tile_bytes(array.dtype)):
            for (start, stop), numbers in zip(places, self._runs(array), strict=True):
                rows = _rows(numbers, self.group)
                if not self._grid(rows, grids[start // self.group : start // self.group + rows.shape[0]]):
                    return None
                grid = grids[start // self.group : start // self.group + rows.shape[0]]
                steps = self._round(rows, grid).reshape(-1)[: stop - start]
                codes[start * self.bits // 8 : -(-stop * self.bits // 8)] = steps if self.bits == 8 else _joined(steps)
        return (codes, grids), None

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        codes, grids = buffers
        flat = out.reshape(-1)
        with pool(CPU).charge(2 * self._tile_bytes(out.dtype)):
            for start, stop in self._tiles(flat.size):
                part = codes[start * self.bits // 8 : -(-stop * self.bits // 8)]
                steps = part if self.bits == 8 else _parted(part)[: stop - start]
                grid = grids[start // self.group : -(-stop // self.group)]
                rows = _rows(steps.astype(out.dtype), self.group)
                rows *= grid[:, 1:]
                rows += grid[:, :1]
                flat[start:stop] = rows.reshape(-1)[: stop - start]

    def _tiles(self, size: int) -> Iterator[tuple[int, int]]:
        tile = _TILE_GROUPS * self.group
        return ((start, min(start + tile, size)) for start in range(0, size, tile))

    def _tile_bytes(self, dtype: np.dtype[Any]) -> int:
        return _TILE_GROUPS * self.group * dtype.itemsize

    def _runs(self, array: HostArray) -> Iterator[HostArray]:
        for run in byte_runs(array, self._tile_bytes(array.dtype)):
            yield run.view(array.dtype)

    def _grid(self, rows: HostArray, grid: HostArray) -> bool:
        """The smallest number and the step of each row; False if the row is not finite, or too wide for its dtype."""
        low, high = rows.min(axis=1), rows.max(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            width = high - low
            if not np.isfinite(width).all():
                return False
            grid[:, 0] = low
            grid[:, 1] = width / self._steps
        return True

    def _round(self, rows: HostArray, grid: HostArray) -> HostArray:
        """The grid step of each element: down, or up with the probability that makes it right on average."""
        places = rows - grid[:, :1]
        # A step that is too small for its dtype is 0: all elements are the smallest then.
        places *= np.divide(
            1, grid[:, 1:], out=np.zeros_like(grid[:, 1:]), where=grid[:, 1:] > np.finfo(grid.dtype).tiny
        )
        draws = np.empty_like(places)
        self._random.random(out=draws, dtype=draws.dtype.type)
        places += draws
        np.floor(places, out=places)
        return np.clip(places, 0, self._steps, out=places).astype(np.uint8)


def _rows(numbers: HostArray, group: int) -> HostArray:
    """Numbers as rows of a group each; the last row is filled up with its last number."""
    missing = -numbers.size % group
    if missing:
        filled = np.empty(numbers.size + missing, numbers.dtype)
        filled[: numbers.size] = numbers
        filled[numbers.size :] = numbers[-1]
        numbers = filled
    return numbers.reshape(-1, group)


def _joined(steps: HostArray) -> HostArray:
    """Two 4-bit steps a byte."""
    if steps.size % 2:
        steps = np.append(steps, np.uint8(0))
    joined: HostArray = steps[::2] | (steps[1::2] << np.uint8(4))
    return joined


def _parted(codes: HostArray) -> HostArray:
    """4-bit steps, one a byte."""
    steps = np.empty(2 * codes.size, _BYTE)
    np.bitwise_and(codes, np.uint8(15), out=steps[::2])
    np.right_shift(codes, np.uint8(4), out=steps[1::2])
    return steps
