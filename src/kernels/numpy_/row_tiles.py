"""Tiles of whole rows of a matrix, and sums over rows that are taken tile by tile and combined in the tiles' order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..executor import Array, parallel_slices, scratch
from .rank_one import one_thread_adds, short, sum_of_weighted_rows
from .rows import combine, sum_of_columns
from .tiling import TILE_BYTES, DType, in_rows, rows_per_tile


def rows_of_a_tile(rows: int, columns: int, dtype: DType) -> int:
    """Rows of which a tile has up to twice the usual size, where the matrix is large enough for two of these.

    Ten short steps go over each: with more to do in one, two threads meet less often at the interpreter's lock.
    """
    half = rows * columns * dtype.itemsize // 2
    return rows_per_tile(rows, columns, dtype, min(max(half, TILE_BYTES), 2 * TILE_BYTES))


def over_rows(body: Callable[..., None], x: Array, blocks: int, numbers: int = 0) -> None:
    """Call ``body(rows, *scratch)`` for each tile of rows of ``x``.

    Args:
        body: works on those rows.
        blocks: how many scratch arrays of the tile's shape are handed on.
        numbers: where it is not 0, one of (numbers, rows) comes before them.
    """
    rows, columns = x.shape
    step = rows_of_a_tile(rows, columns, x.dtype)
    specs = [((step, columns), x.dtype)] * blocks
    if numbers:
        specs.insert(0, ((numbers, step), x.dtype))

    def tile(where: slice, *buffers: Array) -> None:
        count = where.stop - where.start
        work = [buffer[:count] for buffer in buffers[1:]] if numbers else [buffer[:count] for buffer in buffers]
        with in_rows(columns, count * columns):
            if numbers:
                body(where, buffers[0][:, :count], *work)
            else:
                body(where, *work)

    parallel_slices(tile, rows if columns else 0, step, specs)


class ColumnSums:
    """Sums over the rows of tiles of ``like``'s shape, for those of ``outs`` that are wanted (not None)."""

    def __init__(self, like: Array, outs: Sequence[Array | None]) -> None:
        rows, columns = like.shape
        self._step = rows_of_a_tile(rows, columns, like.dtype)
        tiles = -(-rows // self._step)
        self._one_tile = tiles == 1
        self._outs = outs
        self._partials = [None if out is None else self._parts(out, (tiles, columns)) for out in outs]

    def _parts(self, out: Array, shape: tuple[int, int]) -> Array:
        return out[None] if shape[0] == 1 else scratch(shape, out.dtype)

    def add(self, which: int, where: slice, tile: Array, weights: Array | None = None) -> None:
        """Add up the rows of a tile; those of floats of 32 or 64 bits in C order may have weights."""
        partials = self._partials[which]
        if partials is None:
            return
        out = partials[where.start // self._step]
        if weights is None:
            sum_of_columns(tile, out)
        elif self._one_tile and not short(tile.shape[1]):
            with one_thread_adds(tile.shape[1]):
                sum_of_weighted_rows(tile, weights, out)
        else:
            sum_of_weighted_rows(tile, weights, out)

    def finish(self) -> None:
        """Combine what the tiles gave."""
        for out, partials in zip(self._outs, self._partials, strict=True):
            if out is not None and partials is not None and len(partials) != 1:
                combine(partials, out)
