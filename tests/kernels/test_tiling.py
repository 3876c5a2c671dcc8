"""How large tiles are, which thread runs them, and what scratch they get."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import executor, set_num_threads
from stowgrad.kernels.numpy_ import tiling

FLOAT32 = np.dtype(np.float32)
BYTE = np.dtype(np.uint8)
MIB = 1 << 20


@pytest.mark.parametrize("size", [1, 65_536, 100_001, 262_144])
@pytest.mark.parametrize("arrays", [1, 2, 3, 6, 9])
def test_tiles_of_up_to_a_mebibyte_fit_the_cache_together(size: int, arrays: int) -> None:
    tile = tiling.tile_size(size, FLOAT32, together=4 * arrays)
    assert tile == size or 4 * tile * arrays <= 2 * MIB + 4 * arrays * 4096
    assert tile == size or tile % 4096 == 0


@pytest.mark.parametrize(("arrays", "most"), [(1, MIB), (2, MIB), (3, 2 * MIB // 3), (4, MIB // 2), (9, MIB // 2)])
def test_threads_share_tiles_of_half_a_mebibyte_and_more(arrays: int, most: int) -> None:
    tile = tiling.tile_size(1 << 24, FLOAT32, together=4 * arrays)
    assert 0.9 * most < 4 * tile < 1.1 * most


def seen(size: int, scratch: int) -> tuple[list[int], set[int]]:
    """The sizes of the tiles of an array beside scratch, and the threads that ran them."""
    sizes: list[int] = []
    threads: set[int] = set()
    gate = threading.Semaphore(1)

    def body(out: np.ndarray[Any, Any], *work: np.ndarray[Any, Any]) -> None:
        with gate:
            sizes.append(out.size)
            threads.add(threading.get_ident())
        assert len(work) == scratch
        assert all(each.shape == out.shape and each.flags.c_contiguous for each in work)

    tiling.map_tiles(body, [np.empty(size, np.float32)], [FLOAT32] * scratch)
    return sizes, threads


def test_an_array_of_a_mebibyte_is_cut_for_the_cache_and_not_shared_out() -> None:
    set_num_threads(2)
    sizes, threads = seen(262_144, 5)
    assert (len(sizes), sum(sizes), threads) == (4, 262_144, {threading.get_ident()})


def test_few_arrays_of_a_mebibyte_are_one_tile() -> None:
    assert seen(262_144, 1)[0] == [262_144]


def test_calls_run_inline_where_that_is_asked_for() -> None:
    set_num_threads(2)
    threads: set[int] = set()
    executor.parallel_slices(lambda where: threads.add(threading.get_ident()), 100, 1, alone=True)
    assert threads == {threading.get_ident()}


SPECS: list[tuple[list[executor.ScratchSpec], int]] = [
    ([((3,), FLOAT32)], 0),
    ([((1000,), FLOAT32)], 4032),
    ([((1001, 3), FLOAT32)], 12_032),
    ([((1024,), FLOAT32)] * 3, 12_288),
    ([((1001,), FLOAT32)] * 2, 8064),
    ([((10,), FLOAT32), ((2000,), BYTE)], 2112),
    ([((), FLOAT32), ((0, 5), FLOAT32), ((2000,), FLOAT32)], 8064),
]


@pytest.mark.parametrize(("specs", "expected"), SPECS)
def test_a_set_of_scratch_lies_apart_in_whole_lines_of_the_cache(
    specs: list[executor.ScratchSpec], expected: int
) -> None:
    pool = memory.pool(memory.CPU)
    before, arrays = pool.used_bytes(), executor.scratch_set(specs)
    assert [(array.shape, array.dtype) for array in arrays] == specs
    assert pool.used_bytes() - before == expected
    places = [array.ctypes.data for array in arrays]
    assert expected == 0 or all(place % 64 == 0 for place in places)
    ends = [place + array.nbytes for place, array in zip(places, arrays, strict=True)]
    assert all(end <= place for end, place in zip(ends, places[1:], strict=False))
    arrays.clear()
    assert pool.used_bytes() == before


def test_no_scratch_is_an_empty_set() -> None:
    assert executor.scratch_set([]) == []


@pytest.mark.parametrize("shape", [(1500, 700), (3, 900, 800), (700, 5000)])
def test_one_step_over_rows_goes_in_larger_tiles(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    row, wide = rng.random(shape[-1], np.float32), rng.random((*shape[:-1], shape[-1] + 3), np.float32)
    x, counts = wide[..., 1:-2], {True: 0, False: 0}
    for one_step in (True, False):

        def body(
            a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], c: np.ndarray[Any, Any], one_step: bool = one_step
        ) -> None:
            counts[one_step] += 1
            tiling.elementwise(np.add, a, b, c)

        out = np.full(shape, np.nan, np.float32)
        tiling.map_tiles(body, [x, np.broadcast_to(row, shape), out], one_step=one_step)
        np.testing.assert_array_equal(out, x + row)
    assert counts[True] < counts[False]


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128", "bool"])
def test_large_arrays_are_filled(dtype: str) -> None:
    whole = np.empty((3000, 1501), dtype)
    tiling.copy_tiled(1, whole)
    assert (whole == 1).all()
    tiling.copy_tiled(np.zeros(()), whole[:, ::2])
    assert (whole[:, ::2] == 0).all()
    assert (whole[:, 1::2] == 1).all()
