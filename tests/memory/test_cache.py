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


def put(cache, held):
    """Give a block back, as the pool does."""
    found = cache.classes[held]
    cache.uses = found.last_use = cache.uses + 1
    cache.nbytes += held
    found.blocks.append(object())


def kept(cache):
    """How many blocks there are of each class."""
    return {held: len(found.blocks) for held, found in cache.classes.by_size.items() if found.blocks}


@pytest.fixture
def cache():
    return BlockCache()


def test_classes_used_longest_ago_are_dropped_first(cache):
    for held in (1024, 2048, 4096, 1024):
        put(cache, held)
    cache.drop(2048)
    assert kept(cache) == {1024: 2, 4096: 1}


def test_dropping_stops_when_it_is_enough(cache):
    for _ in range(5):
        put(cache, 1024)
    cache.drop(2049)
    assert (cache.nbytes, kept(cache)) == (2048, {1024: 2})


@pytest.mark.parametrize("nbytes", [0, -1])
def test_nothing_is_dropped_without_need(cache, nbytes):
    put(cache, 1024)
    cache.drop(nbytes)
    assert kept(cache) == {1024: 1}


def test_a_cleared_cache_is_empty(cache):
    for held in (1024, 2048):
        put(cache, held)
    cache.clear()
    assert (cache.nbytes, kept(cache)) == (0, {})


class GivesBack:
    """A block whose death gives others back, as the cyclic collector does in the middle of anything."""

    def __init__(self, cache):
        self.cache = cache

    def __del__(self):
        for held in (1024, 8192):
            put(self.cache, held)


def test_blocks_may_come_back_while_others_are_dropped(cache):
    for _ in range(3):
        put(cache, 1024)
        cache.classes[1024].blocks[-1] = GivesBack(cache)
    cache.clear()
    assert cache.nbytes == sum(held * count for held, count in kept(cache).items()) > 0


def test_classes_stay_when_sizes_are_forgotten(cache):
    put(cache, 1024)
    for nbytes in range(10_000):
        assert cache.classes[nbytes].held == size_class(nbytes)
    assert len(cache.classes) < 10_000
    assert cache.classes[1024].blocks


def free_blocks(pool):
    return sum(found.held * len(found.blocks) for found in pool._classes.by_size.values())


def test_a_system_without_memory_gets_cached_blocks_back(pool, monkeypatch):
    kept = [lease(pool, size) for size in (5000, 5 * MIB)]
    kept.clear()
    allocate, refused = pool._allocate, []

    def scarce(nbytes):
        if pool.free_bytes():
            refused.append(nbytes)
            raise MemoryError
        return allocate(nbytes)

    monkeypatch.setattr(pool, "_allocate", scarce)
    assert lease(pool, 3 * MIB).size == 3 * MIB
    assert refused == [3 * MIB]


def test_more_than_the_system_has_is_a_memory_error(pool):
    with pytest.raises(MemoryError, match="the system has no"):
        lease(pool, 1 << 60)
    assert (pool.used_bytes(), pool.total_bytes()) == (0, 0)


def test_a_lease_that_fails_leaves_the_count_of_cached_blocks_right(pool):
    lease(pool, 100)
    with pytest.raises(ValueError, match="dimension"):
        pool.lease((1,) * 100, BYTE)
    assert (pool.used_bytes(), pool.free_bytes()) == (0, free_blocks(pool))


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
