"""Arrays seen as (outer, channels, inner), with numbers a channel: what batch norm and its like are made of.

Sums are taken block by block and combined in the blocks' order, in float64. Arrays are C-contiguous; ``out`` and
``grad_x`` may be one of the inputs; numbers of the channels have the shape (channels,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

from ..executor import Array, parallel_for, scratch, scratch_set
from .rows import sum_of_columns, sum_of_rows
from .tiling import BOOL, FLOAT32, FLOAT64, UNTILED, DType, in_rows, tile_size

__all__ = ["prelu", "prelu_backward"]

LONG = 32  # elements side by side from which on a channel's are taken for a row


def channel_statistics(x: Array, mean: Array, variance: Array) -> None:
    """Mean and (biased) variance of each channel of ``x`` (outer, channels, inner); for no elements they are NaN."""
    count = x.size // x.shape[1] if x.shape[1] else 0
    with np.errstate(invalid="ignore", divide="ignore"):
        blocks = _Blocks(x)
        total = blocks.sums(lambda where: blocks.matrix[where])
        np.divide(total, count, total)
        np.copyto(mean, total, casting="same_kind")

        def squares(where: Block, centre: Array, work: Array) -> Array:
            np.subtract(blocks.matrix[where], centre, work)
            return np.multiply(work, work, work)

        total = blocks.sums(squares, [mean], [x.dtype])
        np.divide(total, count, total)
        np.copyto(variance, total, casting="same_kind")


def channel_norm(x: Array, mean: Array, scale: Array, shift: Array | None, out: Array) -> None:
    """``out = (x - mean) * scale + shift``."""
    blocks, target = _Blocks(x), _Blocks(out)

    def block(where: Block, mean: Array, scale: Array, *shift: Array) -> None:
        part = target.matrix[where]
        np.subtract(blocks.matrix[where], mean, part)
        np.multiply(part, scale, part)
        if shift:
            np.add(part, shift[0], part)

    blocks.run(block, [mean, scale] if shift is None else [mean, scale, shift])


def channel_products(
    grad: Array, x: Array | None, mean: Array | None, rstd: Array | None, total: Array, product: Array | None
) -> None:
    """``total = sum(grad)`` and ``product = sum(grad * (x - mean) * rstd)`` of each channel.

    With these come the gradients of bias and weight. ``product`` is None where it is not needed, and ``x`` then too.
    """
    blocks = _Blocks(grad)
    np.copyto(total, blocks.sums(lambda where: blocks.matrix[where]), casting="same_kind")
    if product is None or x is None or mean is None or rstd is None:
        return
    if not grad.size:
        product.fill(0)  # the statistics of nothing are NaN
        return
    values = _Blocks(x)

    def centred(where: Block, mean: Array, work: Array) -> Array:
        np.subtract(values.matrix[where], mean, work)
        return np.multiply(work, blocks.matrix[where], work)

    sums = blocks.sums(centred, [mean], [grad.dtype])
    np.multiply(sums, rstd, sums)
    np.copyto(product, sums, casting="same_kind")


def channel_norm_backward(
    grad: Array, x: Array, mean: Array, by_grad: Array, by_x: Array, shift: Array, grad_x: Array
) -> None:
    """``grad_x = grad * by_grad + (x - mean) * by_x + shift``."""
    blocks, values, target = _Blocks(grad), _Blocks(x), _Blocks(grad_x)

    def block(where: Block, mean: Array, by_grad: Array, by_x: Array, shift: Array, work: Array) -> None:
        part = target.matrix[where]
        np.subtract(values.matrix[where], mean, work)
        np.multiply(work, by_x, work)
        np.multiply(blocks.matrix[where], by_grad, part)
        np.add(part, work, part)
        np.add(part, shift, part)

    blocks.run(block, [mean, by_grad, by_x, shift], [grad.dtype])


def prelu(x: Array, weight: Array, out: Array) -> None:
    """``out = x`` where it is positive, else ``x`` times the weight of its channel."""
    blocks, target = _Blocks(x), _Blocks(out)

    def block(where: Block, weight: Array, work: Array) -> None:
        np.minimum(blocks.matrix[where], 0, out=work)
        np.multiply(work, weight, work)
        np.maximum(blocks.matrix[where], 0, out=target.matrix[where])
        np.add(target.matrix[where], work, target.matrix[where])

    blocks.run(block, [weight], [x.dtype])


def prelu_backward(
    grad: Array, x: Array, weight: Array | None, grad_x: Array | None, grad_weight: Array | None
) -> None:
    """The gradients of `prelu` that are asked for: those that are not None."""
    blocks, values = _Blocks(grad), _Blocks(x)

    def products(where: Block, work: Array) -> Array:
        np.minimum(values.matrix[where], 0, out=work)
        return np.multiply(work, blocks.matrix[where], work)

    if grad_weight is not None:
        np.copyto(grad_weight, blocks.sums(products, [], [x.dtype]), casting="same_kind")
    if grad_x is None or weight is None:
        return
    target = _Blocks(grad_x)

    def block(where: Block, weight: Array, positive: Array) -> None:
        part = target.matrix[where]
        np.greater(values.matrix[where], 0, positive)
        np.copyto(part, blocks.matrix[where])
        np.multiply(part, weight, part, where=np.logical_not(positive, positive))

    blocks.run(block, [weight], [BOOL])


Block = tuple[slice, slice]
_ALL: Block = (slice(None), slice(None))


class _Blocks:
    """An array (outer, channels, inner) as a matrix that is cut into blocks of at most a tile.

    With many elements side by side in a channel its numbers are spread over rows, otherwise over columns, which then
    are those of whole channels. A small array stays as it is, and its numbers broadcast.
    """

    def __init__(self, x: Array) -> None:
        self.outer, self.channels, self.inner = x.shape
        self.long = self.inner >= LONG
        self.whole = x.size <= UNTILED
        if self.whole:
            self.matrix = x
            return
        shape = (self.outer * self.channels, self.inner) if self.long else (self.outer, self.channels * self.inner)
        self.matrix = x.reshape(shape)
        rows, columns = shape
        tile = tile_size(x.size, x.dtype)
        unit = 1 if self.long else max(self.inner, 1)
        self._width = min(max(columns, 1), max(unit, tile // unit * unit))
        self._height = max(1, tile // self._width)
        self._across, self._down = -(-columns // self._width), -(-rows // self._height)

    def run(
        self, body: Callable[..., object], numbers: Sequence[Array] = (), scratch_dtypes: Sequence[DType] = ()
    ) -> None:
        """Call ``body(block, *numbers, *scratch)`` for each block.

        Args:
            body: gets the numbers in a shape that broadcasts to the block, and scratch of the block's shape.
            numbers: of the channels.
            scratch_dtypes: a scratch tile of each of these is handed on.
        """

        if self.whole:
            work = scratch_set([(self.matrix.shape, dtype) for dtype in scratch_dtypes])
            if self.matrix.size:
                body(_ALL, *[array[:, None] for array in numbers], *work)
            return

        def task(index: int, *buffers: Array) -> None:
            where = self._block(index)
            rows, columns = self.matrix[where].shape
            spread = [self._spread(*pair, where) for pair in zip(numbers, buffers[len(scratch_dtypes) :], strict=True)]
            work = [buffer[: rows * columns].reshape(rows, columns) for buffer in buffers[: len(scratch_dtypes)]]
            with in_rows(columns, rows * columns) if alike else nullcontext():
                body(where, *spread, *work)

        dtypes = (*scratch_dtypes, *[array.dtype for array in numbers])
        alike = all(dtype == self.matrix.dtype for dtype in dtypes)
        specs = [((self._height * self._width,), dtype) for dtype in scratch_dtypes]
        along = self._height if self.long else self._width
        parallel_for(task, self._across * self._down, [*specs, *[((along,), array.dtype) for array in numbers]])

    def _block(self, index: int) -> Block:
        down, across = divmod(index, self._across)
        top, left = down * self._height, across * self._width
        return slice(top, top + self._height), slice(left, left + self._width)

    def _spread(self, numbers: Array, buffer: Array, where: Block) -> Array:
        """The numbers of the channels, in a shape that broadcasts to a block."""
        if not self.long:
            columns = self.matrix[:1, where[1]].shape[1]
            first, spread = where[1].start // self.inner, buffer[:columns]
            np.copyto(spread.reshape(-1, self.inner), numbers[first : first + columns // self.inner, None])
            return spread[None, :]
        rows = len(self.matrix[where[0]])
        if self.channels == 1:
            return numbers[:, None]
        first = where[0].start % self.channels
        if first + rows <= self.channels:
            return numbers[first : first + rows, None]
        np.take(numbers, np.arange(where[0].start, where[0].start + rows), mode="wrap", out=buffer[:rows])
        return buffer[:rows, None]

    def sums(
        self, body: Callable[..., Array], numbers: Sequence[Array] = (), scratch_dtypes: Sequence[DType] = ()
    ) -> Array:
        """The sum of each channel of what ``body(block, *numbers, *scratch)`` gives, in float64."""
        total = scratch((self.channels,), FLOAT64)
        if not self.matrix.size:
            total.fill(0)
            return total
        if self.whole:
            self.run(lambda *args: self._sums_of_all(body(*args), total), numbers, scratch_dtypes)
            return total
        rows = len(self.matrix)
        narrow = self.matrix.dtype if self.matrix.dtype.itemsize > 2 else FLOAT32
        partial = scratch((self._across, rows) if self.long else (self._down, self.channels), narrow)

        def by_rows(where: Block, *rest: Array) -> None:
            sum_of_rows(body(where, *rest), partial[where[1].start // self._width, where[0]])

        def by_columns(where: Block, *rest: Array) -> None:
            values = body(where, *rest[:-1])
            sums = rest[-1].reshape(-1)[: values.shape[1]]
            sum_of_columns(values, sums)
            first = where[1].start // self.inner
            found = partial[where[0].start // self._height, first : first + values.shape[1] // self.inner]
            np.add.reduce(sums.reshape(-1, self.inner), axis=1, out=found)

        if self.long:
            self.run(by_rows, numbers, scratch_dtypes)
        else:
            self.run(by_columns, numbers, [*scratch_dtypes, narrow])
        np.add.reduce(partial.reshape(-1, self.channels), axis=0, dtype=FLOAT64, out=total)
        return total

    def _sums_of_all(self, values: Array, out: Array) -> None:
        """The sum of each channel of the whole array."""
        narrow = values.dtype if values.dtype.itemsize > 2 else FLOAT32
        if self.long:
            np.add.reduce(np.add.reduce(values, axis=2, dtype=narrow), axis=0, dtype=FLOAT64, out=out)
            return
        columns = scratch((self.channels * self.inner,), narrow)
        sum_of_columns(values.reshape(self.outer, -1), columns)
        np.add.reduce(columns.reshape(self.channels, self.inner), axis=1, dtype=FLOAT64, out=out)
