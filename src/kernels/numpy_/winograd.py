"""Convolutions of float32 with 3 x 3 places by minimal filtering, after Winograd.

NOTE [ Minimal filtering ]
1. A tile of 2 x 2 results sees 4 x 4 elements. With the transforms of Lavin & Gray (Fast Algorithms for Convolutional
   Neural Networks, 2016) of the elements and of the weights they take 16 multiplications for each pair of a channel
   and a feature, where sums over places take 36:

       results = A' [(G w G') * (B' d B)] A       gradient of w = G' [(A dy A') * (B' d B)] G

   Sums over channels, or over tiles, are then 16 products of matrices, one for each element of the transform. B and A
   hold ones only, G holds ones and halves: small whole numbers stay exact.
2. Everything lies with channels last, (transform, tiles, channels). Elements are sorted by the remainders of their row
   and column by 2 once, as they are copied. All that transforms add is then in long runs, a tile or a row of tiles
   further on, and no product needs a copy of a matrix.
3. The last axis is transformed first. Of its four elements the first and the last make a pair, the others another: what
   lies between the transforms is 8 matrices at a time, which the caches hold, (rows of the transform, columns of the
   pair). The last element has the other sign than in the paper, in G and in A, so that a pair often takes one call.
4. The root mean square of the error is at most 2.5 times that of sums over places in float32. It is relative to the
   largest element that a window sees, whatever its weight there; what a window does not see has no part in its result.
5. Differences of infinities are NaN, and those of large numbers overflow. Where results are not finite in the end,
   these samples (for the weights, everything) are computed again by sums over places.
6. Tiles that are taken together depend on shapes only.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from ..executor import Array, ScratchSpec, parallel_for, scratch
from ..windows import LastAxes, Windows
from . import row_convolution
from .tiling import FLOAT32, DType, elementwise

__all__: list[str] = []

_MATRIX_BYTES = 1 << 18  # of a matrix of tiles and channels; a task has up to 24 of them
_LEAST = 192  # tiles of a product where channels are many
_TASKS, _FAIR = 8, 640  # tasks for several threads, if there are so many tiles for each
_WIDE, _WIDE_BY_WEIGHTS = 24, 16  # 48 and 32 channels and features: with fewer, transforms take what products save
_MUCH = 768  # tiles of so many channels: with less, the calls of NumPy take as long
_UNPACKED = 10**6  # multiplications of a product that OpenBLAS computes without a copy, which is faster
_SHORTEST, _MOST_PIECES = 96, 8  # tiles of such a product, and how many of them there are
_PITCH, _LINE = 64, 16  # elements: channels that lie a multiple of the first apart fall into the same cache lines
_WEIGHT_BYTES = 1 << 18  # of weights that are transformed at a time
_SUMS_BYTES = 1 << 24  # of the gradients of transformed weights


class _Block(NamedTuple):
    """Tiles that are taken together."""

    samples: slice
    rows: slice

    @property
    def height(self) -> int:
        return int(self.rows.stop - self.rows.start)

    @property
    def together(self) -> int:
        return int(self.samples.stop - self.samples.start)


def pays_forward(windows: Windows, samples: int, inputs: int, features: int, dtype: DType) -> bool:
    """Whether `forward` is possible, and faster than sums over places, for so many channels of a group."""
    return _pays(windows, samples, inputs, features, dtype, _WIDE)


def pays_by_weights(windows: Windows, samples: int, inputs: int, features: int, dtype: DType) -> bool:
    """Whether `by_weights` is."""
    return _pays(windows, samples, inputs, features, dtype, _WIDE_BY_WEIGHTS)


def _pays(windows: Windows, samples: int, inputs: int, features: int, dtype: DType, least: float) -> bool:
    if dtype != FLOAT32 or windows.kernel != (3, 3) or windows.stride != (1, 1) or windows.dilation != (1, 1):
        return False
    rows, columns = (-(-count // 2) for count in windows.counts)
    bytes_of_row = 4 * columns * max(inputs, features)
    if bytes_of_row > 4 * _MATRIX_BYTES:
        return False  # a row of tiles alone has more than four times what a matrix should have
    wide = inputs * features / (inputs + features)  # products against what transforms take
    return wide >= least and samples * rows * columns * wide >= least * _MUCH


def forward(x: Array, weight: Array, bias: Array | None, out: Array, windows: Windows, groups: int) -> None:
    """``out = weight * x + bias``."""
    job = _Forward(x, weight, bias, out, windows, groups)
    row_convolution.run_tasks(job.run, len(job.tasks), job.specs)
    again = job.samples_not_finite()
    del job
    for samples in again:
        row_convolution.forward(x[samples], weight, bias, out[samples], windows, groups)


def by_weights(x: Array, y: Array, out: Array, windows: Windows, groups: int) -> None:
    """``out``: the sum over all windows of what they see times their ``y``."""
    job = _ByWeights(x, y, out, windows, groups)
    row_convolution.run_tasks(job.run, len(job.tasks), job.specs)
    job.finish()
    del job
    if not _is_finite(out):
        row_convolution.by_weights(x, y, out, windows, groups)


def _tasks(windows: Windows, samples: int) -> int:
    """How many tasks are wanted, for results of so many samples."""
    height, width = windows.counts
    return min(max(samples * height * width // (4 * _FAIR), 2), _TASKS)


def _together(samples: int, fair: int, most: int) -> int:
    """How many samples are taken together: a fair share of them, more or less, such that none are left over."""
    share = max(1, min(fair, most))
    for count in itertools.chain(range(share, min(2 * share, most + 1)), range(share - 1, share // 2, -1)):
        if samples % count == 0:
            return count
    return share


class _Tiles:
    """How the results are cut into tiles, and the transforms."""

    def __init__(self, windows: Windows, samples: int, channels: int, wanted: int) -> None:
        """Blocks of so many samples, at least as many as wanted where they have enough tiles."""
        self.windows = windows
        self.rows, self.columns = (-(-count // 2) for count in windows.counts)
        of_sample = self.rows * self.columns
        most = max(_MATRIX_BYTES // (4 * channels), _LEAST)
        self.together = _together(samples, -(-samples // wanted), most // of_sample)
        pieces = 1
        if self.together == 1:
            pieces = max(-(-of_sample // most), min(-(-wanted // samples), self.rows))
        self.height = -(-self.rows // min(self.rows, pieces))
        self.blocks = [
            _Block(slice(start, min(start + self.together, samples)), slice(top, min(top + self.height, self.rows)))
            for start in range(0, samples, self.together)
            for top in range(0, self.rows, self.height)
        ]
        self.most = self.together * self.height * self.columns  # tiles of a block
        self.seen = self.together * (self.height + 1) * (self.columns + 1)

    def padded_size(self, channels: int) -> int:
        """Elements that sorting those of a block takes."""
        return self.together * channels * (4 * (self.height + 1) * (self.columns + 1) + _LINE)

    def elements(self, x: Array, block: _Block, target: Array, padded: Array) -> Array:
        """What a block sees, by the remainders of columns and rows.

        Returns:
            (2, 2, rows of tiles + 1, samples, columns of tiles + 1, channels), in ``target``.
        """
        shape = 2, 2, block.height + 1, block.together, self.columns + 1, x.shape[1]
        parts = target[: math.prod(shape)].reshape(shape)
        above, left = self.windows.padding
        _split(x[block.samples], 2 * block.rows.start - above, -left, parts, padded)
        return parts

    def transform(self, pair: int, parts: Array, between: Array, target: Array) -> Array:
        """``B' d B`` for a pair of columns of the transform: (4, 2, tiles, channels)."""
        _, _, height, count, width, channels = parts.shape
        height, width = height - 1, width - 1
        lines = parts.reshape(2, 2 * (height + 1) * count, (width + 1) * channels)
        here, after = lines[:, :, :-channels], lines[:, :, channels:]
        run = count * width * channels
        along = between[: 4 * (height + 1) * run].reshape(2, 2, height + 1, run)
        columns = along.reshape(here.shape)
        if pair == 0:
            elementwise(np.subtract, here, after, columns)
        else:
            elementwise(np.add, here[1], after[0], columns[0])
            elementwise(np.subtract, after[0], here[1], columns[1])
        found = target[: 8 * height * run].reshape(4, 2, height, run)
        here, after = along[:, :, :-1], along[:, :, 1:]
        np.subtract(here, after, out=found[::3].swapaxes(0, 1))
        np.add(here[:, 1], after[:, 0], out=found[1])
        np.subtract(after[:, 0], here[:, 1], out=found[2])
        return found.reshape(4, 2, -1, channels)


def _split(images: Array, top: int, left: int, parts: Array, buffer: Array) -> None:
    """Sort the elements of images by the remainders of their columns and rows, from an element on, zeros around them.

    Args:
        images: (samples, channels, *size).
        parts: an out, (2, 2, rows, samples, columns, channels).
        buffer: of at least `_Tiles.padded_size`.
    """
    _, _, rows, count, columns, channels = parts.shape
    padded = _spaced(buffer, count, channels, 2 * rows, 2 * columns)
    inside, source = _overlap((top, left), padded.shape[2:], images.shape[2:])
    target = padded[inside]
    if target.size < padded.size:
        padded.fill(0)
    np.copyto(target, images[source])
    np.copyto(parts, padded.reshape(count, channels, rows, 2, columns, 2).transpose(5, 3, 2, 0, 4, 1))


def _spaced(buffer: Array, samples: int, channels: int, height: int, width: int) -> Array:
    """Images in a buffer, such that neighbouring channels do not fall into the same lines of the cache."""
    size = height * width
    pitch = size if size % _PITCH else size + _LINE
    lines = buffer[: samples * channels * pitch].reshape(samples, channels, pitch)
    return lines[..., :size].reshape(samples, channels, height, width)


def _overlap(first: tuple[int, int], shape: tuple[int, ...], size: tuple[int, ...]) -> tuple[LastAxes, LastAxes]:
    """What of a box from an element on lies in an image, in numbers of the box and in those of the image."""
    inside, source = [], []
    for start, length, whole in zip(first, shape, size, strict=True):
        low = min(max(start, 0), whole)
        high = max(min(start + length, whole), low)
        inside.append(slice(low - start, high - start) if high > low else slice(0))
        source.append(slice(low, high))
    return (..., *inside), (..., *source)


def _pieces(tiles: int, inputs: int, features: int) -> int:
    """Into how many equal parts the tiles of a product are cut."""
    for count in range(1, _MOST_PIECES + 1):
        length = tiles // count
        if tiles % count == 0 and length >= _SHORTEST and length * inputs * features <= _UNPACKED:
            return count
    return 1


def _is_finite(array: Array) -> bool:
    """Whether all elements and their sum are."""
    with np.errstate(all="ignore"):
        return math.isfinite(np.add.reduce(array, axis=None))


class _Forward(_Tiles):
    """A task has a group and a block."""

    def __init__(self, x: Array, weight: Array, bias: Array | None, out: Array, windows: Windows, groups: int) -> None:
        self.inputs, self.features = inputs, features = weight.shape[1], weight.shape[0] // groups
        super().__init__(windows, len(x), max(inputs, features), -(-_tasks(windows, len(x)) // groups))
        self.x = x.reshape(len(x), groups, inputs, *windows.size)
        self.out = out.reshape(len(out), groups, features, *windows.counts)
        self.bias = None
        if bias is not None:
            self.bias = scratch((groups, self.columns, features), FLOAT32)  # of a row of tiles
            np.copyto(self.bias, bias.reshape(groups, 1, features))
        self.weight = _transformed(weight.reshape(groups, features, inputs, 3, 3))
        self.tasks = [(group, block) for group in range(groups) for block in self.blocks]
        self.not_finite: list[_Block] = []
        products = 4 * self.most * features + max(4 * self.most * features, self.padded_size(features))
        work = max(products, 4 * self.seen * inputs, self.padded_size(inputs))
        self.specs: list[ScratchSpec] = [
            ((4 * self.seen * inputs,), FLOAT32),
            ((8 * self.most * inputs,), FLOAT32),
            ((work,), FLOAT32),
            ((4 * self.most * features,), FLOAT32),
        ]

    def run(self, index: int, elements: Array, transformed: Array, work: Array, results: Array) -> None:
        group, block = self.tasks[index]
        target = self.out[block.samples, group, :, 2 * block.rows.start : 2 * block.rows.stop]
        shape = 2, 2, block.height, block.together, self.columns, self.features
        found = results[: math.prod(shape)].reshape(shape)
        with np.errstate(all="ignore"):
            parts = self.elements(self.x[:, group], block, elements, work)
            self._along_rows(0, group, parts, transformed, work, found.reshape(2, 2, -1))
            products = work[: 8 * found[0, 0].size].reshape(4, 2, -1)
            self._along_rows(1, group, parts, transformed, work, products[:2].swapaxes(0, 1))
            one, two = products[:2].reshape(2, 2, *shape[2:]).swapaxes(0, 1)
            np.add(found, one, out=found)
            # By way of a buffer, as results' channels may fall into the same lines of the cache, as for 32 x 32.
            images = _spaced(work[found.size :], block.together, self.features, 2 * block.height, 2 * self.columns)
            halves = images.reshape(*images.shape[:2], block.height, 2, self.columns, 2).transpose(5, 3, 2, 0, 4, 1)
            np.add(found[0], two, out=halves[0])
            np.subtract(found[1], two, out=halves[1])
        np.copyto(target, images[:, :, : target.shape[2], : target.shape[3]])
        if not _is_finite(target):
            self.not_finite.append(block)

    def samples_not_finite(self) -> list[slice]:
        """The samples of whose results some are not, in runs."""
        found: list[slice] = []
        for start, stop in sorted({(block.samples.start, block.samples.stop) for block in self.not_finite}):
            if found and found[-1].stop == start:
                found[-1] = slice(found[-1].start, stop)
            else:
                found.append(slice(start, stop))
        return found

    def _along_rows(self, pair: int, group: int, parts: Array, transformed: Array, work: Array, target: Array) -> None:
        """Products for a pair of columns of the transform, in ``work``, and ``A'`` times them: (column, row, ...)."""
        seen = self.transform(pair, parts, work, transformed)
        tiles = seen.shape[2]
        cut = _pieces(tiles, self.inputs, self.features)
        shape = 4, 2, cut, tiles // cut
        products = work[: 8 * tiles * self.features].reshape(*shape, self.features)
        np.matmul(seen.reshape(*shape, self.inputs), self.weight[group, pair], out=products)
        if pair == 1 and self.bias is not None:  # into an element of the transform that all four results have once
            lines = products[1, 0].reshape(-1, self.columns * self.features)
            elementwise(np.add, lines, self.bias[group].reshape(-1), lines)
        first, second, third, fourth = products.reshape(4, 2, -1)
        np.add(first, second, out=first)
        np.add(first, third, out=target[:, 0])
        np.subtract(second, third, out=second)
        np.add(second, fourth, out=target[:, 1])


def _transformed(weight: Array) -> Array:
    """``G w G'`` of (groups, features, inputs, 3, 3): (groups, pair, 4, column of it, 1, inputs, features)."""
    groups, features, inputs = weight.shape[:3]
    found = scratch((groups, 2, 4, 2, 1, inputs, features), FLOAT32)
    most = max(1, _WEIGHT_BYTES // (36 * features))
    parts = [(group, slice(i, min(i + most, inputs))) for group in range(groups) for i in range(0, inputs, most)]

    def run(index: int, buffer: Array) -> None:
        group, channels = parts[index]
        count = channels.stop - channels.start
        work = buffer[:, : count * features].reshape(21, count, features)
        taps, along = work[:9].reshape(3, 3, count, features), work[9:].reshape(4, 3, count, features)
        np.copyto(taps, weight[group, :, channels].transpose(3, 2, 1, 0))  # by columns, by rows
        with np.errstate(all="ignore"):
            _widen(taps, along)
            for pair, columns in enumerate((along[::3], along[1:3])):
                for number, column in enumerate(columns):
                    _widen(column, found[group, pair, :, number, 0, channels])

    parallel_for(run, len(parts), [((21, min(most, inputs) * features), FLOAT32)])
    return found


def _widen(taps: Array, found: Array) -> None:
    """``G`` times three arrays: four."""
    np.copyto(found[0], taps[0])
    np.add(taps[0], taps[2], out=found[3])
    np.add(found[3], taps[1], out=found[1])
    np.subtract(found[3], taps[1], out=found[2])
    np.multiply(found[1:3], np.float32(0.5), out=found[1:3])
    np.negative(taps[2], out=found[3])


class _ByWeights(_Tiles):
    """A task has some channels, and some of the blocks where there are few channels."""

    def __init__(self, x: Array, y: Array, out: Array, windows: Windows, groups: int) -> None:
        inputs, self.features = out.shape[1], out.shape[0] // groups
        features = self.features
        tasks = _tasks(windows, len(x))
        chunks = max(1, min(-(-tasks // groups), _SUMS_BYTES // (64 * groups * inputs * features)))
        wanted = -(-tasks // (chunks * groups))
        channels = min(inputs, max(-(-inputs // wanted), 64))
        super().__init__(windows, len(x), max(channels, features), chunks)
        self.x = x.reshape(len(x), groups, inputs, *windows.size)
        self.y = y.reshape(len(x), groups, features, *windows.counts)
        self.out = out.reshape(groups, features, inputs, 3, 3)
        length = -(-len(self.blocks) // chunks)
        self.chunks = [self.blocks[start : start + length] for start in range(0, len(self.blocks), length)]
        self.tasks = [
            (group, slice(first, min(first + channels, inputs)), chunk)
            for group in range(groups)
            for first in range(0, inputs, channels)
            for chunk in range(len(self.chunks))
        ]
        self.sums = scratch((len(self.chunks), groups, 2, 4, 2, features, inputs), FLOAT32)
        most, seen = self.most, self.seen
        pieces = _MOST_PIECES + 1 if _SHORTEST * channels * features <= _UNPACKED else 1
        work = max(4 * seen * channels, self.padded_size(channels), self.padded_size(features), 4 * most * features)
        self.specs: list[ScratchSpec] = [
            ((4 * seen * channels,), FLOAT32),
            ((8 * most * channels,), FLOAT32),
            ((8 * most * features,), FLOAT32),
            ((work,), FLOAT32),
            ((8 * pieces * channels * features,), FLOAT32),
        ]

    def run(
        self, index: int, elements: Array, transformed: Array, gradients: Array, work: Array, products: Array
    ) -> None:
        group, channels, chunk = self.tasks[index]
        total = self.sums[chunk, group][..., channels]
        total.fill(0)
        with np.errstate(all="ignore"):
            for block in self.chunks[chunk]:
                given = self._gradients(self.y[:, group], block, gradients, work)
                parts = self.elements(self.x[:, group, channels], block, elements, work)
                for pair in range(2):
                    seen = self.transform(pair, parts, work, transformed)
                    self._add_products(seen, given[pair], work, products, total[pair])

    def _gradients(self, y: Array, block: _Block, gradients: Array, work: Array) -> Array:
        """``dy A'``: (pair, column of it, row in a tile, tiles, features)."""
        shape = 2, 2, 2, block.height, block.together, self.columns, self.features
        given = gradients[: math.prod(shape)].reshape(shape)
        _split(y[block.samples], 2 * block.rows.start, 0, given[0], work)
        np.add(given[0, 0], given[0, 1], out=given[1, 0])
        np.subtract(given[0, 0], given[0, 1], out=given[1, 1])
        return given.reshape(2, 2, 2, -1, self.features)

    def _add_products(self, seen: Array, given: Array, work: Array, products: Array, total: Array) -> None:
        """Add the products of a pair of columns of the transform to (4, 2, features, channels)."""
        _, _, tiles, channels = seen.shape
        upper, lower = given.swapaxes(0, 1)
        mixed = work[: 4 * tiles * self.features].reshape(2, *upper.shape)
        np.add(upper, lower, out=mixed[0])
        np.subtract(upper, lower, out=mixed[1])
        count = _pieces(tiles, channels, self.features)
        shape = 4, 2, count, self.features, channels
        found = products[: math.prod(shape)].reshape(shape)
        cut = 2, count, tiles // count
        seen = seen.reshape(4, *cut, channels)
        for rows, left in ((slice(0, 1), upper), (slice(1, 3), mixed), (slice(3, 4), lower)):
            left = left.reshape(-1, *cut, self.features).swapaxes(3, 4)
            np.matmul(left, seen[rows], out=found[rows])
        summed = found[:, :, 0]
        if count > 1:
            summed = products[found.size : found.size + summed.size].reshape(summed.shape)
            np.add.reduce(found, axis=2, out=summed)
        np.add(total, summed, out=total)

    def finish(self) -> None:
        """Add up the parts, and ``G' sums G``."""
        groups, features, inputs = self.out.shape[:3]
        most = max(1, _WEIGHT_BYTES // (36 * inputs))
        parts = [
            (group, slice(f, min(f + most, features))) for group in range(groups) for f in range(0, features, most)
        ]

        def run(index: int, buffer: Array) -> None:
            group, where = parts[index]
            count = where.stop - where.start
            total = self.sums[0, group, ..., where, :]
            along = buffer[:12, : count * inputs].reshape(4, 3, count, inputs)
            taps = buffer[12:, : count * inputs].reshape(3, 3, count, inputs)
            with np.errstate(all="ignore"):
                for part in self.sums[1:]:
                    np.add(total, part[group, ..., where, :], out=total)
                for sums, columns in zip(total, (along[::3], along[1:3]), strict=True):
                    _narrow(sums, columns.swapaxes(0, 1))
                _narrow(along, taps)
            np.copyto(self.out[group, where], taps.transpose(2, 3, 1, 0))

        parallel_for(run, len(parts), [((21, min(most, features) * inputs), FLOAT32)])


def _narrow(sums: Array, found: Array) -> None:
    """``G'`` times four arrays: three."""
    np.add(sums[1], sums[2], out=found[0])
    np.subtract(sums[1], sums[2], out=found[1])
    np.multiply(found[:2], np.float32(0.5), out=found[:2])
    np.subtract(found[0], sums[3], out=found[2])
    np.add(found[0], sums[0], out=found[0])
