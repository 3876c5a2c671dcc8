"""Convolutions of channels that have windows of their own: groups of one channel.

NOTE [ Depthwise convolutions ]
1. As products of matrices they would have one row or one column, and BLAS would go through memory for each. Here what
   the places of a window see lies side by side, and `numpy.einsum` multiplies and adds up all places for one channel
   while its results stay in the first cache: 0.9 ns a result of 3 x 3 places, in place of 2.8.
2. Only the places along the other axes than the first are copied: what a place further along the first axis sees lies
   some rows further on. If that is the next element all places are copied, as `einsum` would loop over places inside.
3. The gradients of weights are scalar products, one for each place of each channel and sample.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ..executor import Array, ScratchSpec, blas_single_threaded, parallel_for, scratch
from ..windows import Windows, copies, keep_rows
from .tiling import FLOAT32, FLOAT64, DType, contiguous

__all__: list[str] = []

_BLOCK_BYTES = 1 << 22  # of columns: threads meet at the interpreter's lock less often than with half of it
_LEAST_BYTES = 1 << 19  # the same, as less is not worth a task
_LEAST = 128  # windows of a channel: with fewer, loops are too short
_SMALL_BYTES = 1 << 16  # the same, of all windows: below, small convolutions take fewer calls of NumPy
_TASKS = 8
_FEW = 3 << 19  # multiplications: what they take, about 0.3 ms, two threads take as well until they met each other
_ALONE = 8192  # elements: a scalar product of more BLAS shares out by itself
_EVERY = slice(None)


class _Piece(NamedTuple):
    """What is copied at a time."""

    samples: slice
    channels: slice
    rows: slice  # of windows


def pays(windows: Windows, samples: int, weight_shape: tuple[int, ...], groups: int, dtype: DType) -> bool:
    """Whether channels have windows of their own, without a stride, and enough of them."""
    if groups == 1 or weight_shape[1] != 1 or dtype not in (FLOAT32, FLOAT64) or windows.is_identity:
        return False
    if set(windows.stride) != {1} or windows.positions < _LEAST:
        return False
    return samples * groups * windows.places * windows.positions * dtype.itemsize >= _SMALL_BYTES


class _Depthwise:
    """The sizes, how they are cut, and what windows see."""

    def __init__(self, windows: Windows, x: Array, features: int) -> None:
        self.windows, self.x = windows, x
        self.flat = x[:1, :1].flags.c_contiguous  # a view of planes has their axes as one
        self.channels, self.features = x.shape[1], features
        self.first, *self.others = windows.kernel
        self.length = math.prod(windows.counts[1:])  # windows of a row
        self.shared = windows.dilation[0] * self.length > 1
        self.halo = (self.first - 1) * windows.dilation[0] if self.shared else 0
        self.copied = (1 if self.shared else self.first, *self.others)  # the places that have columns of their own
        row, rows = math.prod(self.copied) * self.length * x.itemsize, windows.counts[0]
        plane = row * (rows + self.halo)
        fair = max(-(-len(x) * self.channels // _TASKS), _LEAST_BYTES // plane)
        planes = max(1, min(_BLOCK_BYTES // plane, fair))
        if plane > _BLOCK_BYTES:
            rows = max(1, min(rows, max(_BLOCK_BYTES // row - self.halo, 2 * self.halo)))
        channels = min(self.channels, planes)
        channels = -(-self.channels // -(-self.channels // channels))
        together = max(1, min(len(x), planes // self.channels))
        self.samples, self.parts = _runs(len(x), together), _runs(self.channels, channels)
        self.lines = _runs(windows.counts[0], rows)
        self.planes = together * channels
        self.longest = rows * self.length  # run of windows
        self.columns_spec: ScratchSpec = ((self.planes * row * (rows + self.halo) // x.itemsize,), x.dtype)

    def seen(self, buffer: Array, piece: _Piece) -> Array:
        """What windows see: (samples, channels, places along the first axis, other places, windows)."""
        windows, (samples, channels, rows) = self.windows, piece
        lines = rows.stop - rows.start
        counts = lines + self.halo, *windows.counts[1:]
        source = self.x[samples, channels]
        columns = buffer[: math.prod((*source.shape[:2], *self.copied, *counts))]
        columns = columns.reshape(*source.shape[:2], *self.copied, *counts)
        part = Windows(
            windows.size,
            counts,
            self.copied,
            windows.stride,
            (windows.padding[0] - rows.start, *windows.padding[1:]),
            windows.dilation,
        )
        flat = self.flat and keep_rows(part)
        given, targets = source, columns
        if flat:
            given = source.reshape(*source.shape[:2], -1)
            targets = columns.reshape(*columns.shape[: 2 + len(self.copied)], -1)
        for place, target, seen, outside in copies(part, flat):
            where: tuple[Any, ...] = (_EVERY, _EVERY, *place)
            if target is not None and seen is not None:
                targets[where][target] = given[seen]
            for edge in outside:
                columns[where][edge] = 0
        item, places = buffer.itemsize, math.prod(self.others)
        further = windows.dilation[0] * self.length if self.shared else places * lines * self.length
        strides = *columns.strides[:2], further * item, math.prod(counts) * item, item
        shape = *source.shape[:2], self.first, places, lines * self.length
        return np.ndarray(shape, buffer.dtype, buffer, 0, strides)

    def results(self, y: Array, piece: _Piece) -> Array:
        """Results as a view (samples, channels, features of a channel, windows), as ``y`` lies in C order."""
        span = slice(piece.rows.start * self.length, piece.rows.stop * self.length)
        return y.reshape(len(y), self.channels, self.features, -1)[piece.samples, piece.channels, :, span]


def forward(x: Array, weight: Array, bias: Array | None, out: Array, windows: Windows) -> None:
    """``out = weight * x + bias``."""
    channels = x.shape[1]
    job = _Depthwise(windows, x, len(weight) // channels)
    weights = contiguous(weight).reshape(channels, job.features, job.first, -1)
    offset = None if bias is None else bias.reshape(channels, job.features, 1)
    pieces = [_Piece(*where) for where in _all(job)]

    def run(index: int, buffer: Array) -> None:
        piece = pieces[index]
        target = job.results(out, piece)
        np.einsum("scijx,cfij->scfx", job.seen(buffer, piece), weights[piece.channels], out=target)
        if offset is not None:
            np.add(target, offset[piece.channels], out=target)

    parallel_for(run, len(pieces), [job.columns_spec], alone=out.size * windows.places <= _FEW)


def by_weights(x: Array, y: Array, out: Array, windows: Windows) -> None:
    """``out``: the sum over all windows of what they see times their ``y``.

    A task has some channels and some samples, whose sums are added up at the end.
    """
    channels = x.shape[1]
    job = _Depthwise(windows, x, len(out) // channels)
    given = contiguous(y)
    batches = [job.samples[part] for part in _runs(len(job.samples), -(-len(job.samples) // _TASKS))]
    sums = scratch((len(batches), channels, job.features, job.first, math.prod(job.others)), out.dtype)

    def run(index: int, buffer: Array, products: Array) -> None:
        batch, number = divmod(index, len(job.parts))
        part = job.parts[number]
        total = sums[batch, part]
        total.fill(0)
        for samples in batches[batch]:
            for rows in job.lines:
                piece = _Piece(samples, part, rows)
                seen, upstream = job.seen(buffer, piece), job.results(given, piece)
                found = products[: len(seen) * total.size].reshape(len(seen), *total.shape)
                np.vecdot(seen[:, :, None], upstream[:, :, :, None, None], out=found)
                np.add(found[0], total, out=found[0])
                np.add.reduce(found, axis=0, out=total)

    products_spec: ScratchSpec = ((job.planes * job.features * windows.places,), out.dtype)
    specs, alone = [job.columns_spec, products_spec], y.size * windows.places <= _FEW
    with _unshared(job.longest):
        parallel_for(run, len(batches) * len(job.parts), specs, alone=alone)
    np.add.reduce(sums, axis=0, out=out.reshape(sums.shape[1:]))


def _unshared(length: int) -> AbstractContextManager[None]:
    """BLAS on one thread for scalar products so long that it would share them out: bits don't depend on threads."""
    return blas_single_threaded() if length > _ALONE else nullcontext()


def _all(job: _Depthwise) -> list[tuple[slice, slice, slice]]:
    return [(samples, part, rows) for samples in job.samples for part in job.parts for rows in job.lines]


def _runs(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
