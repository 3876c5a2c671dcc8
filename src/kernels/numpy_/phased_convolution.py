"""Transposed convolutions with a stride: a convolution for each remainder of the results' numbers.

NOTE [ Remainders ]
1. Results whose numbers leave the same remainder by the stride, along each axis, meet the same places of the windows.
   They are a convolution of their own, without a stride, over these places of the weights turned round: nothing is
   added twice, and where a remainder has one place there are no columns. With 3 x 3 places that takes 30 % less time
   than adding up columns does.
2. Each is written into every so-many-th element of the result: that pays as long as there are few remainders, enough
   channels for a product each, and not more to unfold than there was to add up. Those that share lines of the cache
   make one task.
3. A small image is spread by the stride instead, for a single convolution (NOTE [ Small convolutions ]), until the
   zeros in between take longer than more calls do. Then each remainder is a small convolution.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

from ..columns import Forward, Library
from ..executor import Array, ScratchSpec, scratch
from ..windows import LastAxes, Windows
from . import small_convolution
from .row_convolution import run_tasks
from .tiling import contiguous

__all__: list[str] = []

_MOST = 8  # remainders
_CHANNELS = 8  # of a group, at least
_SPREAD_BYTES = 1 << 19  # of columns of a spread image, at most


class Phase(NamedTuple):
    """One remainder, along all axes.

    Attributes:
        target: its results.
        places: what they meet of the weights turned round; nothing where ``windows`` is None.
        windows: over the images, whose results these are.
    """

    target: LastAxes
    places: LastAxes
    windows: Windows | None


class _Along(NamedTuple):
    """One remainder along one axis: the same, in numbers."""

    target: slice
    places: slice
    results: int
    kernel: int
    padding: int
    dilation: int


def pays(windows: Windows, features: int, channels: int) -> bool:
    """Whether that is faster than adding up columns, for images of so many features and results of so many channels."""
    if math.prod(windows.stride) > _MOST or channels < _CHANNELS:
        return False
    return features <= channels or all(places <= step for places, step in zip(windows.kernel, windows.stride))


@functools.lru_cache(maxsize=128)
def phases(windows: Windows) -> tuple[tuple[Phase, ...], ...]:
    """The remainders for the windows of the convolution whose reverse is wanted; those along the last axis together."""
    *leading, last = [_along(*axis) for axis in zip(*windows, strict=True)]
    return tuple([tuple([_phase(windows, *lead, end) for end in last]) for lead in itertools.product(*leading)])


def _phase(windows: Windows, *parts: _Along) -> Phase:
    target, places, counts, kernel, padding, dilation = zip(*parts, strict=True)
    over = Windows(windows.counts, counts, kernel, (1,) * len(counts), padding, dilation) if all(kernel) else None
    return Phase((..., *target), (..., *places), over)


def _along(size: int, count: int, kernel: int, stride: int, padding: int, dilation: int) -> list[_Along]:
    shared = math.gcd(stride, dilation)
    step = stride // shared  # from a place to the next one with the same remainder
    found = []
    for first in range(min(stride, size)):
        number, remainder = divmod(first + padding, stride)
        places = [place for place in range(kernel) if place * dilation % stride == remainder]
        target = slice(first, None, stride)
        if not places:
            found.append(_Along(target, slice(0), len(range(first, size, stride)), 0, 0, 1))
            continue
        before = places[-1] * dilation // stride - number
        turned = slice(kernel - 1 - places[-1], kernel - places[0], step)
        found.append(_Along(target, turned, len(range(first, size, stride)), len(places), before, dilation // shared))
    return found


def transposed(
    y: Array, turned: Array, bias: Array | None, out: Array, windows: Windows, groups: int, library: Library
) -> None:
    """``out`` (samples, channels, *size) from ``y`` and the weights turned round, (channels, features, *kernel)."""
    given = contiguous(y)
    lines: list[list[Forward]] = []
    for line in phases(windows):
        lines.append([])
        for target, places, over in line:
            if over is None:
                out[target] = 0 if bias is None else bias.reshape(-1, *(1,) * len(windows.size))
            else:
                lines[-1].append(Forward(over, groups, given, turned[places], bias, out[target], library))
    jobs = [job for together in lines for job in together]
    if not jobs:
        return
    batch = min(job.batch for job in jobs)
    for job in jobs:
        job.batch = batch
    batches = jobs[0].batches()

    def run(index: int, buffer: Array, results: Array) -> None:
        number, samples = divmod(index, batches)
        for job in lines[number]:
            for part in range(len(job.parts)):
                for block in range(len(job.blocks)):
                    job.run((part * batches + samples) * len(job.blocks) + block, buffer, results)

    specs: list[ScratchSpec] = [
        ((max(math.prod(job.specs[which][0]) for job in jobs),), out.dtype) for which in range(2)
    ]
    run_tasks(run, len(lines) * batches, specs, sum(job.work for job in jobs))


class SmallPhase(NamedTuple):
    """One remainder of a small image.

    Attributes:
        target, places: as in `Phase`.
        counts: of results along each axis.
        copy: how the images are copied; None if the results meet nothing.
    """

    target: LastAxes
    places: LastAxes
    counts: tuple[int, ...]
    copy: small_convolution.Copies | None


def small_phases(
    windows: Windows, samples: int, channels: int, features: int, groups: int, itemsize: int
) -> tuple[SmallPhase, ...] | None:
    """The remainders for small images (samples, channels, *counts of windows) and results of so many features.

    Returns:
        None where something else is faster.
    """
    spread = small_convolution.reverse_geometry(windows)
    if math.prod(windows.stride) > _MOST or (groups > 1 and channels < _CHANNELS * groups):
        return None
    if small_convolution.columns_bytes(spread, samples, channels, itemsize) <= _SPREAD_BYTES:
        return None
    found, size = [], 0
    for target, places, over in itertools.chain(*phases(windows)):
        if over is None:
            found.append(SmallPhase(target, places, (), None))
            continue
        shape = small_convolution.geometry(over)
        size += small_convolution.columns_bytes(shape, samples, channels, itemsize)
        copy = small_convolution.copies(shape, samples, channels, features, groups, itemsize)
        found.append(SmallPhase(target, places, over.counts, copy))
    return tuple(found) if size <= small_convolution.MOST_BYTES else None


def transposed_small(y: Array, turned: Array, bias: Array | None, out: Array, parts: tuple[SmallPhase, ...]) -> None:
    """`transposed` for small images, on the calling thread."""
    given = contiguous(y)
    lead = out.shape[:2]
    results = scratch((math.prod(lead) * max(math.prod(part.counts) for part in parts),), out.dtype)
    for target, places, counts, copy in parts:
        if copy is None:
            out[target] = 0 if bias is None else bias.reshape(-1, *(1,) * (out.ndim - 2))
        else:
            found = results[: math.prod(lead) * math.prod(counts)].reshape(*lead, *counts)
            small_convolution.convolve(given, turned[places], bias, found, copy)
            out[target] = found
