"""Windows that slide over the last axes of an array: which elements each of their places meets.

NOTE [ Windows ]
1. Window ``p`` sees, with its place ``k``, the element ``p * stride + k * dilation - padding`` along each axis; what
   lies outside of the array is padding. Nothing more is known about it: padding may differ before and after, or be
   negative, which cuts elements off.
2. All loops run over the places of a window, never over windows: a place meets a regular grid of elements, a slice.
3. What the places of all windows meet is remembered for the geometries used last: working it out takes longer than the
   arithmetic of a small array does.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

Slices: TypeAlias = tuple[slice, ...]
# Slices of the last axes, whatever stands before them.
LastAxes: TypeAlias = tuple[slice | EllipsisType, ...]


class Block(NamedTuple):
    """A run of windows in C order.

    Attributes:
        where: the windows along each axis.
        span: their numbers.
    """

    where: Slices
    span: slice

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.stop - part.start for part in self.where)

    @property
    def length(self) -> int:
        return int(self.span.stop - self.span.start)


class Meeting(NamedTuple):
    """What one place of the windows of a block meets.

    Attributes:
        place: its index in the window.
        inside: the windows of the block for which it lies in the array, as an index of the last axes.
        source: the elements that they see, in the same way; both are None if there are none.
        whole: whether these are all windows of the block.
    """

    place: tuple[int, ...]
    inside: LastAxes | None
    source: LastAxes | None
    whole: bool


class Windows(NamedTuple):
    """The geometry, one number for each axis.

    Attributes:
        size: of the array.
        counts: of windows.
        kernel: places of a window.
        stride, padding, dilation: see the note above.
    """

    size: tuple[int, ...]
    counts: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def positions(self) -> int:
        """The number of windows."""
        return math.prod(self.counts)

    @property
    def places(self) -> int:
        """The number of places in a window."""
        return math.prod(self.kernel)

    @property
    def is_identity(self) -> bool:
        """Whether the windows are the elements."""
        plain = all(k == s == 1 and p == 0 for k, s, p in zip(self.kernel, self.stride, self.padding))
        return plain and self.size == self.counts

    @property
    def overlap(self) -> bool:
        """Whether an element may be seen by two windows."""
        return any(d * (k - 1) >= s for k, s, d in zip(self.kernel, self.stride, self.dilation))

    def block(self) -> Block:
        """All windows."""
        return Block(tuple([slice(0, count) for count in self.counts]), slice(0, self.positions))

    def blocks(self, most: int) -> list[Block]:
        """Blocks of about equal size, of ``most`` windows at most."""
        if 0 < self.positions <= most:
            return [self.block()]
        axis, inner = len(self.counts) - 1, 1
        while axis > 0 and inner * self.counts[axis] <= most:
            inner *= self.counts[axis]
            axis -= 1
        pieces = -(-self.counts[axis] // max(1, most // inner))
        step = -(-self.counts[axis] // pieces)
        rest = tuple(slice(0, count) for count in self.counts[axis + 1 :])
        found, first = [], 0
        for leading in itertools.product(*map(range, self.counts[:axis])):
            for start in range(0, self.counts[axis], step):
                stop = min(start + step, self.counts[axis])
                last = first + (stop - start) * inner
                before = tuple(slice(number, number + 1) for number in leading)
                found.append(Block((*before, slice(start, stop), *rest), slice(first, last)))
                first = last
        return found

    def meetings(self, block: Block) -> Iterable[Meeting]:
        """For each place of a window, in C order, what it meets in the windows of a block."""
        return _meetings_of_all(self) if block.length == self.positions else self._meetings(block)

    def _meetings(self, block: Block) -> Iterator[Meeting]:
        axes = []
        for axis, kernel in enumerate(self.kernel):
            axes.append([self._along(axis, place, block.where[axis]) for place in range(kernel)])
        for place in itertools.product(*map(range, self.kernel)):
            met = [axes[axis][number] for axis, number in enumerate(place)]
            parts = [part for part in met if part is not None]
            if len(parts) < len(met):
                yield Meeting(place, None, None, False)
            else:
                lengths = [part[0].stop - part[0].start for part in parts]
                whole = lengths == list(block.shape)
                yield Meeting(place, (..., *[part[0] for part in parts]), (..., *[part[1] for part in parts]), whole)

    def _along(self, axis: int, place: int, where: slice) -> tuple[slice, slice] | None:
        stride = self.stride[axis]
        shift = place * self.dilation[axis] - self.padding[axis]
        first = max(where.start, -(shift // stride))
        last = min(where.stop, (self.size[axis] - 1 - shift) // stride + 1)
        if first >= last:
            return None
        source = slice(first * stride + shift, (last - 1) * stride + shift + 1, stride)
        return slice(first - where.start, last - where.start), source


@functools.lru_cache(maxsize=128)
def _meetings_of_all(windows: Windows) -> tuple[Meeting, ...]:
    return tuple(windows._meetings(windows.block()))


class Copy(NamedTuple):
    """How what all windows see with one place gets from planes to columns.

    Attributes:
        place: its index in the window.
        target, source: which elements go where, as indices of the last axes; None if there are none.
        outside: what is zero, as indices of the last axes, in place of what was copied there.
    """

    place: tuple[int, ...]
    target: LastAxes | None
    source: LastAxes | None
    outside: tuple[LastAxes, ...]


@functools.lru_cache(maxsize=128)
def copies(windows: Windows, flat: bool) -> tuple[Copy, ...]:
    """A `Copy` for each place.

    Args:
        flat: whether the axes of planes and columns are to be one, for windows that `keep_rows`: what lies inside is
            then a run some way further on, and edges are cleared after it was copied.
    """
    found = []
    for place, inside, source, whole in windows.meetings(windows.block()):
        if inside is None or source is None:
            found.append(Copy(place, None, None, ((...,),)))
            continue
        outside = () if whole else _outside(inside, windows.counts)
        if flat:
            further = 0
            for size, number, step, padding in zip(windows.size, place, windows.dilation, windows.padding):
                further = further * size + number * step - padding
            start, stop = max(0, -further), min(windows.positions, math.prod(windows.size) - further)
            inside, source = (..., slice(start, stop)), (..., slice(start + further, stop + further))
        found.append(Copy(place, inside, source, outside))
    return tuple(found)


def keep_rows(windows: Windows) -> bool:
    """Whether what one place sees lies as its elements do, but for the edges."""
    return windows.counts[1:] == windows.size[1:] and set(windows.stride) == {1}


def _outside(inside: LastAxes, counts: tuple[int, ...]) -> tuple[LastAxes, ...]:
    """What lies outside of a box, as slabs."""
    found: list[LastAxes] = []
    every = slice(None)
    box = [part for part in inside if isinstance(part, slice)]
    for axis, (part, count) in enumerate(zip(box, counts, strict=True)):
        after = (every,) * (len(box) - axis - 1)
        if part.start > 0:
            found.append((..., slice(0, part.start), *after))
        if part.stop < count:
            found.append((..., slice(part.stop, count), *after))
    return tuple(found)


def take_windows(x: Any, columns: Any, windows: Windows, block: Block) -> None:
    """What the windows of a block see.

    Args:
        x: (channels, samples, *size).
        columns: an out, (channels, *kernel, samples, *shape of the block).
    """
    for meeting in windows.meetings(block):
        target = columns[(slice(None), *meeting.place)]
        if not meeting.whole:
            target.fill(0)
        if meeting.inside is not None and meeting.source is not None:
            target[meeting.inside] = x[meeting.source]


def take_runs(x: Any, columns: Any, windows: Windows) -> None:
    """`take_windows` of all windows where these `keep_rows` and planes lie in C order: runs for each place."""
    flat = columns.reshape(*columns.shape[: -len(windows.counts)], windows.positions)
    planes = x.reshape(*x.shape[:2], -1)
    for place, target, source, outside in copies(windows, True):
        if target is not None and source is not None:
            flat[(slice(None), *place)][target] = planes[source]
        for edge in outside:
            columns[(slice(None), *place)][edge] = 0


def add_windows(columns: Any, x: Any, windows: Windows, block: Block, add: Callable[..., Any]) -> None:
    """The reverse of `take_windows`: what lies in the windows is added to ``x``, by the function ``add``."""
    for meeting in windows.meetings(block):
        if meeting.inside is not None and meeting.source is not None:
            target = x[meeting.source]
            add(target, columns[(slice(None), *meeting.place)][meeting.inside], out=target)
