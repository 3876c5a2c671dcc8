"""Pooling by the largest element of windows at any distance, and elements of planes by number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..executor import Array, parallel_for
from .tiling import BOOL, contiguous, numpy_workspace, tile_size

__all__ = [
    "adaptive_max_pool",
    "fractional_max_pool",
    "plane_gather",
    "plane_scatter",
    "plane_scatter_add",
]

INT64 = np.dtype(np.int64)


def adaptive_max_pool(x: Array, out: Array, indices: Array, *, windows: Sequence[tuple[Array, Array]]) -> None:
    """The largest element of each window, and its number in its plane; the first of equal ones, the last NaN.

    Args:
        x: (*, *size), any strides.
        out: (*, *count).
        indices: of the same shape; integers.
        windows: for each of the last axes, the first elements of its windows and those after their last.
    """
    axes = len(windows)
    size = x.shape[x.ndim - axes :]
    if out.size == 0:
        return
    source = contiguous(x).reshape(-1, *size)
    results, numbers = (array.reshape(-1, *array.shape[array.ndim - axes :]) for array in (out, indices))
    plane = math.prod(size)
    together = max(1, tile_size(1 << 30, INT64) // plane)
    specs = [((together * plane,), dtype) for dtype in (x.dtype, x.dtype, INT64, INT64, x.dtype, INT64, BOOL, BOOL)]

    def run(index: int, *buffers: Array) -> None:
        where = slice(index * together, (index + 1) * together)
        values, found = source[where], None
        if results.shape[1:] == (1,) * axes and _largest_of_all(values, results[where], numbers[where], buffers[2]):
            return
        pairs = (buffers[0], buffers[2]), (buffers[1], buffers[3])
        for turn, axis in enumerate(reversed(range(axes))):
            shape = list(values.shape)
            shape[axis + 1] = len(windows[axis][0])
            into = [buffer[: math.prod(shape)].reshape(shape) for buffer in pairs[turn % 2]]
            inner = math.prod(size[axis + 1 :])
            _largest(values, found, into[0], into[1], axis + 1, windows[axis], inner, buffers[4:])
            values, found = into
        results[where] = values
        numbers[where] = found

    parallel_for(run, -(-len(source) // together), specs)


def _largest_of_all(x: Array, out: Array, indices: Array, work: Array) -> bool:
    """One window for each plane: by NumPy's own search, which gives up at the first NaN, where this returns False."""
    flat, found = x.reshape(len(x), -1), work[: len(x)]
    np.argmax(flat, axis=1, out=found)
    values = flat[np.arange(len(x)), found]
    if np.isnan(values).any():
        return False
    out.reshape(len(x))[...], indices.reshape(len(x))[...] = values, found
    return True


def _largest(
    x: Array,
    found: Array | None,
    out: Array,
    indices: Array,
    axis: int,
    windows: tuple[Array, Array],
    inner: int,
    work: Sequence[Array],
) -> None:
    """One axis: ``indices`` are those of the axes after it (``found``) plus the place along it times ``inner``."""
    first, last = windows
    values, number, larger, nan = (buffer[: out.size].reshape(out.shape) for buffer in work)
    column = (-1, *(1,) * (out.ndim - axis - 1))
    for step in range(int((last - first).max(initial=0))):
        place = np.minimum(first + step, last - 1)  # a window that has no more looks at its last element again
        np.take(x, place, axis=axis, out=values, mode="clip")
        if found is None:
            number[...] = (place * inner).reshape(column)
        else:
            np.take(found, place, axis=axis, out=number, mode="clip")
            np.add(number, (place * inner).reshape(column), out=number)
        if step == 0:
            np.copyto(out, values)
            np.copyto(indices, number)
            continue
        np.greater(values, out, out=larger)
        np.isnan(values, out=nan)
        np.logical_or(larger, nan, out=larger)
        np.copyto(out, values, where=larger)
        np.copyto(indices, number, where=larger)


def fractional_max_pool(x: Array, samples: Array, out: Array, indices: Array, *, kernel: tuple[int, ...]) -> None:
    """The largest element of each window, and its number in its plane, with windows at random distances.

    Args:
        x: (N, C, *size), any strides.
        samples: (N, C, axes) numbers from 0 to 1, the last axis first for two axes.
        out, indices: (N, C, *count).

    Source: Graham, Fractional Max-Pooling, 2014.
    """
    axes = len(kernel)
    size, count = x.shape[2:], out.shape[2:]
    if out.size == 0:
        return
    source = contiguous(x).reshape(-1, math.prod(size))
    given = samples.reshape(-1, axes)[:, ::-1] if axes == 2 else samples.reshape(-1, axes)
    results, numbers = out.reshape(len(source), -1), indices.reshape(len(source), -1)
    together = max(1, tile_size(1 << 30, INT64) // results.shape[1])
    shape = ((together * results.shape[1],),)
    specs = [(shape[0], dtype) for dtype in (INT64, INT64, BOOL, BOOL)]

    def run(index: int, start: Array, number: Array, larger: Array, nan: Array) -> None:
        where = slice(index * together, (index + 1) * together)
        plane, target, found = source[where], results[where], numbers[where]
        flat = [buffer[: target.size].reshape(target.shape) for buffer in (start, number, larger, nan)]
        _starts(given[where], size, count, kernel, flat[0].reshape(len(target), *count))
        for step, place in enumerate(np.ndindex(*kernel)):
            np.add(flat[0], int(np.ravel_multi_index(place, size)), out=flat[1])
            values = np.take_along_axis(plane, flat[1], axis=1)
            if step == 0:
                target[...], found[...] = values, flat[1]
                continue
            np.greater(values, target, out=flat[2])
            np.isnan(values, out=flat[3])
            np.logical_or(flat[2], flat[3], out=flat[2])
            np.copyto(target, values, where=flat[2])
            np.copyto(found, flat[1], where=flat[2], casting="unsafe")

    with numpy_workspace(out.itemsize + INT64.itemsize, out.size, together * results.shape[1]):
        parallel_for(run, -(-len(source) // together), specs)


def _starts(samples: Array, size: tuple[int, ...], count: tuple[int, ...], kernel: tuple[int, ...], out: Array) -> None:
    """The number of the first element of each window."""
    out.fill(0)
    for axis, results in enumerate(count):
        sample = samples[:, axis, None]
        step = (size[axis] - kernel[axis]) / (results - 1) if results > 1 else 0.0
        step = samples.dtype.type(step)
        start = ((np.arange(results, dtype=samples.dtype) + sample) * step).astype(np.int64)
        start -= (sample * step).astype(np.int64)
        start[:, -1] = size[axis] - kernel[axis]
        before, after = (1,) * axis, (1,) * (len(count) - axis - 1)
        np.multiply(out, size[axis], out=out)
        np.add(out, start.reshape(len(samples), *before, results, *after), out=out)


def plane_gather(x: Array, indices: Array, out: Array, *, axes: int) -> None:
    """``out[p, i] = x[p, indices[p, i]]``, where planes are the last ``axes`` axes, numbered through."""
    source, numbers, results = (_flat(array, axes) for array in (x, indices, out))

    def run(index: int) -> None:
        np.take(source[index], numbers[index], out=results[index], mode="clip")

    _by_planes(run, results, numbers)


def plane_scatter(x: Array, indices: Array, out: Array, *, axes: int) -> None:
    """Zeros with ``out[p, indices[p, i]] = x[p, i]``, where planes are the last ``axes`` axes, numbered through.

    Raises:
        RuntimeError: if there is no element of that number.
    """
    source, numbers, results = (_flat(array, axes) for array in (x, indices, out))
    if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= results.shape[1]):
        raise RuntimeError(
            f"found an invalid max index: indices go from {int(numbers.min())} to {int(numbers.max())}, but there are"
            f" {results.shape[1]} elements in a plane of the result"
        )

    def run(index: int) -> None:
        results[index].fill(0)
        results[index][numbers[index]] = source[index]

    _by_planes(run, results, numbers)


def plane_scatter_add(x: Array, indices: Array, out: Array, *, axes: int) -> None:
    """Zeros with each ``x[p, i]`` added to ``out[p, indices[p, i]]``, planes as in `plane_gather`."""
    source, numbers, results = (_flat(array, axes) for array in (x, indices, out))

    def run(index: int) -> None:
        results[index].fill(0)
        np.add.at(results[index], numbers[index], source[index])

    _by_planes(run, results, numbers)


def _flat(x: Array, axes: int) -> Array:
    lead = x.ndim - axes
    return contiguous(x).reshape(math.prod(x.shape[:lead]), math.prod(x.shape[lead:]))


def _by_planes(run: Callable[[int], None], out: Array, numbers: Array) -> None:
    """Call ``run`` for each plane; a task has as many as make a tile."""
    if out.size == 0:
        return
    together = max(1, tile_size(1 << 30, out.dtype) // out.shape[1])

    def task(index: int) -> None:
        for plane in range(index * together, min((index + 1) * together, len(out))):
            run(plane)

    with numpy_workspace(INT64.itemsize, numbers.size, numbers.shape[1]):  # NumPy widens the numbers of a plane
        parallel_for(task, -(-len(out) // together))
