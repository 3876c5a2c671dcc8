"""Long rows added by number, place by place.

NOTE [ Place by place ]
Rows that are added one after the other, wherever each belongs, are as many short calls on one thread. Here threads
share out the places. The rows of a tile that come first in their places are taken in one call, then those that come
second are added, and so on as long as they are many; what is left is added one by one. So each sum is in the order of
the rows, and a row of new sums is written, not cleared or copied and then added to, if one row or none belongs there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..executor import Array, parallel_slices
from .tiling import TILE_BYTES, UNTILED, numpy_workspace, rows_per_tile

_SHORTEST, _LONGEST = 256, 1 << 13  # elements of a row: shorter ones are added as elements, longer ones in stripes
_FEWEST, _FEWEST_SHARED = 256, 1024  # rows, where there is one tile and where threads share them out
_ALONE = 4 * UNTILED  # elements in all places that are one tile
_SPARSE = 16  # with more places than so many a row, most tiles are looked at in vain
_TOGETHER = 16  # rows, or more, that are worth the calls that add them at once
_FEW = 4  # rows for one place that are added one by one
_WORKSPACE = 5 * 8  # bytes of a number or a place: order, numbers in order, how many, where they begin


def adds_by_place(rows: int, columns: int, places: int) -> bool:
    """Whether rows are so long, and so many for that and for what they are added to, that this is the faster way."""
    if not _SHORTEST <= columns <= _LONGEST or rows * columns < UNTILED:
        return False
    fewest = _FEWEST if places * columns <= _ALONE else _FEWEST_SHARED
    return rows >= max(fewest, columns // 2) and rows * _SPARSE >= places


class _Order(NamedTuple):
    """The rows in the order of their places, and where those of each place begin, and how many they are."""

    rows: Array
    starts: Array
    counts: Array

    def part(self, where: slice) -> _Order:
        return _Order(self.rows, self.starts[where], self.counts[where])

    def nth(self, places: Array, number: int) -> Array:
        """The rows that are added to some places after ``number`` others."""
        found: Array = self.rows.take(self.starts[places] + number)
        return found


def add_by_place(out: Array, index: Array, src: Array, start: Array | None) -> None:
    """``out = start``, and ``out[index[j]] += src[j]``.

    Args:
        out: (places, columns), in C order.
        index: (rows,), from 0 on.
        src: (rows, columns), of the dtype of ``out``.
        start: of the shape and dtype of ``out``, or ``out`` itself; None for zeros.
    """
    places, columns = out.shape
    step = rows_per_tile(places, columns, out.dtype, 2 * TILE_BYTES)
    room = max(_TOGETHER, -(-step // 4))
    with numpy_workspace(_WORKSPACE, len(index) + places, len(index) + places):
        counts = np.bincount(index, minlength=places)
        order = _Order(np.argsort(index, kind="stable"), np.cumsum(counts) - counts, counts)
        in_place = start is not None and np.may_share_memory(out, start)
        dense = not in_place and len(index) >= places

        def tile(where: slice, given: Array, sums: Array) -> None:
            target, part = out[where], order.part(where)
            before = None if start is None else start[where]
            if dense:
                _begin(target, part, src, before, given)
            elif not in_place:
                np.copyto(target, 0 if before is None else before)
            _add_to(target, part, src, int(dense), given, sums)

        parallel_slices(tile, places, step, [((room, columns), out.dtype)] * 2)


def _begin(out: Array, order: _Order, src: Array, start: Array | None, work: Array) -> None:
    """``out = start`` (None for zeros) with the first rows of all places added, where there are some.

    ``work`` is scratch for some rows.
    """
    np.take(src, order.rows.take(order.starts, mode="clip"), axis=0, out=out, mode="clip")
    empty = np.flatnonzero(order.counts == 0)
    if start is None:
        out[empty] = 0
        return
    np.add(out, start, out=out)
    for begin in range(0, len(empty), len(work)):
        some = empty[begin : begin + len(work)]
        np.take(start, some, axis=0, out=work[: len(some)], mode="clip")
        out[some] = work[: len(some)]


def _add_to(out: Array, order: _Order, src: Array, done: int, given: Array, sums: Array) -> None:
    """Add the rows of some places but the first ``done``; ``given`` and ``sums`` are scratch for some rows."""
    open_ = np.flatnonzero(order.counts > done)
    while len(open_) >= _TOGETHER:
        for begin in range(0, len(open_), len(given)):
            some = open_[begin : begin + len(given)]
            total, more = sums[: len(some)], given[: len(some)]
            np.take(src, order.nth(some, done), axis=0, out=more, mode="clip")  # "raise" would copy twice
            np.take(out, some, axis=0, out=total, mode="clip")
            np.add(total, more, out=total)
            out[some] = total
        done += 1
        open_ = open_[order.counts[open_] > done]
    for place in open_.tolist():
        start, stop = int(order.starts[place]) + done, int(order.starts[place] + order.counts[place])
        for begin in range(start, stop, len(given) - 1):
            _add_rows(out[place], src, order.rows[begin : min(begin + len(given) - 1, stop)], given)


def _add_rows(total: Array, src: Array, rows: Array, work: Array) -> None:
    """Add some rows to one, in order; ``work`` is scratch for one row more."""
    if len(rows) < _FEW:
        for row in rows.tolist():
            np.add(total, src[row], out=total)
        return
    work = work[: len(rows) + 1]
    np.copyto(work[0], total)
    np.take(src, rows, axis=0, out=work[1:], mode="clip")
    np.add.reduce(work, axis=0, out=total)  # row to row
