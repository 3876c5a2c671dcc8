from __future__ import annotations

import contextlib
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from stowgrad import memory
from stowgrad.kernels import executor, get_num_threads, parallel_for, set_num_threads


class Watched(np.ndarray):  # type: ignore[type-arg]
    """An array that can be weakly referred to whatever NumPy does."""


def blas_threads() -> list[int]:
    return [library.get_num_threads() for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def test_every_index_is_called_once() -> None:
    set_num_threads(3)
    calls: list[int] = []
    parallel_for(calls.append, 1000)
    assert sorted(calls) == list(range(1000))


def test_nothing_is_called_for_a_count_of_0() -> None:
    parallel_for(lambda index: pytest.fail("called"), 0)


def test_tiles_run_side_by_side() -> None:
    set_num_threads(2)
    both = threading.Barrier(2, timeout=20)
    parallel_for(lambda index: both.wait(), 2)  # type: ignore[arg-type, return-value]


def test_slices_cover_the_range() -> None:
    set_num_threads(2)
    seen = np.zeros(1001, int)

    def tile(where: slice) -> None:
        seen[where] += 1

    executor.parallel_slices(tile, 1001, 10)
    assert (seen == 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_reaches_the_caller_and_stops_the_rest(threads: int) -> None:
    set_num_threads(threads)
    calls: list[int] = []

    def tile(index: int) -> None:
        calls.append(index)
        if index == 3:
            raise KeyError("three")
        time.sleep(0.001)

    with pytest.raises(KeyError, match="three"):
        parallel_for(tile, 500)
    assert len(calls) < 500
    parallel_for(calls.append, 4)  # the workers are still there


def test_the_error_of_a_worker_is_raised_too() -> None:
    set_num_threads(2)
    both = threading.Barrier(2, timeout=20)

    def tile(index: int) -> None:
        both.wait()
        if threading.current_thread() is not threading.main_thread():
            raise ArithmeticError("in a worker")

    with pytest.raises(ArithmeticError, match="in a worker"):
        parallel_for(tile, 2)


def test_an_error_leaves_no_cycle_behind() -> None:
    set_num_threads(2)

    def run() -> weakref.ref[Any]:
        held = np.empty(10).view(Watched)

        def tile(index: int) -> None:
            raise ValueError(len(held))

        with contextlib.suppress(ValueError):
            parallel_for(tile, 50)
        return weakref.ref(held)

    gc.disable()
    try:
        assert run()() is None
    finally:
        gc.enable()


def test_what_a_tile_held_is_free_when_the_caller_goes_on() -> None:
    set_num_threads(2)
    for _ in range(50):
        held = np.empty(10).view(Watched)
        gone = weakref.ref(held)

        def make(array: Any) -> Callable[[int], None]:
            return lambda index: array.sum()

        parallel_for(make(held), 8)
        del held
        assert gone() is None


def test_what_the_callers_context_held_is_free_when_the_caller_goes_on() -> None:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    set_num_threads(3)
    for _ in range(300):  # a worker that comes late to a job must not hold it either
        held = np.empty(10)
        token = variable.set(held)
        parallel_for(lambda index: None, 2)
        variable.reset(token)
        del token
        reference = weakref.ref(held)
        del held
        assert reference() is None


def test_nested_calls_run_inline() -> None:
    set_num_threads(2)
    threads: dict[int, set[int]] = {}

    def outer(index: int) -> None:
        seen: set[int] = set()
        parallel_for(lambda _: seen.add(threading.get_ident()), 20)
        threads[index] = seen

    parallel_for(outer, 6)
    assert all(len(seen) == 1 for seen in threads.values())


def test_callers_on_several_threads() -> None:
    set_num_threads(2)
    totals = np.zeros((4, 300))

    def caller(number: int) -> None:
        for _ in range(20):

            def tile(index: int) -> None:
                totals[number, index] += 1

            parallel_for(tile, 300)

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert (totals == 20).all()
    assert blas_threads() == [2] * len(blas_threads())


def test_blas_has_one_thread_inside_and_what_was_set_outside() -> None:
    set_num_threads(2)
    inside: list[list[int]] = []
    parallel_for(lambda index: inside.append(blas_threads()), 4)
    assert all(count == 1 for counts in inside for count in counts)
    assert all(count == 2 for count in blas_threads())


def test_blas_is_restored_after_an_error() -> None:
    set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        parallel_for(lambda index: 1 // 0, 4)  # type: ignore[arg-type, return-value]
    assert all(count == 2 for count in blas_threads())


def test_set_num_threads_refuses_what_is_no_count() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        set_num_threads(0)
    with pytest.raises(TypeError, match="whole number, got float"):
        set_num_threads(2.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bool"):
        set_num_threads(True)


def test_scratch_is_leased_before_tiles_run_and_freed_after() -> None:
    set_num_threads(2)
    pool = memory.pool()
    before = pool.used_bytes()
    during: list[int] = []

    def tile(index: int, floats: Any, flags: Any) -> None:
        during.append(pool.bytes_by_category()["temporary"])
        assert floats.shape == (100, 10)
        assert flags.dtype == np.bool_
        floats.fill(index)
        flags.fill(True)
        assert (floats == index).all()

    parallel_for(tile, 30, [((100, 10), np.dtype(np.float64)), ((7,), np.dtype(np.bool_))])
    assert set(during) == {2 * (8000 + 64)}
    assert pool.used_bytes() == before


def test_scratch_that_does_not_fit_fails_before_any_tile() -> None:
    set_num_threads(2)
    memory.set_limit(memory.memory_reserved() + (64 << 10))
    try:
        with pytest.raises(memory.MemoryBudgetError):
            parallel_for(lambda *_: pytest.fail("called"), 4, [((1 << 27,), np.dtype(np.float64))])
    finally:
        memory.set_limit(None)


def test_the_callers_floating_point_settings_hold_in_workers() -> None:
    set_num_threads(2)
    both = threading.Barrier(2, timeout=20)

    def tile(index: int) -> None:
        both.wait()
        np.log(np.zeros(3))

    with np.errstate(divide="ignore"):
        parallel_for(tile, 2)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        parallel_for(tile, 2)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_makes_its_own_workers() -> None:
    set_num_threads(2)
    parallel_for(lambda index: None, 10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            both = threading.Barrier(2, timeout=20)
            parallel_for(lambda index: both.wait(), 2)  # type: ignore[arg-type, return-value]
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    parallel_for(lambda index: None, 10)


def _in_fresh_process(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_the_environment_sets_the_number_of_threads() -> None:
    program = "from stowgrad.kernels import get_num_threads; print(get_num_threads())"
    assert _in_fresh_process(program, STOWGRAD_NUM_THREADS="3") == "3"
    assert "STOWGRAD_NUM_THREADS must be a whole number" in _in_fresh_process(program, STOWGRAD_NUM_THREADS="many")


def test_importing_starts_no_thread() -> None:
    program = "import threading, stowgrad.kernels.numpy_; print(threading.active_count())"
    assert _in_fresh_process(program) == "1"


def test_the_default_is_within_the_affinity() -> None:
    assert get_num_threads() >= 1
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from stowgrad.kernels import get_num_threads; print(get_num_threads())"
    )
    assert _in_fresh_process(program, STOWGRAD_NUM_THREADS="") == "1"
