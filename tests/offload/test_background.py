"""What happens behind the program's back: writing, reading ahead, and the failures of both."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import MemoryBudgetError, pool
from stowgrad.offload import arena, file, save_on_disk

from ..saved_tensors.support import assert_same, leased, save


def on_disk(directory=None, **options):
    return save_on_disk(directory, **{"min_bytes": 0, "in_memory": True, "staging": "64 MiB", **options})


class Gate:
    """Holds up a function until it is opened."""

    def __init__(self, real):
        self.real, self.open, self.calls = real, threading.Event(), 0

    def __call__(self, *args):
        self.calls += 1
        assert self.open.wait(30)
        return self.real(*args)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_value_that_is_being_written_is_taken_from_memory(tmp_path, monkeypatch):
    gate = Gate(os.pwrite)
    with monkeypatch.context() as patch:
        patch.setattr(file.os, "pwrite", gate)
        policy = on_disk(tmp_path)
        array = leased(np.arange(10000.0))
        handle = save(policy, array)
        expected = array.copy()
        array[...] = -1  # what is saved is the value at that time
        assert_same(handle.load(), expected)
        gate.open.set()
        policy.synchronize()
    assert_same(handle.load(), expected)


def test_a_value_that_died_is_not_written(tmp_path, monkeypatch):
    gate = Gate(os.pwrite)
    monkeypatch.setattr(file.os, "pwrite", gate)
    policy = on_disk(tmp_path)
    first = save(policy, leased(np.zeros(10000)))
    for _ in range(5):
        save(policy, leased(np.zeros(10000)))
    gate.open.set()
    policy.synchronize()
    assert gate.calls == 1
    del first
    assert policy.arena.used_bytes() == 0


def test_staging_memory_is_counted_and_bounded(tmp_path, monkeypatch):
    gate = Gate(os.pwrite)
    monkeypatch.setattr(file.os, "pwrite", gate)
    policy = on_disk(tmp_path, staging="1 MiB")
    before = pool("cpu").bytes_by_category()["saved_packed"]
    arrays = [leased(np.zeros((1 << 15) - 1)) for _ in range(5)]  # 256 KiB of pages each, with a rest
    handles = [save(policy, array) for array in arrays[:4]]
    assert pool("cpu").bytes_by_category()["saved_packed"] - before == 1 << 20
    fifth = threading.Thread(target=lambda: handles.append(save(policy, arrays[4])))
    fifth.start()
    time.sleep(0.05)
    assert len(handles) == 4  # it waits
    gate.open.set()
    fifth.join()
    policy.synchronize()
    assert pool("cpu").bytes_by_category()["saved_packed"] == before


def test_staging_memory_is_bounded_for_all_threads_together(tmp_path):
    policy = on_disk(tmp_path, staging="1 MiB")
    arrays = [[leased(np.full((1 << 15) - 1, float(8 * n + k))) for k in range(8)] for n in range(4)]  # 256 KiB each
    handles = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda n=n: handles[n].extend(save(policy, array) for array in arrays[n]))
        for n in range(4)
    ]
    with pool("cpu").peak_scope() as scope:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # beside it each thread may have a piece of a value that it writes at once
    assert scope.peak_bytes - scope.begin_bytes <= (1 << 20) + 4 * ((1 << 18) + 2 * 4096) + 8 * 4096
    policy.synchronize()
    for n in range(4):
        assert [handle.load()[0] for handle in handles[n]] == [float(8 * n + k) for k in range(8)]


def test_memory_that_another_thread_took_first_is_done_without(tmp_path, monkeypatch):
    policy = on_disk(tmp_path)
    arrays = [leased(np.arange(number, number + 5000.0)) for number in range(3)]
    lease = arena.lease_pages

    def taken(nbytes, category):
        if sys._getframe(1).f_code.co_name in ("_staging_for", "_read_ahead"):
            raise MemoryBudgetError("cpu", nbytes, 0, {}, [], nbytes)
        return lease(nbytes, category)

    monkeypatch.setattr(arena, "lease_pages", taken)
    handles = [save(policy, array) for array in arrays]
    assert policy.arena.written_bytes == 3 * 40960  # at once, a piece at a time
    for handle, array in zip(handles[::-1], arrays[::-1]):
        assert_same(handle.load(), array)


def test_without_memory_for_staging_a_value_is_written_at_once(tmp_path):
    policy = on_disk(tmp_path)
    array = leased(np.arange((1 << 18) - 1, dtype=np.float64))
    of = pool("cpu")
    of.free_all_blocks()
    try:
        of.set_limit(of.held_bytes() + (1 << 20) + (1 << 18))
        handle = save(policy, array)
        assert handle is not None
        assert policy.arena.written_bytes == 1 << 21
    finally:
        of.set_limit(None)
    assert_same(handle.load(), array)


@pytest.mark.parametrize(
    ("kind", "args"), [(OSError, (errno.EIO, "Input/output error")), (SystemExit, ()), (MemoryError, ("none",))]
)
def test_a_write_that_fails_later_is_raised_by_the_next_save(tmp_path, monkeypatch, kind, args):
    policy = on_disk(tmp_path)
    array = leased(np.arange(10000.0))

    def fail(fd, data, position):
        raise kind(*args)  # one of its own: its traceback holds what was to be written

    with monkeypatch.context() as patch:
        patch.setattr(file.os, "pwrite", fail)
        handle = save(policy, array)
        policy.arena._writer.drain()
    expected = array.copy()
    del array
    with pytest.raises(OSError, match="an earlier write failed; its value is still in memory") as caught:
        save(policy, leased(np.zeros(5)))
    assert caught.value.errno == errno.EIO
    assert_same(handle.load(), expected)
    assert_same(save(policy, leased(expected)).load(), expected)  # once is enough


def test_a_failed_write_leaves_the_graph_as_it_was(tmp_path, monkeypatch):
    policy = on_disk(tmp_path)
    x = stowgrad.ones(1000, requires_grad=True)

    def fail(fd, data, position):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with policy, monkeypatch.context() as patch:
        patch.setattr(file.os, "pwrite", fail)
        y = x.exp()
        policy.arena._writer.drain()
        h = x * 2
        version = h._version
        with pytest.raises(OSError, match="Input/output error"):
            h.exp_()
    assert h._version == version
    assert (h == 2).all()
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), np.e)


def test_a_failure_keeps_nothing_alive(tmp_path, monkeypatch):
    def fail(fd, data, position):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(file.os, "pwrite", fail)
    policy = on_disk(tmp_path)
    handle = save(policy, leased(np.zeros(1000)))
    policy.arena._writer.drain()
    found = weakref.ref(policy.arena)
    gc.disable()
    try:
        del handle, policy
        assert found() is None
    finally:
        gc.enable()


def test_synchronize_raises_what_failed(tmp_path, monkeypatch):
    policy = on_disk(tmp_path)

    def fail(fd, data, position):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(file.os, "pwrite", fail)
        handle = save(policy, leased(np.ones(100)))
        with pytest.raises(OSError, match="still in memory"):
            policy.synchronize()
    policy.synchronize()
    assert handle.load()[0] == 1


@pytest.mark.parametrize("staging", [0, "64 MiB"])
def test_a_disk_that_is_full_at_any_position(tmp_path, monkeypatch, staging):
    arrays = [leased(np.full(20000, float(number))) for number in range(6)]  # 40 pages each

    def has_room_for(nbytes):
        def reserve(fd, offset, size):
            if offset + size > nbytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return reserve

    for room in range(0, 7 * 40 * 4096, 20 * 4096):
        with monkeypatch.context() as patch:
            patch.setattr(file.os, "posix_fallocate", has_room_for(room))
            policy = on_disk(tmp_path, staging=staging)
            handles = []
            for array in arrays:
                if (len(handles) + 1) * 40 * 4096 <= room:
                    handles.append(save(policy, array))
                    continue
                with pytest.raises(OSError, match="No space left") as caught:
                    save(policy, array)
                assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))
            assert len(handles) == min(room // (40 * 4096), 6)
            assert policy.arena.used_bytes() == len(handles) * 40 * 4096
            for number, handle in enumerate(handles):
                assert (handle.load() == number).all()


def test_free_space_is_looked_at_first(tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(file.shutil, "disk_usage", lambda path: free)
    policy = on_disk(tmp_path)
    with pytest.raises(OSError, match=r"could not write 2,097,152 bytes: No space left on device \(1.0 MiB free\)"):
        save(policy, leased(np.zeros(1 << 18)))
    assert save(policy, leased(np.zeros(1 << 15))) is not None


def test_file_systems_that_cannot_reserve_or_go_direct(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(file.os, "posix_fallocate", refuse)
    real = os.pwrite

    def buffered_only(fd, data, position):
        import fcntl

        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(fd, data, position)

    monkeypatch.setattr(file.os, "pwrite", buffered_only)
    policy = on_disk(tmp_path)
    array = leased(np.random.default_rng(0).random(5000))
    handle = save(policy, array)
    policy.synchronize()
    assert_same(handle.load(), array)
    assert not policy.arena.file.direct
    assert any("around the page cache" in text for text in policy.report().without_effect)


def test_two_threads_find_at_once_that_transfers_cannot_go_direct(tmp_path, monkeypatch):
    policy = on_disk(tmp_path, staging=0)
    opened, real, failed = policy.arena.file, os.pwrite, []

    def refuse_once(fd, data, position):
        if not failed:
            failed.append(position)
            opened.direct = False  # the other thread was faster
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(fd, data, position)

    opened.direct = True
    monkeypatch.setattr(file.os, "pwrite", refuse_once)
    array = leased(np.arange(5000.0))
    assert_same(save(policy, array).load(), array)


def test_a_directory_in_memory_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("stowgrad.offload.disk.lies_in_memory", lambda directory: True)
    with pytest.raises(ValueError, match="are in memory"):
        save_on_disk(tmp_path)
    assert save_on_disk(tmp_path, in_memory=True).directory == str(tmp_path)


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="needs a tmpfs")
def test_accepting_memory_where_there_is_none_had_no_effect(monkeypatch, tmp_path):
    for memory in (False, True):
        monkeypatch.setattr("stowgrad.offload.disk.lies_in_memory", lambda directory, memory=memory: memory)
        policy = save_on_disk(tmp_path, min_bytes=0, in_memory=True)
        save(policy, leased(np.zeros(1000)))
        said = [text for text in policy.report().without_effect if "in_memory" in text]
        assert said == ([] if memory else [f"disk, in_memory=True: the files of {tmp_path} aren't in memory"])


def test_tmpfs_is_known_as_memory():
    assert file.lies_in_memory("/dev/shm")
    assert not file.lies_in_memory("/proc/self") or sys.platform != "linux"


# -- reading -----------------------------------------------------------------------------------------------------------


def test_values_are_read_ahead_in_the_order_of_backward(tmp_path):
    policy = on_disk(tmp_path, staging="1 MiB")
    arrays = [leased(np.full(20000, float(number))) for number in range(20)]
    handles = [save(policy, array) for array in arrays]
    policy.synchronize()
    handles[19].load()
    extents = [handle._piece.payload.buffers[0] for handle in handles]
    assert [extent.ahead is not None for extent in extents] == [False] * 13 + [True] * 6 + [False]
    before = policy.arena.read_bytes
    for number in reversed(range(19)):
        assert (handles[number].load() == number).all()
    policy.arena._reader.drain()
    assert policy.arena.read_bytes - before <= 20 * 163840  # each was read once


def test_what_the_pass_left_behind_makes_room(tmp_path):
    policy = on_disk(tmp_path, staging="1 MiB")
    handles = [save(policy, leased(np.full(20000, float(number)))) for number in range(20)]
    policy.synchronize()
    handles[19].load()
    handles[2].load()
    extents = [handle._piece.payload.buffers[0] for handle in handles]
    assert [number for number in range(20) if extents[number].ahead is not None] == [0, 1]


def test_the_values_of_a_node_are_read_once_though_in_the_order_of_saving(tmp_path):
    policy = on_disk(tmp_path, staging="1 MiB")
    handles = [save(policy, leased(np.full(10000, float(number)))) for number in range(40)]
    policy.synchronize()
    for node in reversed(range(10)):
        for number in range(4 * node, 4 * node + 4):
            assert (handles[number].load() == number).all()
    policy.arena._reader.drain()
    assert policy.arena.read_bytes == 40 * 81920


def test_memory_that_is_lent_comes_back_before_anything_is_refused(tmp_path, monkeypatch):
    policy = on_disk(tmp_path, staging="1 MiB")
    handles = [save(policy, leased(np.full(20000, float(number)))) for number in range(20)]
    policy.synchronize()
    handles[19].load()
    policy.arena._reader.drain()
    gate = Gate(policy.arena.file.write)
    monkeypatch.setattr(policy.arena.file, "write", gate)
    handles.append(save(policy, leased(np.full(20000, 20.0))))
    threading.Timer(0.1, gate.open.set).start()
    of = pool("cpu")
    try:
        of.set_limit(of.held_bytes())
        leased(np.zeros(130_000))  # the six values that were read ahead, and the one that is being written
        with pytest.raises(MemoryBudgetError):
            leased(np.zeros(300_000))
    finally:
        of.set_limit(None)
    assert [handle.load()[0] for handle in handles] == list(range(21))


def test_damage_that_is_read_ahead_is_raised_where_the_value_is_read(tmp_path):
    policy = on_disk(tmp_path)
    handles = [save(policy, leased(np.full(1000, float(number)))) for number in range(3)]
    policy.synchronize()
    extent = handles[1]._piece.payload.buffers[0]
    with open(f"/proc/self/fd/{policy.arena.file.fileno()}", "r+b", buffering=0) as opened:
        opened.seek(extent.start + 77)
        opened.write(b"!")
    assert handles[2].load()[0] == 2
    with pytest.raises(OSError, match="damaged data"):
        handles[1].load()
    assert handles[0].load()[0] == 0


def test_every_byte_counts_for_the_checksum(tmp_path):
    policy = on_disk(tmp_path, staging=0)
    array = leased(np.random.default_rng(0).integers(0, 256, 9000).astype(np.uint8))
    handle = save(policy, array)
    for position in range(0, 9000, 97):
        with open(f"/proc/self/fd/{policy.arena.file.fileno()}", "r+b", buffering=0) as opened:
            for data in (bytes([array[position] ^ 1]), bytes([array[position]])):
                opened.seek(position)
                opened.write(data)
                if data[0] != array[position]:
                    with pytest.raises(OSError, match="damaged data"):
                        handle.load()
    assert_same(handle.load(), array)


def test_an_interrupted_read_can_be_repeated(tmp_path, monkeypatch):
    policy = on_disk(tmp_path, staging=0)
    array = leased(np.arange(1000.0))
    handle = save(policy, array)

    def interrupt(fd, buffers, position):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(file.os, "preadv", interrupt)
        with pytest.raises(KeyboardInterrupt):
            handle.load()
    assert_same(handle.load(), array)


def test_no_thread_outlives_its_work(tmp_path, monkeypatch):  # case C8
    from stowgrad.offload import worker as module

    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.01)
    policy = on_disk(tmp_path)
    handles = [save(policy, leased(np.zeros(1000))) for _ in range(5)]
    policy.synchronize()
    for handle in reversed(handles):
        handle.load()
    del handles, handle, policy
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("stowgrad-disk"):
            thread.join(10)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stowgrad-disk")]


def test_a_value_is_not_read_ahead_before_it_is_in_memory_or_written(tmp_path, monkeypatch):
    policy = on_disk(tmp_path)
    first = save(policy, leased(np.zeros(10000)))
    policy.arena.synchronize()
    gather = arena.gather

    def working_meanwhile(arrays, into):
        """What another thread does while this value is being copied: it saves a third one, and reads it."""
        patch.undo()
        third = save(policy, leased(np.ones(10000)))
        assert third.load().all()
        policy.arena._reader.drain()
        gather(arrays, into)

    numbers = leased(np.arange(10000.0))
    with monkeypatch.context() as patch:
        patch.setattr(arena, "gather", working_meanwhile)
        handle = save(policy, numbers)
    policy.arena.synchronize()
    assert_same(handle.load(), numbers)
    assert not first.load().any()
