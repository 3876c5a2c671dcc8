"""Convolutions over columns that the places of a window along the first axis share.

NOTE [ Shared rows ]
1. Unfolding multiplies an image by the number of places in a window, and that takes longer than the products where
   there are few channels. Here only the places along the other axes are unfolded.
2. Memory holds (groups, places of the other axes, channels, remainders, rows, samples, windows of the other axes): what
   all windows see with one place along the first axis is then a matrix without a copy, some rows further on than with
   the place before. With a stride, rows are sorted by their remainder.
3. So there is a product for each place along the first axis, and the products are added up: forward over results, by
   the weights over samples.
4. Samples are taken together until there are enough windows for BLAS.
5. Numbers of 16 bits are unfolded into float32, in which products are computed and added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..columns import COPIED
from ..executor import Array, ScratchSpec, blas_single_threaded, parallel_for, scratch
from ..windows import Windows, copies, keep_rows
from .tiling import FLOAT32, DType, contiguous

__all__: list[str] = []

_BLOCK_BYTES = 1 << 22
_LEAST = 256  # windows of a product: below, BLAS spends its time on arranging the other matrix
_DEEP = 20  # terms of a product: with fewer, adding up the products takes longer than they do
_STRIDED = 4  # times the time of copying runs, for elements with steps in between
_TASKS = 8  # so that threads share out even a single sample
_FEW = 1 << 22  # multiplications: what they take, about 0.2 ms, two threads that start and meet each other take as well
_HELD = 500  # results: for fewer, `np.matmul` does not release the interpreter's lock, however many terms there are
_EVERY = slice(None)


class _Piece(NamedTuple):
    """What is unfolded at a time."""

    groups: slice
    channels: slice  # of each group
    samples: slice
    rows: slice  # of windows


class _Rows:
    """The sizes, and the matrices of the second rule of the note."""

    def __init__(self, windows: Windows, groups: int, weight_shape: tuple[int, ...]) -> None:
        self.windows, self.groups = windows, groups
        self.inputs, self.features = weight_shape[1], weight_shape[0] // groups
        self.first, *self.others = windows.kernel
        self.places = math.prod(self.others)
        self.stride = windows.stride[0]
        self.halo = (self.first - 1) * windows.dilation[0] // self.stride
        self.length = math.prod(windows.counts[1:])  # windows of a row

    def work(self, samples: int) -> int:
        """How many multiplications there are, and what takes as long as some more."""
        of_window = self.groups * self.inputs * self.places * (self.first * self.features + COPIED)
        return samples * self.windows.positions * of_window

    def unfolded(self, x: Array, buffer: Array, piece: _Piece) -> list[Array]:
        """For each place along the first axis, what windows see: (groups, places * channels, rows * samples * ...)."""
        windows, (groups, channels, samples, rows) = self.windows, piece
        grouped, wide = groups.stop - groups.start, channels.stop - channels.start
        count, lines = samples.stop - samples.start, rows.stop - rows.start
        shape = (grouped, *self.others, wide, self.stride, lines + self.halo, count, *windows.counts[1:])
        columns = buffer[: math.prod(shape)].reshape(shape)
        source = x[samples].reshape(count, self.groups, self.inputs, *windows.size)[:, groups, channels]
        source = source.transpose(1, 2, 0, *range(3, source.ndim))
        part = Windows(
            windows.size,
            (lines + self.halo, *windows.counts[1:]),
            (self.stride, *self.others),
            windows.stride,
            (windows.padding[0] - rows.start * self.stride, *windows.padding[1:]),
            (1, *windows.dilation[1:]),
        )
        by_runs = count == 1 and keep_rows(part) and source[:1, :1].flags.c_contiguous
        if by_runs:
            source = source.reshape(grouped, wide, -1)
        for (remainder, *others), inside, seen, outside in copies(part, by_runs):
            where: tuple[Any, ...] = (_EVERY, *others, _EVERY, remainder)
            # (groups, channels, rows, samples, ...) as (groups, channels, samples, rows, ...)
            target = columns[where].swapaxes(2, 3)
            if inside is not None and seen is not None:
                (target.reshape(grouped, wide, -1) if by_runs else target)[inside] = source[seen]
            for edge in outside:
                target[edge] = 0
        across = count * self.length
        flat = columns.reshape(grouped, self.places * wide, self.stride, -1)
        found = []
        for place in range(self.first):
            further, remainder = divmod(place * windows.dilation[0], self.stride)
            found.append(flat[:, :, remainder, further * across : (further + lines) * across])
        return found

    def results(self, y: Array, piece: _Piece) -> Array:
        """Results as a view (samples, groups, features, rows, windows of a row)."""
        count = piece.samples.stop - piece.samples.start
        whole = y[piece.samples].reshape(count, self.groups, self.features, self.windows.counts[0], self.length)
        return whole[:, piece.groups, :, piece.rows]


def run_tasks(run: Callable[..., None], count: int, specs: Sequence[ScratchSpec], work: float = math.inf) -> None:
    """`parallel_for`, with BLAS on one thread for a single task too: bits don't depend on the number of threads.

    Little work, counted in multiplications of all tasks together, is not shared out.
    """
    if count == 1 or work <= _FEW:
        with blas_single_threaded():
            parallel_for(run, count, specs, alone=True)
    else:
        parallel_for(run, count, specs)


def product(left: Array, right: Array, out: Array) -> None:
    """Products of stacks of matrices, while which other threads run: `np.matmul` keeps them out if ``out`` is small."""
    if out.size < _HELD and len(out) == 1 and min(out.shape[1:]) > 1 and out.flags.c_contiguous:
        np.dot(left[0], right[0], out=out[0])
    else:
        np.matmul(left, right, out=out)


def pays_forward(windows: Windows, inputs: int, features: int, groups: int, dtype: DType) -> bool:
    """Whether `forward` is faster than unfolding all places, or needed for the dtype.

    Products over so many features are added up, in place of unfolding so many channels more.
    """
    if product_dtype(dtype) != dtype:
        return True
    shared = not windows.is_identity and len(windows.kernel) > 1
    depth = inputs * math.prod(windows.kernel[1:])
    wide = depth if windows.stride[-1] == 1 else _STRIDED * depth
    return shared and (groups > 1 or (depth >= _DEEP and wide >= features))


def pays_by_weights(windows: Windows, inputs: int, features: int, groups: int, dtype: DType) -> bool:
    """Whether `by_weights` is faster than unfolding all places, or needed for the dtype."""
    if product_dtype(dtype) != dtype:
        return True
    deep = len(windows.kernel) > 1 and inputs * math.prod(windows.kernel[1:]) >= features
    return not windows.is_identity and (groups > 1 or deep)


def product_dtype(dtype: DType) -> DType:
    """In what products of a dtype are computed."""
    return FLOAT32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _runs(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def _even_runs(length: int, most: int) -> list[slice]:
    """Runs of at most so many, of about the same length, and an even number of them: two threads are done together."""
    count = -(-length // most)
    count = min(length, count + count % 2) if count > 1 else count
    return [slice(length * number // count, length * (number + 1) // count) for number in range(count)]


def forward(x: Array, weight: Array, bias: Array | None, out: Array, windows: Windows, groups: int) -> None:
    """``out = weight * x + bias``."""
    job = _Forward(x, weight, bias, out, windows, groups)
    run_tasks(job.run, len(job.pieces), job.specs, job.work(len(x)))


class _Forward(_Rows):
    def __init__(self, x: Array, weight: Array, bias: Array | None, out: Array, windows: Windows, groups: int) -> None:
        super().__init__(windows, groups, weight.shape)
        self.x, self.out = x, out
        dtype = product_dtype(out.dtype)
        self.bias = None if bias is None else bias.reshape(groups, self.features, 1)
        self.weight = scratch((self.first, groups, self.features, self.places, self.inputs), dtype)
        split = weight.reshape(groups, self.features, self.inputs, self.first, self.places)
        np.copyto(self.weight, split.transpose(3, 0, 1, 4, 2))
        budget = _BLOCK_BYTES // (dtype.itemsize * self.places * self.inputs * self.stride)
        most = max(budget, _LEAST)  # windows that are unfolded at a time, of a group
        together = max(1, min(most // windows.positions, -(-len(x) // 4)))
        grouped = max(1, min(groups, most // (windows.positions * together)))
        rows = windows.counts[0]
        if together == 1:
            least = max(2 * self.halo, -(-_LEAST // self.length))
            tasks = min(_TASKS, self.work(len(x)) // _FEW)  # a short one is over before threads got to share it
            fair = -(-rows // max(1, tasks // len(x)))
            rows = max(1, min(rows, max(min(fair, most // self.length - self.halo), least)))
        self.pieces = [
            _Piece(group, slice(0, self.inputs), samples, lines)
            for group in _runs(groups, grouped)
            for samples in _even_runs(len(x), together)
            for lines in _even_runs(windows.counts[0], rows)
        ]
        across = together * self.length
        columns = grouped * self.places * self.inputs * self.stride * (rows + self.halo) * across
        products = grouped * self.features * rows * across
        self.specs: list[ScratchSpec] = [
            ((columns,), dtype),
            ((products if self.first > 1 else 0,), dtype),
            ((products if together > 1 or dtype != out.dtype else 0,), dtype),
        ]

    def run(self, index: int, buffer: Array, products: Array, sums: Array) -> None:
        piece = self.pieces[index]
        seen = self.unfolded(self.x, buffer, piece)
        target = self.results(self.out, piece)
        count, grouped, features, lines, length = target.shape
        shape = (grouped, features, lines * count * length)
        direct = count == 1 and target.dtype == sums.dtype
        if direct:
            total = target[0].reshape(shape)  # a view: rows lie one after another
        else:
            total = sums[: math.prod(shape)].reshape(shape)
        weight = self.weight[:, piece.groups].reshape(self.first, grouped, features, -1)
        np.matmul(weight[0], seen[0], out=total)
        for place in range(1, self.first):
            more = products[: math.prod(shape)].reshape(shape)
            np.matmul(weight[place], seen[place], out=more)
            np.add(total, more, out=total)
        if self.bias is not None:
            np.add(total, self.bias[piece.groups], out=total)
        if not direct:
            moved = total.reshape(grouped, features, lines, count, length).transpose(3, 0, 1, 2, 4)
            np.copyto(target, moved, casting="unsafe")


def by_weights(x: Array, y: Array, out: Array, windows: Windows, groups: int) -> None:
    """``out``: the sum over all windows of what they see times their ``y``."""
    job = _ByWeights(x, y, out, windows, groups)
    run_tasks(job.run, job.count, job.specs, job.work(len(x)))
    job.finish()


class _ByWeights(_Rows):
    """A task has some channels (or groups), and some of the samples where there are few channels."""

    def __init__(self, x: Array, y: Array, out: Array, windows: Windows, groups: int) -> None:
        super().__init__(windows, groups, out.shape)
        self.x, self.y, self.out = x, contiguous(y), out
        dtype = product_dtype(out.dtype)
        budget = _BLOCK_BYTES // (dtype.itemsize * self.places * self.stride)
        wanted = min(windows.positions * len(x), 4 * _LEAST)
        # Large weights are cut by channels, as each part of the samples has sums of its own.
        chunks = max(1, min(len(x), _TASKS, 4 * _BLOCK_BYTES // out.nbytes))
        fair = -(-self.inputs * groups // -(-_TASKS // chunks))
        channels = max(1, min(self.inputs, max(budget // wanted, 16), max(fair, 16)))
        grouped = max(1, min(groups, budget // (wanted * self.inputs))) if channels == self.inputs else 1
        fitting = max(1, budget // (channels * grouped * self.length))
        rows = max(1, min(windows.counts[0], max(fitting - self.halo, 2 * self.halo)))
        together = 1
        if rows == windows.counts[0]:
            together = max(1, min(-(-len(x) // chunks), fitting // (rows + self.halo)))
        self.parts = [(g, c) for g in _runs(groups, grouped) for c in _runs(self.inputs, channels)]
        self.lines, batches = _runs(windows.counts[0], rows), _runs(len(x), together)
        chunks = 1 if len(self.parts) >= _TASKS else max(1, min(len(batches), chunks))
        self.batches = [batches[part] for part in _runs(len(batches), -(-len(batches) // chunks))]
        self.count = len(self.parts) * len(self.batches)
        cells, across = grouped * channels * self.places, together * self.length
        # What has more rows comes first in a product: BLAS is faster then.
        self.features_first = self.features >= self.places * channels
        shape = (self.features, self.places, self.inputs) if self.features_first else ()
        shape = shape or (self.places, self.inputs, self.features)
        self.sums = scratch((len(self.batches), groups, self.first, *shape), dtype)
        self.specs: list[ScratchSpec] = [
            ((cells * self.stride * (rows + self.halo) * across,), dtype),
            ((grouped * self.features * rows * across if together > 1 or dtype != out.dtype else 0,), dtype),
            ((cells * self.features,), dtype),
        ]

    def run(self, index: int, buffer: Array, gradients: Array, products: Array) -> None:
        number, chunk = divmod(index, len(self.batches))
        groups, channels = self.parts[number]
        total = self.sums[chunk, groups]
        total = total[..., channels] if self.features_first else total[..., channels, :]
        total.fill(0)
        for samples in self.batches[chunk]:
            for rows in self.lines:
                piece = _Piece(groups, channels, samples, rows)
                self._step(piece, total, buffer, gradients, products)

    def _step(self, piece: _Piece, total: Array, buffer: Array, gradients: Array, products: Array) -> None:
        upstream = self.results(self.y, piece)
        count, grouped, features, lines, length = upstream.shape
        if count == 1 and upstream.dtype == gradients.dtype:
            left = upstream[0].reshape(grouped, features, lines * length)
        else:
            copied = gradients[: upstream.size].reshape(grouped, features, lines, count, length)
            np.copyto(copied, upstream.transpose(1, 2, 3, 0, 4))
            left = copied.reshape(grouped, features, -1)
        for place, seen in enumerate(self.unfolded(self.x, buffer, piece)):
            target = total[:, place]
            more = products[: target.size].reshape(target.shape)
            if self.features_first:
                product(left, seen.swapaxes(1, 2), more.reshape(grouped, features, -1))
            else:
                product(seen, left.swapaxes(1, 2), more.reshape(grouped, -1, features))
            np.add(target, more, out=target)

    def finish(self) -> None:
        """Add up the parts of the samples, in the order that weights have."""
        total = self.sums[0]
        for part in self.sums[1:]:
            np.add(total, part, out=total)
        order = (0, 2, 4, 1, 3) if self.features_first else (0, 4, 3, 1, 2)
        shape = (self.groups, self.features, self.inputs, self.first, self.places)
        np.copyto(self.out.reshape(shape), total.transpose(order), casting="unsafe")
