"""8 or 4 bits an element: groups of numbers on an even grid, rounded at random so that the mean error is zero."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...memory import MemoryPool
from ..layout import Array
from ..payload import PACKED, Site
from .host import HostArray, HostCodec
from .rounding import CHUNK, grid_of, round_to_grid
from .tiles import TILE, for_tiles

_BYTE = np.dtype(np.uint8)
# Random numbers for rounding have 16 bits: half the price of a float, and fine enough for 256 steps.
_DRAWS = 1 << 16
_WORD = np.dtype(np.uint64)
_DRAWS_PER_WORD = 4


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
        self._numbers = itertools.count()

    def _next(self) -> int:
        return next(self._numbers)

    def state_dict(self) -> dict[str, Any]:
        """Where its random numbers are: with that, a resumed run rounds as the first would have."""
        number = self._next()
        self._numbers = itertools.count(number)
        return {"seed": self._seed, "number": number}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was called."""
        self._seed, self._numbers = int(state_dict["seed"]), itertools.count(int(state_dict["number"]))

    def describe(self) -> str:
        bound = f"error below (max - min) / {self._steps} of the group, mean 0"
        return f"{self.bits}-bit groups of {self.group} (lossy: {bound})"

    def encode(self, array: HostArray, memory: MemoryPool, site: Site) -> tuple[Sequence[HostArray], Any] | None:
        if array.dtype not in (np.float32, np.float64):
            return None
        codes, grids, number = *self._lease(array, memory), self._next()
        unfit: list[int] = []

        def tile(start: int, numbers: HostArray, draws: HostArray, scratch: HostArray, steps: HostArray) -> None:
            if unfit:
                return
            rows = _rows(np, numbers, self.group)
            found = grid_of(np, rows, self._steps)
            if found is None:
                unfit.append(start)
                return
            draws = draws[: rows.size].reshape(rows.shape)
            # a generator for each tile: the same numbers whichever thread draws them
            _draw(np.random.Generator(np.random.SFC64((self._seed, number, start))), draws)
            scratches = draws, scratch[: rows.size].reshape(rows.shape), steps[: rows.size].reshape(rows.shape)
            self._store(np, rows, found, scratches, (codes, grids), start, numbers.size)

        most = min(self._tile, -(-array.size // self.group) * self.group)
        # beside these, the draws in 2 bytes each, and the last tile's rows, filled up
        specs = [((most,), array.dtype), ((most,), array.dtype), ((most,), _BYTE)]
        for_tiles(array, tile, specs, tile=self._tile, workspace=2 + array.itemsize)
        return None if unfit else ((codes, grids), None)

    def decode(self, buffers: Sequence[HostArray], out: HostArray, note: Any) -> None:
        def tile(start: int, numbers: HostArray, steps: HostArray) -> None:
            self._restore(np, buffers, numbers, start, steps)

        for_tiles(out, tile, [((min(self._tile, out.size) + 1,), _BYTE)], tile=self._tile, workspace=1)

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
            draws = random.random(rows.shape, np.float32).astype(rows.dtype, copy=False)
            scratches = draws, xp.empty_like(rows), xp.empty(rows.shape, _BYTE)
            self._store(xp, rows, found, scratches, (codes, grids), start, numbers.size)
        return (codes, grids), None

    def decode_on_device(self, xp: Any, buffers: Sequence[Array], flat: Array, note: Any) -> None:
        chunk = max(CHUNK // self._tile, 1) * self._tile
        for start in range(0, flat.size, chunk):
            numbers = flat[start : start + chunk]
            self._restore(xp, buffers, numbers, start, xp.empty(numbers.size + 1, _BYTE))

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
        scratches: tuple[Array, Array, Array],
        into: tuple[Array, Array],
        start: int,
        size: int,
    ) -> None:
        """Write the grids and the codes of some rows, which begin at an element.

        The scratch arrays are like the rows: the draws, one more, and one of bytes.
        """
        codes, grids = into
        draws, scratch, steps = scratches
        grid = grids[start // self.group : start // self.group + rows.shape[0]]
        grid[:, 0], grid[:, 1] = found
        round_to_grid(xp, rows, found, draws, scratch, self._steps, steps)
        steps = steps.reshape(-1)[:size]
        part = codes[start * self.bits // 8 : -(-(start + size) * self.bits // 8)]
        if self.bits == 8:
            part[...] = steps
        else:  # two steps a byte
            part[...] = steps[::2]
            steps[1::2] <<= 4
            part[: size // 2] |= steps[1::2]

    def _restore(self, xp: Any, buffers: Sequence[Array], numbers: Array, start: int, scratch: Array) -> None:
        """Fill the elements that begin at ``start``, the first of a group; ``scratch`` has a byte for each and one."""
        codes, grids = buffers
        size = numbers.size
        steps = codes[start * self.bits // 8 : -(-(start + size) * self.bits // 8)]
        if self.bits == 4:
            both = scratch[: 2 * steps.size]
            xp.bitwise_and(steps, np.uint8(15), out=both[::2])
            xp.right_shift(steps, np.uint8(4), out=both[1::2])
            steps = both[:size]
        grid = grids[start // self.group : -(-(start + size) // self.group)]
        whole = size // self.group * self.group
        for first, last in ((0, whole), (whole, size)):
            if first < last:
                shape = (-1, min(self.group, last - first))
                rows, some = numbers[first:last].reshape(shape), grid[first // self.group : -(-last // self.group)]
                xp.multiply(steps[first:last].reshape(shape), some[:, 1:], out=rows)
                rows += some[:, :1]


def _draw(random: np.random.Generator, out: HostArray) -> None:
    """Random numbers from 0 to 1 with 16 bits, evenly about their middle."""
    words = random.integers(0, 2**64 - 1, -(-out.size // _DRAWS_PER_WORD), _WORD, endpoint=True)
    out[...] = words.view(np.uint16)[: out.size].reshape(out.shape)
    out += out.dtype.type(0.5)
    out *= out.dtype.type(1 / _DRAWS)


def _rows(xp: Any, numbers: Array, group: int) -> Array:
    """Numbers as rows of a group each; the last row is filled up with its last number."""
    missing = -numbers.size % group
    if missing:
        filled = xp.empty(numbers.size + missing, numbers.dtype)
        filled[: numbers.size] = numbers
        filled[numbers.size :] = numbers[-1]
        numbers = filled
    return numbers.reshape(-1, group)
