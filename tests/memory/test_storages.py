"""Storages: one for each piece of memory, however often it comes in."""

from __future__ import annotations

import copy
import gc
import mmap
import pickle

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import CATEGORIES, memory_allocated, memory_stats, memory_summary, pool, storage_of

BYTE = np.dtype(np.uint8)


def used(category):
    return pool("cpu").bytes_by_category()[category]


def test_the_same_array_twice_is_one_storage():
    array = np.ones(5)
    assert stowgrad.from_numpy(array)._storage is stowgrad.from_numpy(array)._storage


VIEWS = {
    "slice": lambda a: a[1:],
    "transposed": lambda a: a.reshape(2, 3).T,
    "memoryview": lambda a: np.asarray(memoryview(a)),
    "frombuffer": lambda a: np.frombuffer(a, np.float64),
    "strided": lambda a: np.lib.stride_tricks.as_strided(a, (2, 2), a.strides * 2),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 2),
    "broadcast": lambda a: np.broadcast_to(a, (2, 6)),
    "subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_has_the_storage_of_its_root(view):
    array = np.ones(6)
    storage = stowgrad.from_numpy(array)._storage
    assert stowgrad.from_numpy(view(array))._storage is storage


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_the_root_is_found_from_a_view_that_came_first(view):
    array = np.ones(6)
    first = stowgrad.from_numpy(view(array))
    assert stowgrad.from_numpy(array)._storage is first._storage


def test_one_memory_has_one_version():
    array = np.ones(6)
    x, y = stowgrad.from_numpy(array), stowgrad.from_numpy(array[2:])
    x.add_(1)
    assert (y._version, y.tolist()) == (1, [2.0] * 4)


def test_an_array_of_the_pool_comes_back_to_its_storage():
    x = stowgrad.ones(3000)
    assert stowgrad.from_numpy(x.numpy()[5:])._storage is x._storage


def test_adopted_results_come_back_to_their_storage():
    x = stowgrad.ones(3) + 1
    assert stowgrad.from_numpy(x.numpy())._storage is x._storage


def test_a_user_s_memory_is_counted_as_input():
    before = used("input")
    x = stowgrad.from_numpy(np.ones(1000))
    assert used("input") - before == x.nbytes
    del x
    assert used("input") == before


def test_a_user_s_memory_is_counted_whole_for_a_view():
    before = used("input")
    x = stowgrad.from_numpy(np.ones(1000)[:1])
    assert used("input") - before == 8000
    del x


def test_it_is_counted_as_long_as_the_user_holds_it():
    array = np.ones(1000)
    before = memory_allocated()
    stowgrad.from_numpy(array)
    assert memory_allocated() - before == 8000
    del array
    assert memory_allocated() == before


def test_a_map_of_a_file_is_counted_once():
    pages = mmap.mmap(-1, 4096)
    array = np.frombuffer(pages, np.uint8)
    x, y = stowgrad.from_numpy(array), stowgrad.from_numpy(array[:10])
    assert x._storage is y._storage


def test_an_id_is_never_used_again():
    ids = set()
    for _ in range(100):
        ids.add(stowgrad.ones(1000)._storage.id)
    assert len(ids) == 100


def test_a_new_lease_of_the_same_memory_starts_at_version_zero():
    x = stowgrad.ones(3000)
    x.add_(1)
    del x
    assert stowgrad.ones(3000)._version == 0


def test_storages_are_compared_by_identity():
    x, y = stowgrad.ones(3000), stowgrad.ones(3000)
    assert x._storage == x._storage
    assert x._storage != y._storage
    assert len({x._storage, y._storage, x._storage}) == 2


def test_dead_storages_are_compared_by_identity():
    storages = [stowgrad.ones(3000)._storage for _ in range(2)]
    assert len(set(storages)) == 2
    assert storages[0] != storages[1]


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_storages_are_not_copied(copying):
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        copying(stowgrad.ones(3)._storage)


def test_a_relabel_moves_bytes_between_categories():
    array, storage = pool("cpu").lease((5000,), BYTE, "activation")
    before = used("activation"), used("parameter")
    pool("cpu").relabel(storage, "parameter")
    assert (used("activation"), used("parameter")) == (before[0] - 5000, before[1] + 5000)
    assert array.size == 5000


def test_a_relabel_to_an_unknown_category_is_refused():
    storage = stowgrad.ones(3)._storage
    with pytest.raises(ValueError, match="unknown category 'mine'"):
        pool("cpu").relabel(storage, "mine")
    assert storage.category == "activation"


def test_a_lease_of_an_unknown_category_changes_nothing():
    gc.collect()
    before = pool("cpu").used_bytes(), pool("cpu").held_bytes()
    with pytest.raises((ValueError, KeyError)):
        pool("cpu").lease((5000,), BYTE, "mine")
    gc.collect()
    assert (pool("cpu").used_bytes(), pool("cpu").held_bytes()) == before


def test_the_storage_of_memory_that_no_pool_counts_is_none():
    assert storage_of(np.ones(3)) is None


@pytest.mark.parametrize("given", [[1.0], None, 1.0])
def test_only_arrays_come_in(given):
    with pytest.raises(TypeError, match=r"expected np\.ndarray"):
        stowgrad.from_numpy(given)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.zeros(2, "datetime64[s]")])
def test_only_arrays_of_numbers_come_in(array):
    with pytest.raises(TypeError, match="expected numbers"):
        stowgrad.from_numpy(array)


def test_foreign_byte_order_is_refused():
    with pytest.raises(ValueError, match="byte order"):
        stowgrad.from_numpy(np.ones(3, ">f4"))


def test_statistics_add_up():
    x = stowgrad.ones(3000)
    stats = memory_stats()
    assert sum(stats[f"category_bytes.{name}.current"] for name in CATEGORIES) == stats["allocated_bytes.all.current"]
    assert stats["reserved_bytes.all.current"] == (
        stats["active_bytes.all.current"] + stats["inactive_split_bytes.all.current"]
    )
    assert x.numel() == 3000


def test_the_summary_names_categories():
    x = stowgrad.ones(3000)
    text = memory_summary()
    assert text.startswith("memory of cpu, limit none")
    assert "activation" in text
    assert x.numel() == 3000
