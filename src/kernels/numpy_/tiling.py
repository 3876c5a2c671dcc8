"""How the kernels cut arrays into tiles: by shape only, never by the number of threads.

NOTE [ The size of a tile ]
A NumPy call gives up the interpreter's lock while it computes and takes it again afterwards. A thread that finds it
taken sleeps, and waking up costs about 50 us; so two threads that call NumPy for a few us at a time do not run side by
side at all, and the tiles that fit a 1 MiB L2 cache best (32 thousand floats, 2 us a step) gain nothing from threads.
With a quarter of a million elements a step takes 20 to 50 us and still finds its data in L3: GELU over 3 M floats takes
2.1 ms on one thread, 1.1 ms on two; with the small tiles 2.3 ms and 3.7 ms.
But a body that goes over its tiles step after step takes up to a third less if all of them, scratch included, are in
the 2 MiB of a core's L2 together. With four arrays that is half a MiB each, and two threads still gain as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np

from ... import memory
from ..executor import UNCOUNTED_BYTES, Array, get_num_threads, parallel_for, parallel_slices, scratch, scratch_set

DType: TypeAlias = np.dtype[Any]

TILE_BYTES = 1 << 20
_TOGETHER_BYTES = 2 << 20  # a core's L2
_LINE = 64  # bytes of a line of the cache
_PERIOD, _COLLIDING, _COLUMNS = 1024, 1 << 17, 32  # bytes, bytes, and elements: see `_copy_columns`
_MULTIPLE = 4096  # tiles start on whole bytes of a bit mask, and on whole pages of most types
UNTILED = TILE_BYTES // 8  # elements: arrays of up to this many are one tile, whatever their dtype
BOOL: DType = np.dtype(np.bool_)
FLOAT32: DType = np.dtype(np.float32)
FLOAT64: DType = np.dtype(np.float64)


# Elements. From rows of _LONG_ROW on the buffer costs time if one row or column goes with all, from _STRIDED_ROW on if
# rows lie apart.
_BUFFER, _SMALLEST_BUFFER, _STRIDED_ROW, _LONG_ROW = 8192, 16, 256, 384


class unbuffered(np.errstate):  # noqa: N801  # a context manager, called like a function
    """A block of code in which ufuncs work on strided and broadcast rows as they lie (NOTE [ NumPy's buffer ])."""

    def __enter__(self) -> None:
        super().__enter__()  # `errstate` ends the change of the buffer's size, too
        np.setbufsize(_SMALLEST_BUFFER)


def in_rows(length: int, size: int) -> AbstractContextManager[None]:
    """`unbuffered` for rows of a length at which that helps, if nothing is cast, else a block of code as it is."""
    return unbuffered() if _LONG_ROW <= length <= _BUFFER // 2 and size >= _BUFFER else _AS_IT_IS


_AS_IT_IS = nullcontext()


def elementwise(ufunc: np.ufunc, *arrays: Any) -> None:
    """Call a cheap ufunc on arrays and numbers, the output last, without NumPy's buffer where that only costs."""
    out = arrays[-1]
    if out.ndim > 1 and _STRIDED_ROW <= out.shape[-1] <= _BUFFER // 2 and out.size >= _BUFFER:
        apart = spread = False
        for array in arrays:
            if isinstance(array, np.ndarray) and array.ndim:
                if array.dtype != out.dtype and out.dtype != BOOL:
                    break  # to be cast: that takes a buffer
                if array.shape != out.shape:
                    spread = True
                elif not array.flags.c_contiguous:
                    apart = apart or 0 not in array.strides
                    spread = True
        else:
            if apart or (spread and out.shape[-1] >= _LONG_ROW):
                with unbuffered():
                    ufunc(*arrays[:-1], out=out)
                return
    ufunc(*arrays[:-1], out=out)


def tile_size(size: int, dtype: DType, allocated: int = 0, together: int = 0, largest: int = TILE_BYTES) -> int:
    """Elements of a tile of an array of ``size``: at most ``largest`` bytes, and an even number about equally large.

    ``allocated`` is how many bytes more than its own there are for each element. ``together`` is how many there are in
    all arrays that the work goes over step after step: in tiles that the cache holds, but of at least half the size
    where threads share them.
    """
    most = largest // (dtype.itemsize + allocated)
    if together:
        cached = _TOGETHER_BYTES // together
        most = min(most, cached if size <= most else max(cached, most // 2))
    if size <= most:
        return max(size, 1)
    pieces = -(-size // most)
    pieces += pieces % 2
    return -(-size // (pieces * _MULTIPLE)) * _MULTIPLE


def rows_per_tile(rows: int, columns: int, dtype: DType, largest: int = TILE_BYTES) -> int:
    """Rows of a tile of a matrix: whole ones, at least one, and otherwise at most so many bytes."""
    return max(1, tile_size(rows * columns, dtype, largest=largest) // max(columns, 1))


def is_contiguous(array: Array) -> bool:
    """Whether the elements lie in C order without gaps."""
    return array.flags.c_contiguous


def copy_tiled(x: Any, out: Array) -> None:
    """``out[...] = x`` with a cast where dtypes differ, on several threads if it is large."""
    if out.nbytes <= TILE_BYTES:
        if out.nbytes >= _COLLIDING and np.shape(x) == out.shape and x.strides[-1] % _PERIOD == 0 != x.strides[-1]:
            _copy_columns(x, out)
        else:
            np.copyto(out, x, casting="unsafe")
        return
    if np.ndim(x) == 0:  # a quarter of the time that it takes as an array
        _fill(x, out)
        return
    spread = np.broadcast_to(x, out.shape)
    if _is_transposed(spread, out):
        _copy_transposed(spread, out)
    else:
        map_tiles(_copy_tile, [spread, out], one_step=True)


def _fill(x: Any, out: Array) -> None:
    """Copy a number: one step over the elements, which is short in tiles of the usual size."""
    if not out.flags.c_contiguous:
        map_tiles(lambda part: np.copyto(part, x, casting="unsafe"), [out])
        return
    flat, step = out.reshape(-1), tile_size(out.size, out.dtype, largest=4 * TILE_BYTES)
    parallel_slices(lambda where: np.copyto(flat[where], x, casting="unsafe"), flat.size, step)


def _copy_columns(x: Array, out: Array) -> None:
    """Copy some columns at a time: the elements of a row of ``x`` fall into the same few lines of the cache."""
    for start in range(0, out.shape[-1], _COLUMNS):
        where = slice(start, start + _COLUMNS)
        np.copyto(out[..., where], x[..., where], casting="unsafe")


def _copy_tile(x: Array, out: Array) -> None:
    np.copyto(out, x, casting="unsafe")


def _is_transposed(x: Array, out: Array) -> bool:
    """Whether ``out`` runs along its last axis and ``x`` along another one, both over more than a cache line."""
    if out.ndim < 2 or out.strides[-1] != out.itemsize or abs(x.strides[-1]) < _LINE:
        return False
    lines = zip(x.shape[:-1], x.strides[:-1], strict=True)
    return max((length for length, step in lines if abs(step) == x.itemsize), default=0) * x.itemsize > _LINE


def _copy_transposed(x: Array, out: Array) -> None:
    """Copy strips as wide as a line of the cache, so that each line is written once and read while it is there.

    NumPy goes through the whole of ``out`` in order: with sides of a power of two each of its steps misses the cache.
    """
    width = max(1, _LINE // out.itemsize)
    strips = -(-out.shape[-1] // width)

    def strip(number: int) -> None:
        where = slice(number * width, (number + 1) * width)
        np.copyto(out[..., where], x[..., where], casting="unsafe")

    parallel_for(strip, strips)


def contiguous(x: Array) -> Array:
    """``x`` itself, or a leased copy in C order."""
    if x.flags.c_contiguous:
        return x
    copied = scratch(x.shape, x.dtype)
    copy_tiled(x, copied)
    return copied


def contiguous_in(x: Array, out: Array) -> Array:
    """``x`` itself if it is C-contiguous; otherwise ``out``, now a copy of it, for a kernel that can work in place."""
    if x.flags.c_contiguous:
        return x
    copy_tiled(x, out)
    return out


def unit_rows(x: Array) -> Array:
    """``x`` or a copy of it, such that BLAS takes its last two axes as they are: rows without gaps inside."""
    row, item = x.strides[-2:]
    if item == x.itemsize and row >= x.itemsize * x.shape[-1] and row % x.itemsize == 0:
        return x
    return contiguous(x)


def map_tiles(
    body: Callable[..., Any], arrays: Sequence[Array], scratch_dtypes: Sequence[DType] = (), *, one_step: bool = False
) -> None:
    """Call ``body(*tiles of arrays, *scratch tiles)`` for each tile of arrays of one shape.

    Args:
        body: works element by element, so that tiles are independent.
        arrays: of the same shape; strides do not matter, contiguous ones are fastest. The last one is written.
        scratch_dtypes: a scratch tile of each of these is handed on.
        one_step: whether ``body`` goes over its tiles once, by `elementwise` or a copy: what lies in rows is cut into
            larger tiles then, for nothing is read again.
    """
    out = arrays[-1]
    size, shape = out.size, out.shape
    if size == 0:
        return
    tile, plain = size, True
    if size >= _BUFFER:
        together = 0
        for array in arrays:
            together += array.itemsize
            plain = plain and array.flags.c_contiguous
        for dtype in scratch_dtypes:
            together += dtype.itemsize
        if one_step and not plain:
            tile = tile_size(size, out.dtype, largest=2 * TILE_BYTES)
        else:
            tile = tile_size(size, out.dtype, together=together)
    if size <= tile:
        work = scratch_set([(shape, dtype) for dtype in scratch_dtypes]) if scratch_dtypes else ()
        if plain or one_step:
            body(*arrays, *work)
        else:
            with _rows_as_they_lie(shape, arrays, scratch_dtypes):
                body(*arrays, *work)
        return
    specs = [((tile,), dtype) for dtype in scratch_dtypes]
    alone = out.nbytes <= TILE_BYTES
    if not plain:
        _map_blocks(body, arrays, specs, tile, alone, one_step)
        return
    flat = [array.reshape(-1) for array in arrays]

    def part(where: slice, *buffers: Array) -> None:
        count = where.stop - where.start
        body(*[array[where] for array in flat], *[buffer[:count] for buffer in buffers])

    parallel_slices(part, size, tile, specs, alone=alone)


def map_tiles_in_out(body: Callable[..., Any], arrays: Sequence[Array], scratch_dtypes: Sequence[DType] = ()) -> None:
    """`map_tiles` for a body with one more scratch tile, of the output's dtype, before the others.

    It is the output itself where none of the inputs lies there: the cache has room for an array more.
    """
    *inputs, out = arrays
    if 0 < out.nbytes < UNCOUNTED_BYTES:
        body(*arrays, *[np.empty(out.shape, dtype) for dtype in (out.dtype, *scratch_dtypes)])
        return
    if not out.flags.c_contiguous or any(np.may_share_memory(out, x) for x in inputs):
        map_tiles(body, arrays, [out.dtype, *scratch_dtypes])
        return
    count = len(arrays)
    map_tiles(lambda *tiles: body(*tiles[:count], tiles[count - 1], *tiles[count:]), arrays, scratch_dtypes)


def _map_blocks(
    body: Callable[..., Any],
    arrays: Sequence[Array],
    specs: Sequence[tuple[tuple[int, ...], DType]],
    tile: int,
    alone: bool,
    one_step: bool,
) -> None:
    """`map_tiles` for any strides: a block is a run along one axis, with all of the axes after it."""
    shape = arrays[-1].shape
    axis, inner = len(shape) - 1, 1
    while axis > 0 and inner * shape[axis] <= tile:
        inner *= shape[axis]
        axis -= 1
    step = max(1, tile // inner)
    runs = -(-shape[axis] // step)
    leading = shape[:axis]
    dtypes = [dtype for _, dtype in specs]

    def block(index: int, *buffers: Array) -> None:
        before, run = divmod(index, runs)
        where: tuple[Any, ...] = (*np.unravel_index(before, leading), slice(run * step, (run + 1) * step))
        views = [array[where] for array in arrays]
        count, part = views[-1].size, views[-1].shape
        with _AS_IT_IS if one_step else _rows_as_they_lie(part, arrays, dtypes):
            body(*views, *[buffer[:count].reshape(part) for buffer in buffers])

    parallel_for(block, math.prod(leading) * runs, specs, alone=alone)


def _rows_as_they_lie(
    shape: tuple[int, ...], arrays: Sequence[Array], scratch_dtypes: Sequence[DType]
) -> AbstractContextManager[None]:
    """`in_rows` for a body on tiles of a shape, if all that it works on has one dtype."""
    dtype = arrays[-1].dtype
    alike = all(array.dtype == dtype for array in arrays) and all(found == dtype for found in scratch_dtypes)
    return in_rows(shape[-1], math.prod(shape)) if alike else _AS_IT_IS


def numpy_workspace(itemsize: int, size: int, tile: int) -> AbstractContextManager[None]:
    """Charge what NumPy itself allocates in each tile: ``itemsize`` bytes an element."""
    tiles = 1 if size <= tile else min(get_num_threads(), -(-size // tile))
    return memory.pool(memory.CPU).charge(itemsize * min(size, tile) * tiles)
