"""The hard limit: its ladder, and the error at its end."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import MemoryBudgetError, available_bytes, get_limit, memory_allocated, set_limit

BYTE = np.dtype(np.uint8)
KIB = 1024
MIB = 1024 * KIB


def lease(pool, size, category="activation"):
    return pool.lease((size,), BYTE, category)[0]


class Cycle:
    """Keeps memory until the cyclic collector comes."""

    def __init__(self, array):
        self.array = array
        self.me = self


@pytest.fixture
def full(pool):
    """A pool whose limit of 4 MiB is used up by two leases; returns it with them."""
    pool.set_limit(4 * MIB)
    return pool, [lease(pool, 2 * MIB, "parameter"), lease(pool, 2 * MIB)]


def test_what_fits_is_leased(pool):
    pool.set_limit(1 * MIB)
    assert lease(pool, 1 * MIB).size == MIB


def test_what_does_not_fit_is_refused(full):
    pool, _ = full
    with pytest.raises(MemoryBudgetError):
        lease(pool, 1)


def test_a_refused_lease_changes_nothing(full):
    pool, _ = full
    before = (pool.used_bytes(), pool.held_bytes(), pool.total_bytes(), pool.bytes_by_category(), len(pool.live()))
    with pytest.raises(MemoryBudgetError):
        lease(pool, 100)
    assert before == (
        pool.used_bytes(),
        pool.held_bytes(),
        pool.total_bytes(),
        pool.bytes_by_category(),
        len(pool.live()),
    )


def test_the_limit_is_about_whole_blocks(pool):
    pool.set_limit(1024)
    kept = lease(pool, 600)  # a block of 1024
    assert pool.held_bytes() == 1024
    with pytest.raises(MemoryBudgetError):
        lease(pool, 1)
    assert kept.size == 600


def test_adopted_memory_is_held_under_the_limit(full):
    pool, _ = full
    with pytest.raises(MemoryBudgetError):
        pool.adopt(np.empty(10, BYTE), "activation")


def test_charged_memory_is_held_under_the_limit(full):
    pool, _ = full
    with pytest.raises(MemoryBudgetError), pool.charge(10):
        pass


def test_a_user_s_memory_is_outside_the_limit(full):
    pool, _ = full
    array = np.empty(MIB, BYTE)
    pool.adopt_user(array, MIB)
    assert pool.used_bytes() == 5 * MIB


def test_used_and_cached_stay_below_the_limit(pool):
    pool.set_limit(4 * MIB)
    for size in (3 * MIB, 2 * MIB, 1 * MIB, 5 * MIB // 2, 300):
        lease(pool, size)
        assert pool.total_bytes() <= 4 * MIB


def test_first_cached_blocks_are_dropped(pool):  # the ladder, step 1
    pool.set_limit(4 * MIB)
    lease(pool, 3 * MIB)
    assert pool.free_bytes() == 3 * MIB
    lease(pool, 2 * MIB)
    assert pool.collections == 0


def test_then_the_pager_is_asked(full):  # the ladder, step 2
    pool, leased = full
    asked = []

    def evict(nbytes):
        asked.append(nbytes)
        leased.clear()

    pool.evictors.append(evict)
    lease(pool, 100)
    assert asked == [512]
    assert pool.collections == 0


def test_a_pager_that_frees_too_little_is_followed_by_the_next(full):  # the ladder, step 2
    pool, leased = full
    pool.evictors += [lambda nbytes: None, lambda nbytes: leased.pop()]
    lease(pool, 100)
    assert len(leased) == 1


def test_then_garbage_is_collected(pool):  # the ladder, step 3
    gc.collect()
    pool.set_limit(4 * MIB)
    Cycle(lease(pool, 4 * MIB))
    lease(pool, 2 * MIB)
    assert pool.collections == 1


def test_a_failed_pager_s_exception_reaches_the_caller(full):
    pool, _ = full

    def evict(nbytes):
        raise KeyError

    pool.evictors.append(evict)
    with pytest.raises(KeyError):
        lease(pool, 100)


# -- the error ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def error(full):
    """What a full pool raises."""
    pool, kept = full
    with pytest.raises(MemoryBudgetError) as caught:
        lease(pool, 100_000)
    assert len(kept) == 2
    return caught.value


def test_it_is_a_memory_error(error):
    assert isinstance(error, MemoryError)


def test_it_says_how_much_was_asked_for(error):
    assert (error.device, error.requested, error.limit) == ("cpu", 100_000, 4 * MIB)


def test_it_says_what_is_in_use(error):
    used = {name: size for name, size in error.used_by_category.items() if size}
    assert used == {"parameter": 2 * MIB, "activation": 2 * MIB}


def test_it_names_the_largest_holders(error):
    assert error.largest == ((2 * MIB, "parameter"), (2 * MIB, "activation"))


def test_its_text_says_what_to_do(error):
    for words in ("100,000 bytes", "4.0 MiB", "parameter 2.0 MiB", f"set_limit({error.smallest_working_limit}"):
        assert words in str(error)


def test_it_can_be_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), vars(again), str(again)) == (MemoryBudgetError, vars(error), str(error))


def program(pool):
    """Needs 700 KiB at its peak, in the middle."""
    first = lease(pool, 300 * KIB)
    second = lease(pool, 400 * KIB)
    del second
    third = lease(pool, 100 * KIB)
    return first.size + third.size


def smallest_limit(pool):
    """What the error of a limit of 500 KiB asks for; the error, and what its frames hold, is gone afterwards."""
    pool.set_limit(500 * KIB)
    try:
        program(pool)
    except MemoryBudgetError as error:
        return error.smallest_working_limit
    return None


def test_the_smallest_limit_works(pool):
    pool.set_limit(smallest_limit(pool))
    assert program(pool) == 400 * KIB


def test_no_smaller_limit_works(pool):
    pool.set_limit(smallest_limit(pool) - 1)
    with pytest.raises(MemoryBudgetError):
        program(pool)


def test_the_smallest_limit_counts_what_was_needed_before(pool):
    lease(pool, 900 * KIB)
    assert smallest_limit(pool) >= 900 * KIB


# -- setting it --------------------------------------------------------------------------------------------------------


def test_there_is_no_limit_at_first(pool):
    assert pool.get_limit() is None


def test_a_limit_below_what_is_in_use_is_refused(pool):
    kept = lease(pool, 2 * MIB)
    with pytest.raises(MemoryBudgetError):
        pool.set_limit(1 * MIB)
    assert pool.get_limit() is None
    assert kept.size == 2 * MIB


def test_setting_a_limit_drops_cached_blocks(pool):
    lease(pool, 2 * MIB)
    pool.set_limit(1 * MIB)
    assert pool.free_bytes() <= 1 * MIB


def test_a_limit_can_be_lifted(full):
    pool, _ = full
    pool.set_limit(None)
    assert lease(pool, 5 * MIB).size == 5 * MIB


@pytest.fixture
def no_limit_left():
    yield
    set_limit(None)


@pytest.mark.parametrize(
    ("given", "expected"), [(10**10, 10**10), ("9.5 GiB", int(9.5 * 2**30)), ("64 GB", 64 * 10**9), (None, None)]
)
@pytest.mark.usefixtures("no_limit_left")
def test_limits_are_sizes(given, expected):
    set_limit(given)
    assert get_limit() == expected


@pytest.mark.usefixtures("no_limit_left")
def test_an_automatic_limit_is_below_what_there_is():
    set_limit("auto")
    assert 0.5 * available_bytes() < get_limit() < available_bytes()


@pytest.mark.parametrize(
    ("given", "error"), [("much", ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_what_is_no_size_is_refused(given, error):
    with pytest.raises(error):
        set_limit(given)
    assert get_limit() is None


def test_a_device_has_a_limit_of_its_own():
    set_limit("1 MiB", device="sim:5")
    with pytest.raises(MemoryBudgetError, match="sim:5"):
        stowgrad.ones(1_000_000, device="sim:5")
    assert get_limit("cpu") is None
    set_limit(None, device="sim:5")


@pytest.mark.parametrize("size", [100, 100_000])
@pytest.mark.usefixtures("no_limit_left")
def test_an_op_that_does_not_fit_changes_nothing(size):  # law 8
    gc.collect()
    x = stowgrad.ones(size, requires_grad=True)
    stowgrad.memory.empty_cache()
    set_limit(stowgrad.memory.pool("cpu").held_bytes() + 64)
    before = (memory_allocated(), x._version, x.tolist())
    with pytest.raises(MemoryBudgetError):
        x.exp()
    assert (memory_allocated(), x._version, x.tolist()) == before


@pytest.mark.usefixtures("no_limit_left")
def test_a_backward_that_does_not_fit_can_be_run_again():  # law 8
    x = stowgrad.ones(100_000, requires_grad=True)
    y = x.exp().sum()
    set_limit(stowgrad.memory.pool("cpu").held_bytes() + 64)
    with pytest.raises(MemoryBudgetError):
        y.backward()
    set_limit(None)
    y.backward()
    assert np.allclose(x.grad.numpy(), np.e)
