"""Threads, forks, and what a process sees at its start."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import CATEGORIES, Device, MemoryPool, memory_allocated
from stowgrad.memory.backing import HostBacking, SimBacking

ROOT = Path(__file__).resolve().parents[2]
BYTE = np.dtype(np.uint8)


def python(code, **environment):
    """What a fresh process that runs ``code`` prints; it may fail."""
    variables = {key: value for key, value in os.environ.items() if key != "STOWGRAD_MEMORY_LIMIT"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**variables, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("text", "expected"), [("1 GiB", 1 << 30), ("123456789", 123456789), ("", None)])
def test_the_environment_sets_the_limit(text, expected):
    run = python("import stowgrad; print(stowgrad.memory.get_limit())", STOWGRAD_MEMORY_LIMIT=text)
    assert run.stdout.strip() == str(expected)


def test_the_environment_may_say_auto():
    run = python("import stowgrad; print(stowgrad.memory.get_limit() > 0)", STOWGRAD_MEMORY_LIMIT="auto")
    assert run.stdout.strip() == "True"


def test_a_senseless_environment_is_named():
    run = python("import stowgrad; stowgrad.ones(3)", STOWGRAD_MEMORY_LIMIT="much")
    assert "environment variable STOWGRAD_MEMORY_LIMIT" in run.stderr.splitlines()[-1]


def test_the_environment_s_limit_is_the_cpu_s_alone():
    code = "import stowgrad; print(stowgrad.memory.get_limit('sim:0'))"
    assert python(code, STOWGRAD_MEMORY_LIMIT="1 GiB").stdout.strip() == "None"


def test_the_limit_holds_in_an_op():
    code = "import stowgrad\ntry: stowgrad.ones(10**7)\nexcept MemoryError as e: print(type(e).__name__)"
    assert python(code, STOWGRAD_MEMORY_LIMIT="10 MiB").stdout.strip() == "MemoryBudgetError"


def test_importing_starts_nothing():  # law 9
    code = (
        "import os, sys, threading\n"
        "before = set(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else None\n"
        "import stowgrad\n"
        "assert before is None or set(os.listdir('/proc/self/fd')) == before\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
        "assert not {'cupy', 'torch'} & set(sys.modules)\n"
    )
    run = python(code)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


# -- fork --------------------------------------------------------------------------------------------------------------


def in_child(work):
    """Run ``work`` in a forked child; whether it returned true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # worker threads may be running
        child = os.fork()
    if child == 0:
        try:
            good = work()
        except BaseException:  # noqa: BLE001  # nothing may get out of the child
            good = False
        os._exit(0 if good else 1)
    return os.waitpid(child, 0)[1] == 0


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def train():
    x = stowgrad.tensor(np.linspace(-1, 1, 200_000), requires_grad=True)
    (x.tanh() * x).sum().backward()
    return float(x.grad.sum().detach())


@needs_fork
def test_a_child_computes_what_its_parent_does():  # case I3
    expected = train()
    assert in_child(lambda: train() == expected)


@needs_fork
def test_a_child_may_run_its_parent_s_graph():  # case I3
    x = stowgrad.ones(200_000, requires_grad=True)
    y = x.exp().sum()

    def work():
        y.backward()
        return bool(np.allclose(x.grad.numpy(), np.e))

    assert in_child(work)


@needs_fork
def test_a_child_s_frees_are_not_its_parent_s():
    x = stowgrad.ones(200_000)
    before = memory_allocated()

    def work():
        nonlocal x
        x = None
        return memory_allocated() == before - 800_000

    assert in_child(work)
    assert memory_allocated() == before


@needs_fork
def test_a_fork_while_a_thread_leases_leaves_the_child_a_free_lock():
    pool = stowgrad.memory.pool("cpu")
    held, done = threading.Event(), threading.Event()

    def hold():
        with pool._lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    good = in_child(lambda: pool.lease((5000,), BYTE)[0].size == 5000)
    done.set()
    thread.join()
    assert good


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def free_blocks(pool):
    return sum(found.held * len(found.blocks) for found in pool._classes.by_size.values())


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("limit", [None, 1 << 30])
def test_counters_are_exact_after_threads_lease_and_free(limit):
    pool = MemoryPool(Device("cpu"), HostBacking(), limit)
    errors = []

    def work(seed):
        rng = np.random.default_rng(seed)
        kept = []
        try:
            for _ in range(600):
                size = int(rng.integers(0, 5000))
                category = CATEGORIES[int(rng.integers(0, len(CATEGORIES)))]
                if rng.random() < 0.5:
                    array, storage = pool.lease((size,), BYTE, category)
                else:
                    array = np.empty(size, np.uint8)
                    storage = pool.adopt(array, category)
                array[...] = seed
                pool.relabel(storage, "parameter")
                kept.append(array)
                if len(kept) > 8:
                    gone = kept.pop(int(rng.integers(0, len(kept))))
                    assert (gone == seed).all()
                    del gone
                del array, storage
            assert all((array == seed).all() for array in kept)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert pool.used_bytes() == pool.held_bytes() == 0
    assert set(pool.bytes_by_category().values()) == {0}
    assert pool.live() == []
    assert pool.free_bytes() == free_blocks(pool)


@pytest.mark.usefixtures("many_switches")
def test_a_limit_holds_among_threads():
    limit = 256 * 1024
    pool = MemoryPool(Device("cpu"), HostBacking(), limit)
    highest = []

    def work():
        for _ in range(300):
            try:
                array, _ = pool.lease((60_000,), BYTE)
            except stowgrad.memory.MemoryBudgetError:
                continue
            highest.append(pool.held_bytes())
            del array

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert highest
    assert max(highest) <= limit
    assert pool.held_bytes() == 0


@pytest.mark.usefixtures("many_switches")
def test_no_total_passes_the_limit_while_blocks_come_and_go():
    limit = 256 * 1024
    pool = MemoryPool(Device("cpu"), HostBacking(), limit)
    highest, running = [0], threading.Event()

    def work(seed):
        rng = np.random.default_rng(seed)
        kept = []
        for _ in range(400):
            try:
                if rng.random() < 0.7:
                    kept.append(pool.lease((int(rng.integers(1, 30_000)),), BYTE)[0])
                else:
                    kept.append(np.empty(1000, np.uint8))
                    pool.adopt(kept[-1], "activation")
            except stowgrad.memory.MemoryBudgetError:
                kept.clear()
            if len(kept) > 3:
                del kept[int(rng.integers(0, len(kept)))]

    def watch():
        while not running.wait(0):
            # No call between these three: they belong to one moment.
            total = pool._used + pool._rounding + pool._cache.nbytes
            highest[0] = max(highest[0], total)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    watcher = threading.Thread(target=watch)
    for thread in (*threads, watcher):
        thread.start()
    for thread in threads:
        thread.join()
    running.set()
    watcher.join()
    assert 0.9 * limit < highest[0] <= limit
    assert (pool.held_bytes(), pool.free_bytes()) == (0, free_blocks(pool))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("backing", [HostBacking, SimBacking])
@pytest.mark.parametrize("limit", [None, 1 << 20])
def test_ctrl_c_anywhere_leaves_the_counters_exact(limit, backing, monkeypatch):
    # The interpreter swallows what is raised in a callback that the cyclic collector calls.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    # In a process that has run all tests a full collection takes a second, and this asks for hundreds.
    monkeypatch.setattr(gc, "collect", lambda: 0)
    pool = MemoryPool(Device("cpu"), backing(), limit)
    rng = random.Random(7)
    kept: list[np.ndarray] = []

    def interrupt(number, frame):
        raise KeyboardInterrupt

    def lease_and_free():
        for _ in range(1000):
            if len(kept) > 20:
                del kept[rng.randrange(len(kept))]
            with contextlib.suppress(stowgrad.memory.MemoryBudgetError):
                kept.append(pool.lease((rng.choice((100, 5000, 6000, 300_000)),), BYTE)[0])
                with pool.charge(500):
                    pass

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(100):
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 1e-3))
                lease_and_free()
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert pool.used_bytes() == sum(array.nbytes for array in kept)
            assert pool.held_bytes() == sum(storage.nbytes + storage.rounding for storage in pool.live())
            assert pool.free_bytes() == free_blocks(pool)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_an_array_may_be_freed_in_another_thread():
    pool = MemoryPool(Device("cpu"), HostBacking())
    arrays = [pool.lease((5000,), BYTE)[0] for _ in range(50)]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert (pool.used_bytes(), pool.free_bytes()) == (0, 50 * 5120)
