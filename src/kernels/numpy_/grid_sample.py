"""Elements of images at given places, with values between the elements, and the gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from ... import memory
from ..executor import Array, get_num_threads, parallel_for
from .tiling import contiguous, tile_size

__all__ = [
    "grid_places",
    "grid_sample",
    "grid_sample_backward",
]

_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
_CUBIC = -0.75
_LONGEST = 1 << 14  # places of a tile
_ARRAYS = 64  # of eight bytes a place, which NumPy allocates for a tile at most, an axis


class Axis(NamedTuple):
    """What places read along one axis; matrices (taps, places).

    Attributes:
        elements: their numbers.
        inside: whether there are such elements.
        weight: their weights.
        slope: the derivatives of the weights by the place as it was given.
        multiplier, offset: what gives the place within its element: ``given * multiplier + offset``.
    """

    elements: Array
    inside: Array
    weight: Array
    slope: Array
    multiplier: Array
    offset: Array


def grid_sample(x: Array, grid: Array, out: Array, *, mode: str, padding_mode: str, align_corners: bool) -> None:
    """``out[n, c, p]`` is the value of ``x[n, c]`` at ``grid[n, p]``.

    Args:
        x: (N, C, *size), any strides.
        grid: (N, *count, axes): places from -1 to 1, the last axis first.
        out: (N, C, *count).
        mode: ``nearest``, ``bilinear`` (linear along each axis) or ``bicubic``.
        padding_mode: what lies outside: ``zeros``, the ``border``, or the ``reflection``.
        align_corners: whether -1 and 1 are the outermost elements, or their outer edges.
    """
    if out.size == 0:
        return
    size, axes = x.shape[2:], grid.shape[-1]
    source = contiguous(x).reshape(*x.shape[:2], -1)
    places, results = grid.reshape(len(grid), -1, axes), out.reshape(*out.shape[:2], -1)
    step = _step(results)

    def run(number: int, values: Array, total: Array) -> None:
        sample, piece = divmod(number, -(-results.shape[2] // step))
        where = slice(piece * step, (piece + 1) * step)
        read = _axes(places[sample, where], size, mode, padding_mode, align_corners)
        target = results[sample, :, where]
        taken = values[: target.size].reshape(target.shape)
        sums = total[: target.size].reshape(target.shape)
        sums.fill(0)
        for corner, element, outside in _corners(read, size):
            _take(source[sample], element, outside, taken)
            np.multiply(taken, _product([axis.weight[tap] for axis, tap in zip(read, corner)]), out=taken)
            np.add(sums, taken, out=sums)
        target[...] = sums

    specs = [((out.shape[1] * step,), out.dtype)] * 2
    with _workspace(step, axes):
        parallel_for(run, len(x) * -(-results.shape[2] // step), specs)


def grid_sample_backward(
    grad: Array,
    x: Array | None,
    grid: Array,
    grad_x: Array | None,
    grad_grid: Array | None,
    *,
    mode: str,
    padding_mode: str,
    align_corners: bool,
) -> None:
    """The gradients of `grid_sample` that are asked for: those that are not None.

    Args:
        grad: (N, C, *count).
        x: (N, C, *size), read for ``grad_grid``.
        grad_x: (N, C, *size); grad_grid: (N, *count, axes).
    """
    axes = grid.shape[-1]
    like = x if grad_x is None else grad_x
    if like is None:
        return
    size = like.shape[2:]
    source = None if x is None else contiguous(x).reshape(*x.shape[:2], -1)
    upstream, places = contiguous(grad).reshape(*grad.shape[:2], -1), grid.reshape(len(grid), -1, axes)
    by_x = None if grad_x is None else grad_x.reshape(*grad_x.shape[:2], -1)
    by_place = None if grad_grid is None else grad_grid.reshape(len(grad_grid), -1, axes)
    step = _step(upstream)

    def tile(sample: int, where: slice, values: Array) -> None:
        read = _axes(places[sample, where], size, mode, padding_mode, align_corners)
        gradient = upstream[sample, :, where]
        work = values[: gradient.size].reshape(gradient.shape)
        slopes = np.zeros((axes, gradient.shape[1]), grad.dtype)
        for corner, element, outside in _corners(read, size):
            if by_x is not None:
                weight = _product([axis.weight[tap] for axis, tap in zip(read, corner)])
                if outside is not None:
                    weight = np.where(outside, 0, weight)
                np.multiply(gradient, weight, out=work)
                for channel, row in enumerate(work):
                    np.add.at(by_x[sample, channel], element, row)
            if by_place is not None and source is not None:
                _take(source[sample], element, outside, work)
                np.multiply(work, gradient, out=work)
                shared = work.sum(axis=0)
                for number in range(axes):
                    parts = [
                        (axis.slope if other == number else axis.weight)[tap]
                        for other, (axis, tap) in enumerate(zip(read, corner))
                    ]
                    slopes[number] += shared * _product(parts)
        if by_place is not None:
            by_place[sample, where] = slopes[::-1].T

    def run(sample: int, values: Array) -> None:
        if by_x is not None:
            by_x[sample].fill(0)
        for start in range(0, upstream.shape[2], step):
            tile(sample, slice(start, start + step), values)

    with _workspace(step, axes):
        parallel_for(run, len(grad), [((grad.shape[1] * step,), grad.dtype)])


def grid_places(
    grid: Array,
    index: Array,
    inside: Array,
    multiplier: Array,
    offset: Array,
    *,
    size: tuple[int, ...],
    mode: str,
    padding_mode: str,
    align_corners: bool,
) -> None:
    """What `grid_sample` reads, for what composes it of other operations.

    Args:
        grid: (N, *count, axes).
        index: an out, int64 (N, corners, *count): the elements' numbers in their plane.
        inside: an out, (N, corners, *count): 1 where there is such an element, else 0.
        multiplier, offset: outs like the grid: ``grid * multiplier + offset`` is the place within its element.
    """
    axes = grid.shape[-1]
    places = grid.reshape(len(grid), -1, axes)
    corners = index.shape[1]
    outs = index.reshape(len(grid), corners, -1), inside.reshape(len(grid), corners, -1)
    scales = multiplier.reshape(places.shape), offset.reshape(places.shape)
    step = min(_LONGEST, max(1, places.shape[1]))

    def run(number: int) -> None:
        sample, piece = divmod(number, -(-places.shape[1] // step))
        where = slice(piece * step, (piece + 1) * step)
        read = _axes(places[sample, where], size, mode, padding_mode, align_corners)
        for count, (_, element, outside) in enumerate(_corners(read, size)):
            outs[0][sample, count, where] = element
            outs[1][sample, count, where] = 1 if outside is None else ~outside
        for count, axis in enumerate(reversed(read)):
            scales[0][sample, where, count], scales[1][sample, where, count] = axis.multiplier, axis.offset

    with _workspace(step, axes):
        parallel_for(run, len(grid) * -(-places.shape[1] // step))


def _step(results: Array) -> int:
    """Places of a tile of (N, C, places)."""
    channels: int = max(1, results.shape[1])
    places: int = results.shape[2]
    return max(1, min(_LONGEST, places, tile_size(1 << 30, results.dtype) // channels))


def _workspace(step: int, axes: int) -> AbstractContextManager[None]:
    return memory.pool(memory.CPU).charge(8 * _ARRAYS * axes * step * get_num_threads())


def _take(planes: Array, element: Array, outside: Array | None, out: Array) -> None:
    np.take(planes, element, axis=1, out=out, mode="clip")
    if outside is not None:
        out[:, outside] = 0


def _product(factors: list[Array]) -> Array:
    return math.prod(factors[1:], start=factors[0])


def _corners(read: list[Axis], size: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Array, Array | None]]:
    """For each combination of taps: the elements' numbers, and where there are none (None if there are all)."""
    for corner in itertools.product(*(range(len(axis.elements)) for axis in read)):
        element, inside = np.zeros(read[0].elements.shape[1], np.int64), np.ones(read[0].elements.shape[1], bool)
        for axis, tap, length in zip(read, corner, size, strict=True):
            element *= length
            element += axis.elements[tap]
            inside &= axis.inside[tap]
        yield corner, element, None if inside.all() else ~inside


def _axes(places: Array, size: tuple[int, ...], mode: str, padding_mode: str, align_corners: bool) -> list[Axis]:
    """The axes of images, from places (count, axes) with the last one first."""
    wide = places if places.dtype.kind == "f" and places.itemsize >= 4 else places.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        return [
            _axis(wide[:, -number - 1], length, mode, padding_mode, align_corners) for number, length in enumerate(size)
        ]


def _axis(place: Array, size: int, mode: str, padding_mode: str, align_corners: bool) -> Axis:
    number = place.dtype.type
    if align_corners:
        at, scale = (place + number(1)) / number(2) * number(size - 1), (size - 1) / 2
    else:
        at, scale = ((place + number(1)) * number(size) - number(1)) / number(2), size / 2
    multiplier = np.full(place.shape, scale, place.dtype)
    if mode != "bicubic":
        at, sign = _padded(at, size, padding_mode, align_corners)
        multiplier *= sign
    first = np.rint(at) if mode == "nearest" else np.floor(at)
    share = at - first
    if mode == "nearest":
        index, weight, slope = [first], [np.ones_like(share)], [np.zeros_like(share)]
    elif mode == "bilinear":
        index, weight, slope = [first, first + 1], [1 - share, share], [-multiplier, multiplier]
    else:
        index = [_padded(first + tap, size, padding_mode, align_corners)[0] for tap in (-1, 0, 1, 2)]
        weight, slope = _cubic(share)
        slope = [part * multiplier for part in slope]
    whole = np.stack(index)
    whole = np.where(np.abs(whole) < 2**31, whole, -1).astype(np.int64)  # NaN and what is too far lie outside
    inside = (whole >= 0) & (whole < size)
    np.clip(whole, 0, size - 1, out=whole)
    return Axis(whole, inside, np.stack(weight), np.stack(slope), multiplier, share - place * multiplier)


def _padded(at: Array, size: int, padding_mode: str, align_corners: bool) -> tuple[Array, Array]:
    """Places moved into the image, and what their derivatives are multiplied with."""
    sign = np.ones_like(at)
    if padding_mode == "zeros":
        return at, sign
    if padding_mode == "reflection":
        least, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        if span == 0.0:
            return np.zeros_like(at), np.zeros_like(at)
        distance = at - at.dtype.type(least)
        sign[distance < 0] = -1
        distance = np.abs(distance)
        extra, turns = np.fmod(distance, at.dtype.type(span)), np.floor(distance / at.dtype.type(span))
        back = np.fmod(turns, 2) != 0
        sign[back] *= -1
        at = np.where(back, at.dtype.type(span) - extra, extra) + at.dtype.type(least)
    sign[(at <= 0) | (at >= size - 1)] = 0
    return np.where(np.isnan(at), 0, np.clip(at, 0, size - 1)), sign


def _cubic(share: Array) -> tuple[list[Array], list[Array]]:
    """The weights of four elements, and their derivatives.

    Source: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    a, weight, slope = _CUBIC, [], []
    for distance, sign, near in (
        (share + 1, 1, False),
        (share, 1, True),
        (1 - share, -1, True),
        (2 - share, -1, False),
    ):
        if near:
            weight.append(((a + 2) * distance - (a + 3)) * distance * distance + 1)
            slope.append((3 * (a + 2) * distance - 2 * (a + 3)) * distance * sign)
        else:
            weight.append(((distance - 5) * distance + 8) * distance * a - 4 * a)
            slope.append(((3 * distance - 10) * distance + 8) * a * sign)
    return weight, slope
