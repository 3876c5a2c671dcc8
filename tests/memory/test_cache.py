"""Size classes, and blocks that wait for reuse."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowgrad.memory.cache import BlockCache, size_class

BYTE = np.dtype(np.uint8)
MIB = 1 << 20


def lease(pool, size):
    return pool.lease((size,), BYTE)[0]


@given(st.integers(0, 1 << 40))
def test_a_class_is_at_most_an_eighth_larger(nbytes):
    held = size_class(nbytes)
    assert nbytes <= held <= max(nbytes + nbytes / 8 + 512, 512)


@given(st.integers(0, 1 << 40))
def test_a_class_is_its_own_class(nbytes):
    assert size_class(size_class(nbytes)) == size_class(nbytes)


@given(st.integers(12, 40))
def test_there_are_eight_classes_to_a_doubling(power):
    low, high = 1 << power, 1 << (power + 1)
    assert len({size_class(low + (high - low) * part // 64) for part in range(1, 65)}) == 8


@pytest.mark.parametrize("size", [1, 512, 3000, 262_144, 5 * MIB])
def test_blocks_are_aligned(pool, size):
    assert lease(pool, size).ctypes.data % 64 == 0


@pytest.mark.parametrize("size", [100, 3000, 5 * MIB])
def test_a_freed_block_is_used_again(pool, size):
    first = lease(pool, size).ctypes.data
    assert lease(pool, size).ctypes.data == first


def test_a_block_is_used_again_for_another_size_of_its_class(pool):
    first = lease(pool, 5 * MIB).ctypes.data
    assert lease(pool, 5 * MIB - 100).ctypes.data == first


def test_a_block_is_used_again_for_another_dtype(pool):
    first = lease(pool, 4096).ctypes.data
    assert pool.lease((32, 32), np.dtype(np.float32))[0].ctypes.data == first


def test_the_block_that_came_back_last_is_used_first(pool):
    arrays = [lease(pool, 4096) for _ in range(3)]
    last = arrays[1].ctypes.data
    del arrays[0], arrays[0]
    assert lease(pool, 4096).ctypes.data == last


def test_cached_blocks_are_counted(pool):
    lease(pool, 3000)
    assert (pool.used_bytes(), pool.free_bytes(), pool.total_bytes()) == (0, 3072, 3072)


def test_cached_blocks_are_given_back_on_demand(pool):
    block = weakref.ref(lease(pool, 5 * MIB).base)
    assert block() is not None
    pool.free_all_blocks()
    assert block() is None


def test_a_dead_storage_that_somebody_knows_keeps_no_memory(pool):
    array, storage = pool.lease((5 * MIB,), BYTE)
    block = weakref.ref(array.base)
    del array
    pool.free_all_blocks()
    assert block() is None
    assert storage.nbytes == 5 * MIB


def test_the_cache_is_bounded_by_the_highest_need(pool):
    for size in range(1 * MIB, 40 * MIB, MIB):  # one block of each size: none is used twice
        lease(pool, size)
        assert pool.total_bytes() <= 40 * MIB + (64 << 20)


def test_classes_used_longest_ago_are_dropped_first():
    cache = BlockCache()
    for held in (1024, 2048, 4096):
        cache.put(held, object())
    cache.put(1024, cache.take(1024))
    cache.shrink_to(4096 + 1024)
    assert [cache.take(held) is not None for held in (1024, 2048, 4096)] == [True, False, True]


def test_shrinking_stops_when_it_is_enough():
    cache = BlockCache()
    for _ in range(5):
        cache.put(1024, object())
    cache.shrink_to(2048)
    assert cache.nbytes == 2048


def test_a_cleared_cache_is_empty():
    cache = BlockCache()
    cache.put(1024, object())
    cache.clear()
    assert (cache.nbytes, cache.take(1024)) == (0, None)


class GivesBack:
    """A block whose death gives others back, as the cyclic collector does in the middle of anything."""

    def __init__(self, cache):
        self.cache = cache

    def __del__(self):
        for held in (1024, 8192):
            self.cache.put(held, object())


def test_blocks_may_come_back_while_others_are_dropped():
    cache = BlockCache()
    for _ in range(3):
        cache.put(1024, GivesBack(cache))
    cache.clear()
    kept = cache.nbytes
    taken = 0
    for held in (1024, 8192):
        while cache.take(held) is not None:
            taken += held
    assert (taken, cache.nbytes) == (kept, 0)


def test_many_frees_without_a_lease_are_settled(pool):
    arrays = [lease(pool, 4096) for _ in range(100)]
    arrays.clear()
    assert pool.free_bytes() == 100 * 4096


def test_storages_in_cycles_come_back_with_the_collector(pool):
    gc.collect()
    cycle = [lease(pool, 4096)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert pool.used_bytes() == 0
