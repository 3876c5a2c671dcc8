"""Random programs of leases, views, escapes and frees: no byte changes, and counters are sums over what lives."""

from __future__ import annotations

import ctypes
import gc
import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stowgrad.memory import CATEGORIES, Device, MemoryPool
from stowgrad.memory.backing import HostBacking, SimBacking

DTYPES = [np.dtype(name) for name in ("uint8", "int16", "float32", "complex128")]
# Around the edges of size classes, of NumPy's own and of mapped blocks.
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([511, 512, 513, 1024, 1025, 4097, 262_143, 262_144, 300_001]))


def as_ctypes(array):
    return np.ctypeslib.as_ctypes(array.reshape(-1).view(np.uint8))


def strided(array):
    flat = array.reshape(-1)
    return np.lib.stride_tricks.as_strided(flat, (max(flat.size - 1, 0), min(flat.size, 2)), flat.strides * 2)


# Ways in which the memory of an array gets into other hands. None of them copies.
ESCAPES = {
    "slice": lambda a: a[1:],
    "slice of slice": lambda a: a[::2][1:][::-1],
    "view": lambda a: a.view(),
    "bytes": lambda a: a.view(np.uint8),
    "reshape": lambda a: a.reshape(1, -1).T,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "strided": strided,
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, min(1, a.size)),
    "memoryview": memoryview,
    "bytes of memoryview": lambda a: memoryview(a).cast("B"),
    "slice of memoryview": lambda a: memoryview(a)[1:],
    "array of memoryview": lambda a: np.asarray(memoryview(a)),
    "frombuffer": lambda a: np.frombuffer(a, np.uint8) if a.size else a.view(),
    "frombuffer of memoryview": lambda a: np.frombuffer(memoryview(a), np.uint8) if a.size else a.view(),
    "dlpack": np.from_dlpack,
    "ctypes": as_ctypes,
    "array of ctypes": lambda a: np.ctypeslib.as_array(as_ctypes(a)) if a.size else a.view(),
    "ctypes from buffer": lambda a: (ctypes.c_char * a.nbytes).from_buffer(a) if a.size else a.view(),
    "pickle buffer": pickle.PickleBuffer,
    "flat": lambda a: a.flat,
    "array interface": lambda a: np.array(a, copy=False, subok=True),
    "in an object array": lambda a: np.array([a, None], dtype=object),
}


def content(thing):
    """The bytes that a piece of escaped memory shows."""
    if isinstance(thing, np.flatiter):
        return np.array(thing).tobytes()
    if isinstance(thing, pickle.PickleBuffer):
        return thing.raw().tobytes()
    if isinstance(thing, ctypes.Array):
        return bytes(thing)
    if isinstance(thing, np.ndarray) and thing.dtype == object:
        return thing[0].tobytes()
    return thing.tobytes()


class Holder:
    """Somebody who can read memory of a storage, and what they must read."""

    def __init__(self, thing, lineage):
        self.thing = thing
        self.lineage = lineage
        self.expected = content(thing)


class Programs(RuleBasedStateMachine):
    """A pool, who holds what, and the categories of what is alive."""

    backing = HostBacking

    @initialize()
    def begin(self):
        self.pool = MemoryPool(Device("cpu"), self.backing())
        self.holders = []
        self.storages = {}
        self.sizes = {}
        self.fill = 0

    def hold(self, array, storage, counted):
        lineage = storage.id
        self.storages[lineage] = storage
        self.sizes[lineage] = counted
        self.fill = (self.fill * 5 + 17) % 251
        if array.size:
            array.view(np.uint8)[...] = np.arange(self.fill, self.fill + array.nbytes) % 251
        self.holders.append(Holder(array, lineage))

    def pick(self, number):
        return self.holders[number % len(self.holders)]

    @rule(size=SIZES, dtype=st.sampled_from(DTYPES), category=st.sampled_from(CATEGORIES))
    def lease(self, size, dtype, category):
        array, storage = self.pool.lease((size,), dtype, category)
        self.hold(array, storage, (category, size * dtype.itemsize))

    @rule(size=st.integers(0, 500), category=st.sampled_from(CATEGORIES))
    def adopt(self, size, category):
        array = np.empty(size, np.float32)
        self.hold(array, self.pool.adopt(array, category), (category, 4 * size))

    @rule(size=st.integers(0, 5000))
    def take_in_a_user_s(self, size):
        array = np.empty(size, np.uint8)
        self.hold(array, self.pool.adopt_user(array, size), ("input", size))

    @precondition(lambda self: self.holders)
    @rule(number=st.integers(0, 1000), escape=st.sampled_from(sorted(ESCAPES)))
    def escape(self, number, escape):
        holder = self.pick(number)
        if isinstance(holder.thing, np.ndarray) and holder.thing.dtype != object and holder.thing.flags.c_contiguous:
            if holder.thing.ndim == 1 and holder.thing.flags.writeable:
                self.holders.append(Holder(ESCAPES[escape](holder.thing), holder.lineage))

    @precondition(lambda self: self.holders)
    @rule(number=st.integers(0, 1000))
    def drop(self, number):
        del self.holders[number % len(self.holders)]

    @precondition(lambda self: self.holders)
    @rule(number=st.integers(0, 1000))
    def drop_into_a_cycle(self, number):
        cycle = [self.holders.pop(number % len(self.holders))]
        cycle.append(cycle)
        del cycle
        gc.collect()

    @precondition(lambda self: self.holders)
    @rule(number=st.integers(0, 1000), category=st.sampled_from(CATEGORIES))
    def relabel(self, number, category):
        lineage = self.pick(number).lineage
        self.pool.relabel(self.storages[lineage], category)
        self.sizes[lineage] = (category, self.sizes[lineage][1])

    @rule(nbytes=st.integers(0, 10_000))
    def charge(self, nbytes):
        before = self.pool.used_bytes()
        with self.pool.charge(nbytes):
            assert self.pool.used_bytes() == before + nbytes

    @rule()
    def empty_the_cache(self):
        self.pool.free_all_blocks()
        assert self.pool.free_bytes() == 0

    @invariant()
    def no_byte_has_changed(self):
        for holder in getattr(self, "holders", ()):
            assert content(holder.thing) == holder.expected

    @invariant()
    def counters_are_sums_over_what_lives(self):
        if not hasattr(self, "pool"):
            return
        alive = {holder.lineage for holder in self.holders}
        expected = dict.fromkeys(CATEGORIES, 0)
        for lineage in alive:
            category, size = self.sizes[lineage]
            expected[category] += size
        assert self.pool.bytes_by_category() == expected
        assert self.pool.used_bytes() == sum(expected.values())
        assert {storage.id for storage in self.pool.live()} == alive

    @invariant()
    def blocks_hold_what_is_used(self):
        if not hasattr(self, "pool"):
            return
        alive = {holder.lineage for holder in self.holders}
        storages = [self.storages[lineage] for lineage in alive]
        held = sum(s.nbytes + s.rounding for s in storages)
        assert self.pool.held_bytes() == held

    def teardown(self):
        if hasattr(self, "holders"):
            self.holders.clear()
            assert self.pool.used_bytes() == self.pool.held_bytes() == 0


class PoisoningPrograms(Programs):
    """The same on blocks that are overwritten as soon as they come back."""

    backing = SimBacking


SETTINGS = settings(max_examples=40, stateful_step_count=40)


class TestPool(Programs.TestCase):
    settings = SETTINGS


class TestPoisoningPool(PoisoningPrograms.TestCase):
    settings = SETTINGS


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_memory_in_other_hands_is_not_used_again(escape):
    pool = MemoryPool(Device("sim:0"), SimBacking())
    array, _ = pool.lease((1000,), np.dtype(np.uint8))
    array[...] = np.arange(1000) % 251
    escaped = escape(array)
    expected = content(escaped)
    del array
    for _ in range(3):
        pool.lease((1000,), np.dtype(np.uint8))[0].fill(7)
    assert content(escaped) == expected
    assert pool.used_bytes() == 1000


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_memory_is_used_again_once_nobody_holds_it(escape):
    pool = MemoryPool(Device("sim:0"), SimBacking())
    array, _ = pool.lease((1000,), np.dtype(np.uint8))
    escaped = escape(array)
    del array, escaped
    assert (pool.used_bytes(), pool.free_bytes()) == (0, 1024)
