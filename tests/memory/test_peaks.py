"""Peak scopes: nested, overlapping, and the peak of a pool's whole life."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowgrad
from stowgrad.memory import Device, MemoryPool, max_memory_allocated, memory_allocated, reset_peak_memory_stats
from stowgrad.memory.backing import HostBacking
from stowgrad.memory.peak import PeakScope

BYTE = np.dtype(np.uint8)


def lease(pool, size):
    return pool.lease((size,), BYTE)[0]


def test_a_scope_sees_a_peak_that_is_over(pool):
    with pool.peak_scope() as scope:
        lease(pool, 1000)
    assert (scope.begin_bytes, scope.peak_bytes) == (0, 1000)


def test_a_scope_begins_with_what_is_there(pool):
    kept = lease(pool, 100)
    with pool.peak_scope() as scope:
        pass
    assert (scope.begin_bytes, scope.peak_bytes) == (100, 100)
    assert kept.size == 100


def test_a_scope_does_not_see_what_was_before(pool):
    lease(pool, 5000)
    with pool.peak_scope() as scope:
        lease(pool, 10)
    assert scope.peak_bytes == 10


def test_a_scope_does_not_see_what_comes_after(pool):
    with pool.peak_scope() as scope:
        lease(pool, 10)
    lease(pool, 5000)
    assert scope.peak_bytes == 10


def test_a_scope_can_be_read_while_it_is_open(pool):
    with pool.peak_scope() as scope:
        lease(pool, 10)
        assert scope.peak_bytes == 10
        lease(pool, 20)
        assert scope.peak_bytes == 20


def test_an_inner_scope_does_not_reset_the_outer(pool):
    with pool.peak_scope() as outer:
        lease(pool, 100)
        with pool.peak_scope() as inner:
            lease(pool, 10)
    assert (outer.peak_bytes, inner.peak_bytes) == (100, 10)


def test_the_outer_scope_sees_the_inner_s_peak(pool):
    with pool.peak_scope() as outer, pool.peak_scope():
        lease(pool, 100)
    assert outer.peak_bytes == 100


def test_scopes_may_overlap(pool):
    first, second = pool.peak_scope(), pool.peak_scope()
    first.open()
    lease(pool, 10)
    second.open()
    lease(pool, 30)
    first.close()
    lease(pool, 50)
    second.close()
    assert (first.peak_bytes, second.peak_bytes) == (30, 50)


def test_a_scope_ends_with_an_exception(pool):
    with pytest.raises(KeyError), pool.peak_scope() as scope:
        lease(pool, 10)
        raise KeyError
    lease(pool, 100)
    assert scope.peak_bytes == 10


def test_closing_twice_is_harmless(pool):
    scope = pool.peak_scope().open()
    scope.close()
    lease(pool, 10)
    scope.close()
    assert scope.peak_bytes == 0


def test_adopted_memory_counts(pool):
    with pool.peak_scope() as scope:
        pool.adopt(np.empty(100, BYTE), "activation")
    assert scope.peak_bytes == 100


def test_charged_memory_counts(pool):
    with pool.peak_scope() as scope, pool.charge(123):
        pass
    assert scope.peak_bytes == 123


def test_a_user_s_memory_counts(pool):
    with pool.peak_scope() as scope:
        pool.adopt_user(np.empty(100, BYTE), 100)
    assert scope.peak_bytes == 100


def test_the_whole_life_s_peak_can_be_reset(pool):
    lease(pool, 100)
    pool.reset_peak()
    lease(pool, 10)
    assert pool.peak_bytes() == 10


def test_resetting_does_not_touch_open_scopes(pool):
    with pool.peak_scope() as scope:
        lease(pool, 100)
        pool.reset_peak()
    assert scope.peak_bytes == 100


def test_pytorch_s_names():
    reset_peak_memory_stats()
    before = memory_allocated()
    x = stowgrad.ones(5000)
    assert memory_allocated() == before + 20_000
    del x
    assert max_memory_allocated() == before + 20_000
    assert memory_allocated() == before


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lease"), st.integers(0, 3000)),
        st.tuples(st.just("free"), st.integers(0, 99)),
        st.tuples(st.just("open"), st.just(0)),
        st.tuples(st.just("close"), st.integers(0, 99)),
        st.tuples(st.just("reset"), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_scope_has_the_maximum_over_its_time(steps):
    pool = MemoryPool(Device("cpu"), HostBacking())
    arrays: list[np.ndarray] = []
    scopes: list[tuple[PeakScope, list[int]]] = []
    open_scopes: list[tuple[PeakScope, list[int]]] = []
    life = [0]
    for step, number in steps:
        if step == "lease":
            arrays.append(lease(pool, number))
        elif step == "free" and arrays:
            del arrays[number % len(arrays)]
        elif step == "open":
            open_scopes.append((pool.peak_scope().open(), []))
            scopes.append(open_scopes[-1])
        elif step == "close" and open_scopes:
            open_scopes.pop(number % len(open_scopes))[0].close()
        elif step == "reset":
            pool.reset_peak()
            life = []
        for series in [life, *(series for _, series in open_scopes)]:
            series.append(sum(array.size for array in arrays))
    assert pool.peak_bytes() == max(life)
    assert [scope.peak_bytes for scope, _ in scopes] == [max(series) for _, series in scopes]
