"""Which probabilities of attention are dropped: drawn from a counter, square by square, so that any part can be drawn.

NOTE [ Dropout of attention ]
1. The matrix of scores of a pair of batch and head is cut into squares of `UNIT` rows and keys. Each has a stretch of
   the counter of its own, so that blocks of rows (forward) and blocks of keys (backward) draw the same.
2. Eight random bits decide, unless they are equal to the threshold's first eight; then 32 more do, as in dropout.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from ... import memory
from ..executor import Array, get_num_threads, parallel_for
from .tiling import BOOL

__all__ = ["attention_counter_steps", "attention_dropped"]

UNIT = 128
_STEPS = 1 << 13  # of the counter for a square, a quarter of which the first draw of all elements takes
_SECOND_STREAM = _STEPS // 2
_NOTHING = nullcontext()


def attention_counter_steps(batch: int, heads: int, rows: int, keys: int) -> int:
    """How far the dropout of a (batch, heads, rows, keys) matrix of scores moves the counter."""
    return batch * heads * -(-rows // UNIT) * -(-keys // UNIT) * _STEPS


class Dropout(NamedTuple):
    """One draw for scores of (batch, heads, rows, keys)."""

    p: float
    key: int
    counter: int
    heads: int
    row_units: int
    key_units: int

    @classmethod
    def of(cls, p: float, key: int, counter: int, rows_shape: tuple[int, ...], keys: int) -> Dropout | None:
        """None where nothing is dropped; ``rows_shape`` is (batch, heads, rows)."""
        if p <= 0:
            return None
        _, heads, rows = rows_shape
        return cls(p, key, counter, heads, -(-rows // UNIT), -(-keys // UNIT))

    @property
    def kept_share(self) -> float:
        """What the kept probabilities are divided by."""
        return 1 - self.p if self.p < 1 else 1.0

    def drop(self, x: Array, batches: range, first_head: int, corner: tuple[int, int], buffer: Array) -> None:
        """Put 0 where the dropped elements of ``x`` are: (batches, heads of k, group, rows, keys).

        ``corner`` is the place of the first row and key, multiples of `UNIT`; ``buffer`` is scratch of bools.
        """
        dropped = buffer[: x.size].reshape(x.shape)
        self.draw(dropped, batches, first_head, corner)
        np.copyto(x, 0, where=dropped)

    def draw(self, dropped: Array, batches: range, first_head: int, corner: tuple[int, int]) -> None:
        """Fill ``dropped``, which has the shape of ``x`` in `drop`."""
        if self.p >= 1:
            dropped.fill(True)
            return
        _, heads, group, rows, keys = dropped.shape
        for place in np.ndindex(len(batches), heads, group):
            pair = batches[place[0]] * self.heads + (first_head + place[1]) * group + place[2]
            for row in range(0, rows, UNIT):
                for first in range(0, keys, UNIT):
                    unit = (pair * self.row_units + (corner[0] + row) // UNIT) * self.key_units
                    unit += (corner[1] + first) // UNIT
                    self._draw_unit(unit, dropped[place][row : row + UNIT, first : first + UNIT])

    def _draw_unit(self, unit: int, dropped: Array) -> None:
        threshold = int(self.p * 256)
        rest = self.p * 256 - threshold
        counter = self.counter + unit * _STEPS
        words = np.random.Philox(key=self.key, counter=counter).random_raw(UNIT * UNIT // 8)
        drawn = words.view(np.uint8).reshape(UNIT, UNIT)
        np.less(drawn[: dropped.shape[0], : dropped.shape[1]], threshold, dropped)
        if rest > 0:
            tied = np.flatnonzero(drawn.reshape(-1) == threshold)
            again = np.random.Philox(key=self.key, counter=counter + _SECOND_STREAM).random_raw(-(-tied.size // 2))
            lost = tied[again.view(np.uint32)[: tied.size] < rest * 2**32]
            row, column = np.divmod(lost, UNIT)
            inside = (row < dropped.shape[0]) & (column < dropped.shape[1])
            dropped[row[inside], column[inside]] = True


def drawing_workspace(dropout: Dropout | None) -> AbstractContextManager[None]:
    """Charge what NumPy allocates for the square that each thread draws."""
    if dropout is None:
        return _NOTHING
    return memory.pool(memory.CPU).charge(3 * UNIT * UNIT * get_num_threads())


def attention_dropped(out: Array, *, p: float, key: int, counter: int) -> None:
    """Fill ``out``, bool (B, H, T, S): True where `attention` of that size drops a probability."""
    batch, heads, rows, keys = out.shape
    dropout = Dropout.of(p, key, counter, (batch, heads, rows), keys)
    if dropout is None or out.size == 0:
        out.fill(False)
        return
    assert out.dtype == BOOL, "the mask is one of bools"

    def tile(index: int) -> None:
        b, h = divmod(index, heads)
        dropout.draw(out[b : b + 1, h : h + 1, None], range(b, b + 1), h, (0, 0))

    with drawing_workspace(dropout):
        parallel_for(tile, batch * heads)
