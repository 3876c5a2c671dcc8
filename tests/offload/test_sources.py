"""Values that are written to the disk from where they lie, and come back without a copy."""

from __future__ import annotations

import errno
import gc
import os
import threading

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import MemoryBudgetError, memory_allocated, pool, storage_of
from stowgrad.offload import arena, file
from stowgrad.saved_tensors.mutation import before_write

from ..saved_tensors.support import assert_same, leased, save
from .test_background import Gate, on_disk

ROWS = 1 << 16  # float64: 512 KiB, whole pages of a block of its own


def extent_of(handle):
    return handle._piece.payload.buffers[0]


@pytest.fixture
def gate(monkeypatch):
    """No write ends before it is opened."""
    gate = Gate(os.pwrite)
    monkeypatch.setattr(file.os, "pwrite", gate)
    yield gate
    gate.open.set()


# -- written from where it lies ----------------------------------------------------------------------------------------


def test_a_value_of_whole_pages_is_not_copied(tmp_path, gate):
    policy = on_disk(tmp_path)
    array = leased(np.arange(float(ROWS)))
    gc.collect()
    before = memory_allocated("cpu")
    handle = save(policy, array)
    assert memory_allocated("cpu") - before == 0
    assert np.shares_memory(extent_of(handle).staging, array)
    storage = storage_of(array)
    del array
    assert storage() is not None  # until it is written
    gate.open.set()
    policy.synchronize()
    assert storage() is None
    assert_same(handle.load(), np.arange(float(ROWS)))


@pytest.mark.parametrize("category", ["gradient", "parameter", "input"])
def test_what_may_be_written_unasked_is_copied(tmp_path, gate, category):
    array = leased(np.arange(float(ROWS)), category=category)
    handle = save(on_disk(tmp_path, parameters=True), array)
    assert not np.shares_memory(extent_of(handle).staging, array)


def test_a_users_array_is_copied(tmp_path, gate):
    mine = np.zeros(ROWS + 512)
    aligned = mine[-mine.ctypes.data % 4096 // 8 :][:ROWS]
    tensor = stowgrad.from_numpy(aligned)
    handle = save(on_disk(tmp_path), tensor._array)
    aligned[...] = 1
    assert not handle.load().any()


def test_a_part_of_a_large_storage_is_copied(tmp_path, gate):
    array = leased(np.arange(4.0 * ROWS))
    handle = save(on_disk(tmp_path), array[:ROWS])
    assert not np.shares_memory(extent_of(handle).staging, array)


def test_two_policies_at_once_write_one_value(tmp_path, gate):
    array = leased(np.arange(float(ROWS)))
    expected = array.copy()
    policies = [on_disk(tmp_path) for _ in range(2)]
    handles = [save(policy, array) for policy in policies]
    assert [np.shares_memory(extent_of(handle).staging, array) for handle in handles] == [True, False]
    gate.open.set()
    before_write(storage_of(array))
    storage_of(array).version += 1
    array[...] = -1
    for handle in handles:
        assert_same(handle.load(), expected)


def test_memory_from_which_is_written_is_bounded(tmp_path, gate):
    policy = on_disk(tmp_path, staging="1 MiB")
    handles = [save(policy, leased(np.full(ROWS, float(number)))) for number in range(2)]
    third = threading.Thread(target=lambda: handles.append(save(policy, leased(np.full(ROWS, 2.0)))))
    third.start()
    third.join(0.05)
    assert len(handles) == 2  # it waits
    gate.open.set()
    third.join()
    assert [handle.load()[0] for handle in handles] == [0, 1, 2]


def test_a_value_beyond_all_staging_memory_is_written_from_there_too(tmp_path):
    policy = on_disk(tmp_path, staging=0)
    array = leased(np.arange(8.0 * ROWS))
    with pool("cpu").peak_scope() as scope:
        handle = save(policy, array)
    assert scope.peak_bytes - scope.begin_bytes < 64 << 10
    assert_same(handle.load(), array)


# -- what the program writes there -------------------------------------------------------------------------------------


def test_a_write_into_the_value_waits_until_it_is_on_the_disk(tmp_path, gate):
    x = stowgrad.full((ROWS,), 2.0, requires_grad=True)
    with on_disk(tmp_path):
        h = x * 1
        y = (h * h).sum()
    writing = threading.Thread(target=lambda: stowgrad.no_grad()(h.fill_)(100))
    writing.start()
    writing.join(0.05)
    assert writing.is_alive()
    gate.open.set()
    writing.join()
    assert h[0].item() == 100
    y.backward()
    assert (x.grad.numpy() == 4).all()


def test_a_value_that_cannot_be_written_is_copied_before_the_program_writes_there(tmp_path, monkeypatch):
    def full(fd, data, position):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(file.os, "pwrite", full)
    policy = on_disk(tmp_path)
    array = leased(np.arange(float(ROWS)))
    expected = array.copy()
    handle = save(policy, array)
    policy.arena._writer.drain()
    with monkeypatch.context() as patch, pytest.raises(MemoryBudgetError):
        patch.setattr(arena, "lease_pages", lambda *_: pool("cpu").lease((1 << 60,), np.dtype(np.uint8)))
        of = pool("cpu")
        try:
            of.set_limit(of.held_bytes() + (1 << 20))
            before_write(storage_of(array))
        finally:
            of.set_limit(None)
    assert_same(handle.load(), expected)
    before_write(storage_of(array))
    storage_of(array).version += 1
    array[...] = -1
    assert_same(handle.load(), expected)
    with pytest.raises(OSError, match="an earlier write failed"):
        policy.synchronize()


@pytest.mark.parametrize("moment", ["under way", "written", "read ahead"])
def test_a_write_that_nobody_told_of_is_an_error(tmp_path, gate, moment):
    policy = on_disk(tmp_path)
    array = leased(np.arange(float(ROWS)))
    handle = save(policy, array)
    if moment == "read ahead":
        last = save(policy, leased(np.arange(float(ROWS))))
        last.load()
    array[...] = -1
    storage_of(array).version += 1
    if moment != "under way":
        gate.open.set()
        policy.synchronize()
    with pytest.raises(RuntimeError, match="modified by an inplace operation while it was being written to the disk"):
        handle.load()


@pytest.mark.parametrize("asked", [True, False])
def test_a_write_after_the_value_was_written_changes_nothing(tmp_path, gate, asked):
    policy = on_disk(tmp_path)
    array = leased(np.arange(float(ROWS)))
    handle = save(policy, array)
    save(policy, leased(np.zeros(ROWS))).load()  # the one before it is kept
    gate.open.set()
    policy.synchronize()
    ahead = extent_of(handle).ahead
    assert np.shares_memory(ahead.pages, array)
    if asked:
        before_write(storage_of(array))
    storage_of(array).version += 1
    array[...] = -1
    assert_same(handle.load(), np.arange(float(ROWS)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_into_the_value_as_it_likes(tmp_path, gate):
    policy = on_disk(tmp_path)
    array = leased(np.arange(float(ROWS)))
    handle = save(policy, array)
    child = os.fork()
    if not child:
        good = False
        try:
            before_write(storage_of(array))
            storage_of(array).version += 1
            array[...] = -1
            good = bool((handle.load() == np.arange(float(ROWS))).all())
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.open.set()
    policy.synchronize()
    assert_same(handle.load(), array)


# -- and back without a copy -------------------------------------------------------------------------------------------


def test_a_value_under_way_comes_back_as_itself(tmp_path, gate):
    policy = on_disk(tmp_path)
    array = leased(np.arange(float(ROWS)).reshape(256, 256))
    handle = save(policy, array)
    assert np.shares_memory(handle.load(), array)
    gate.open.set()
    policy.synchronize()
    assert policy.arena.read_bytes == 0
    before_write(storage_of(array))
    storage_of(array).version += 1
    array[...] = -1
    assert_same(handle.load(), np.arange(float(ROWS)).reshape(256, 256))


@pytest.mark.parametrize("shape", [(ROWS,), (250, 260)])  # of whole pages, and with a rest
def test_pages_that_were_read_ahead_become_the_value(tmp_path, shape):
    policy = on_disk(tmp_path)
    values = [np.random.default_rng(number).random(shape) for number in range(2)]
    handles = [save(policy, leased(value)) for value in values]
    policy.synchronize()
    handles[1].load()
    policy.arena._reader.drain()
    pages = extent_of(handles[0]).ahead.pages
    with pool("cpu").peak_scope() as scope:
        loaded = handles[0].load()
    assert scope.peak_bytes == scope.begin_bytes
    assert np.shares_memory(loaded, pages)
    assert_same(loaded, values[0])
    loaded[...] = 0  # it is the caller's
    assert_same(handles[0].load(), loaded)  # while it lives
    del loaded, pages
    assert_same(handles[0].load(), values[0])


def test_small_values_do_not_keep_a_page_each(tmp_path):
    policy = on_disk(tmp_path)
    handles = [save(policy, leased(np.full(100, float(number)))) for number in range(2)]
    policy.synchronize()
    handles[1].load()
    policy.arena._reader.drain()
    loaded = handles[0].load()
    assert storage_of(loaded).nbytes == 800
    assert not loaded.any()


def test_damage_in_pages_that_were_read_ahead_is_found(tmp_path):
    policy = on_disk(tmp_path)
    handles = [save(policy, leased(np.full(ROWS, float(number)))) for number in range(2)]
    policy.synchronize()
    with open(f"/proc/self/fd/{policy.arena.file.fileno()}", "r+b", buffering=0) as opened:
        opened.seek(extent_of(handles[0]).start + 77)
        opened.write(b"!")
    handles[1].load()
    with pytest.raises(OSError, match="damaged data"):
        handles[0].load()


def test_values_under_way_as_backward_begins_are_not_read(tmp_path, gate):
    policy = on_disk(tmp_path)
    kinds = [(ROWS,), (ROWS - 100,), (ROWS,)]
    arrays = [leased(np.full(shape, float(number))) for number, shape in enumerate(kinds)]
    handles = [save(policy, array) for array in arrays]
    del arrays
    handles[2].load()
    gate.open.set()
    policy.synchronize()
    assert [handle.load()[0] for handle in reversed(handles)] == [2, 1, 0]
    policy.arena._reader.drain()
    assert policy.arena.read_bytes == extent_of(handles[2]).nbytes  # the first one had been given back


def test_a_value_that_a_later_op_saves_as_well_is_ready_for_both(tmp_path):
    policy = on_disk(tmp_path, staging="4 MiB")
    arrays = [leased(np.full(ROWS, float(number))) for number in range(20)]
    handles = [save(policy, array) for array in arrays]
    again = save(policy, arrays[3], "later")  # the input of a skip connection
    last = save(policy, leased(np.full(ROWS, 20.0)))
    policy.synchronize()
    del arrays
    last.load()
    assert extent_of(handles[3]).ahead is not None
    assert again.load()[0] == 3
    for number in reversed(range(20)):
        if number < 19:
            policy.arena._reader.drain()
            assert extent_of(handles[number]).ahead is not None, number
        assert handles[number].load()[0] == number
    assert policy.arena.read_bytes == 22 * 8 * ROWS  # the value that was saved twice was read twice
