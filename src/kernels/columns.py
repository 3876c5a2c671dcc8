"""Convolutions as products of matrices over columns: what the kernels on NumPy and on CuPy share.

NOTE [ Convolutions ]
1. One geometry (`Windows`) ties an array of images (samples, channels, *size) to one of results (samples, features,
   *count) through weights (features, channels / groups, *kernel). There are three jobs: `Forward` computes results,
   `Transposed` computes images (its reverse, the gradient of the input), `Weights` computes weights (their gradient).
   Each is bilinear, and derivatives of all three are among the three.
2. A task unfolds what the windows of a block see into columns (channels, places, windows), multiplies, and is done
   with them. So scratch is a block for each thread, never the columns of a sample or a batch.
3. Blocks are as large as the cache likes, but of `LEAST` windows at least, from several samples if one has fewer:
   below, BLAS spends its time on arranging the other matrix. Where threads share them out they are few and large, as
   threads wait for each other between two calls.
4. Tasks write disjoint parts of the result, and each adds up in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .windows import Block, Windows, add_windows, keep_rows, take_runs, take_windows

Spec: TypeAlias = tuple[tuple[int, ...], Any]
LEAST = 256
_TASKS = 8  # so that threads share out even a single sample
_ROWS = 64  # of columns that are multiplied by all features: with fewer, BLAS spends its time on arranging these
_LONG = 1 << 23  # multiplications of a task of its own, about 0.2 ms
COPIED = 8  # multiplications that take as long as copying an element
_BATCHES = 4  # the least number of batches of samples


class Library(NamedTuple):
    """What the jobs need of NumPy or CuPy.

    Attributes:
        matmul: ``matmul(a, b, out=out)`` of stacks of matrices, as many in each.
        add: ``add(a, b, out=out)``.
        contiguous: an array or a copy of it in C order.
        empty: scratch of a shape and dtype.
        block_bytes: how many bytes of columns make a block.
        tasks: how many tasks there should be for results at least, if each of them is long.
    """

    matmul: Callable[..., Any]
    add: Callable[..., Any]
    contiguous: Callable[[Any], Any]
    empty: Callable[[tuple[int, ...], Any], Any]
    block_bytes: int
    tasks: int


class Part(NamedTuple):
    """Whole groups, or some channels of one group."""

    groups: slice
    channels: slice


class _Job:
    """The sizes, and how they are cut; a subclass says what a task does."""

    def __init__(
        self, windows: Windows, groups: int, weight_shape: tuple[int, ...], samples: int, lib: Library
    ) -> None:
        self.windows = windows
        self.groups = groups
        self.inputs = weight_shape[1]  # channels of a group
        self.features = weight_shape[0] // groups  # of a group
        self.depth = self.inputs * windows.places
        self.samples = samples
        self.lib = lib
        self.batch = 1
        self.blocks: list[Block] = []
        self.parts: list[Part] = []

    def cut(self, dtype: Any, *, across: bool, least: int, direct: bool) -> None:
        """Choose parts, blocks and batches.

        Args:
            across: whether the channels of a group may be cut.
            least: the windows that a product should have at least.
            direct: whether samples are taken as they are.
        """
        budget, places, positions = self.lib.block_bytes // dtype.itemsize, self.windows.places, self.windows.positions
        few = min(least, positions * self.samples)
        together = max(1, min(self.groups, budget // (self.depth * few)))
        channels = self.inputs
        if across and together == 1:
            wanted = -(-channels // -(-_TASKS // (self.groups * self.samples)))
            if least > LEAST:
                wanted = max(wanted, -(-_ROWS // places))
            channels = max(1, min(channels, budget // (places * few), wanted))
        depth = together * channels * places
        most = budget // depth
        if not across:
            tasks = min(self.lib.tasks, max(2, self.work // (2 * _LONG) * 2))
            most = min(most, -(-positions * self.samples * self.groups // (together * tasks)))
        most = max(min(least, LEAST), most)
        self.blocks = self.windows.blocks(most)
        if not direct:
            self.batch = max(1, min(most // positions, -(-self.samples // _BATCHES)))
        self.parts = [
            Part(slice(group, min(group + together, self.groups)), slice(start, min(start + channels, self.inputs)))
            for group in range(0, self.groups, together)
            for start in range(0, self.inputs, channels)
        ]
        self.columns_spec: Spec = ((depth * self.batch * max(block.length for block in self.blocks),), dtype)
        self.rows_spec: Spec = ((self.columns_spec[0][0] // depth * self.features * together,), dtype)

    @property
    def work(self) -> int:
        """How many multiplications there are in all tasks, and what takes as long as some more."""
        copied = 0 if self.windows.is_identity else COPIED
        return self.samples * self.windows.positions * self.groups * self.depth * (self.features + copied)

    def batches(self) -> int:
        return -(-self.samples // self.batch)

    def batch_slice(self, number: int) -> slice:
        return slice(number * self.batch, min((number + 1) * self.batch, self.samples))

    def image_channels(self, part: Part) -> slice:
        """A part among all channels of the images."""
        first, last = part.groups.start * self.inputs, (part.groups.stop - 1) * self.inputs
        return slice(first + part.channels.start, last + part.channels.stop)

    def columns(self, buffer: Any, part: Part, samples: slice, block: Block) -> tuple[Any, Any]:
        """A buffer as columns (groups, channels * places, samples * windows), and as what `take_windows` fills."""
        count, groups = samples.stop - samples.start, part.groups.stop - part.groups.start
        channels = part.channels.stop - part.channels.start
        matrix = (groups, channels * self.windows.places, count * block.length)
        flat = buffer[: math.prod(matrix)]
        return flat.reshape(matrix), flat.reshape(groups * channels, *self.windows.kernel, count, *block.shape)

    def unfolded(self, x: Any, buffer: Any, part: Part, samples: slice, block: Block, direct: bool) -> Any:
        """The columns of a part of images."""
        channels = self.image_channels(part)
        if direct:
            flat = x[samples.start, channels].reshape(part.groups.stop - part.groups.start, -1, self.windows.positions)
            return flat[:, :, block.span]
        matrix, columns = self.columns(buffer, part, samples, block)
        source = x[samples, channels].swapaxes(0, 1)
        if block.length == self.windows.positions and keep_rows(self.windows) and source[:1, :1].flags.c_contiguous:
            take_runs(source, columns, self.windows)
        else:
            take_windows(source, columns, self.windows, block)
        return matrix

    def by_group(self, y: Any, part: Part, samples: slice, block: Block) -> Any:
        """Results of a part as (samples, groups, features, windows): a view, as ``y`` lies in C order."""
        count = samples.stop - samples.start
        return y[samples].reshape(count, self.groups, self.features, -1)[:, part.groups, :, block.span]

    def rows(self, y: Any, buffer: Any, part: Part, samples: slice, block: Block) -> Any:
        """Results of a part as matrices (groups, features, samples * windows): a view if there is one sample."""
        view = self.by_group(y, part, samples, block)
        if view.shape[0] == 1:
            return view[0]
        copied = buffer[: math.prod(view.shape)].reshape(*view.shape[1:3], view.shape[0], view.shape[3])
        copied[...] = view.transpose(1, 2, 0, 3)
        return copied.reshape(*view.shape[1:3], -1)


class Forward(_Job):
    """``out = weight * x + bias``: a product for each block of windows.

    ``out`` may have steps between its elements; products are copied into it then.
    """

    def __init__(self, windows: Windows, groups: int, x: Any, weight: Any, bias: Any, out: Any, lib: Library) -> None:
        super().__init__(windows, groups, weight.shape, len(x), lib)
        self.direct = windows.is_identity and (windows.positions >= LEAST or len(x) == 1)
        self.cut(out.dtype, across=False, least=LEAST, direct=self.direct)
        self.x = lib.contiguous(x) if self.direct else x
        self.weight = lib.contiguous(weight).reshape(groups, self.features, self.depth)
        self.bias = None if bias is None else bias.reshape(groups, self.features, 1)
        self.out = out
        self.scattered = not out.flags.c_contiguous
        self.count = len(self.parts) * self.batches() * len(self.blocks)
        self.specs = [((0,), out.dtype) if self.direct else self.columns_spec, self.rows_spec]

    def run(self, index: int, buffer: Any, rows: Any) -> None:
        """One task."""
        index, number = divmod(index, len(self.blocks))
        batch, samples = divmod(index, self.batches())
        part, where, block = self.parts[batch], self.batch_slice(samples), self.blocks[number]
        columns = self.unfolded(self.x, buffer, part, where, block, self.direct)
        if self.scattered:
            shape = where.stop - where.start, self.groups, self.features, *self.windows.counts
            target = self.out[where].reshape(shape)[(slice(None), part.groups, slice(None), *block.where)]
        else:
            target = self.by_group(self.out, part, where, block)
        direct = len(target) == 1 and not self.scattered
        if direct:
            product = target[0]
        else:
            groups = part.groups.stop - part.groups.start
            product = rows[: math.prod(target.shape)].reshape(groups, self.features, -1)
        self.lib.matmul(self.weight[part.groups], columns, out=product)
        if self.bias is not None:
            self.lib.add(product, self.bias[part.groups], out=product)
        if not direct:
            results = product.reshape(*product.shape[:2], len(target), *target.shape[3:])
            target[...] = results.swapaxes(1, 2).swapaxes(0, 1)


class Transposed(_Job):
    """``out`` such that each result is spread over what its window sees; a task has some channels of some samples."""

    def __init__(self, windows: Windows, groups: int, y: Any, weight: Any, bias: Any, out: Any, lib: Library) -> None:
        super().__init__(windows, groups, weight.shape, len(y), lib)
        self.cut(out.dtype, across=True, least=LEAST, direct=False)
        self.y = lib.contiguous(y)
        self.weight = lib.contiguous(weight).reshape(groups, self.features, self.inputs, windows.places)
        self.bias = bias
        self.out = out
        self.count = len(self.parts) * self.batches()
        self.specs = [self.columns_spec, self.rows_spec]

    def run(self, index: int, buffer: Any, rows: Any) -> None:
        """One task."""
        number, batch = divmod(index, self.batches())
        part, samples = self.parts[number], self.batch_slice(batch)
        channels = self.image_channels(part)
        target = self.out[samples, channels].swapaxes(0, 1)
        if self.bias is None:
            target.fill(0)
        else:
            target[...] = self.bias[channels].reshape(-1, *(1,) * (target.ndim - 1))
        weight = self.weight[part.groups, :, part.channels]
        weight = weight.reshape(*weight.shape[:2], -1).swapaxes(1, 2)
        for block in self.blocks:
            matrix, columns = self.columns(buffer, part, samples, block)
            self.lib.matmul(weight, self.rows(self.y, rows, part, samples, block), out=matrix)
            add_windows(columns, target, self.windows, block, self.lib.add)


class Weights(_Job):
    """``out = sum over samples and windows of y * x``: a task has some channels and all samples.

    Where there are too few channels for that, it has a part of the samples, whose sums are added up at the end. What
    has more rows comes first in a product: BLAS is faster then.
    """

    def __init__(self, windows: Windows, groups: int, x: Any, y: Any, out: Any, lib: Library) -> None:
        super().__init__(windows, groups, out.shape, len(x), lib)
        self.direct = windows.is_identity and (windows.positions >= LEAST or len(x) == 1)
        self.cut(out.dtype, across=True, least=4 * LEAST, direct=self.direct)
        self.x = lib.contiguous(x) if self.direct else x
        self.y = lib.contiguous(y)
        self.chunks = 1 if len(self.parts) >= _TASKS else max(1, min(self.batches(), _TASKS // len(self.parts)))
        self.out = out
        shape = (self.chunks, groups, self.features, self.depth)
        self.sums = out.reshape(shape) if self.chunks == 1 else lib.empty(shape, out.dtype)
        self.count = len(self.parts) * self.chunks
        widest = max((p.groups.stop - p.groups.start) * (p.channels.stop - p.channels.start) for p in self.parts)
        product: Spec = ((widest * self.windows.places * self.features,), out.dtype)
        self.specs = [((0,), out.dtype) if self.direct else self.columns_spec, self.rows_spec, product, product]

    def run(self, index: int, buffer: Any, rows: Any, sums: Any, product: Any) -> None:
        """One task."""
        number, chunk = divmod(index, self.chunks)
        part, places = self.parts[number], self.windows.places
        where = slice(part.channels.start * places, part.channels.stop * places)
        target = self.sums[chunk, part.groups, :, where]
        groups, features, depth = target.shape
        columns_first = depth > features
        shape = (groups, depth, features) if columns_first else target.shape
        total, more = sums[: target.size].reshape(shape), product[: target.size].reshape(shape)
        first = True
        step = -(-self.batches() // self.chunks)
        for batch in range(chunk * step, min((chunk + 1) * step, self.batches())):
            samples = self.batch_slice(batch)
            for block in self.blocks:
                left = self.unfolded(self.x, buffer, part, samples, block, self.direct)
                right = self.rows(self.y, rows, part, samples, block)
                if not columns_first:
                    left, right = right, left
                self.lib.matmul(left, right.swapaxes(1, 2), out=total if first else more)
                if not first:
                    self.lib.add(total, more, out=total)
                first = False
        if first:
            target.fill(0)
        else:
            target[...] = total.swapaxes(1, 2) if columns_first else total

    def finish(self) -> None:
        """Add up what the parts of the samples gave."""
        if self.chunks > 1:
            whole = self.out.reshape(self.sums.shape[1:])
            whole[...] = self.sums[0]
            for part in self.sums[1:]:
                self.lib.add(whole, part, out=whole)
