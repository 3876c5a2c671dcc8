from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from stowgrad.memory import pool
from stowgrad.offload import Offload, file, save_on_disk
from stowgrad.offload.arena import Arena
from stowgrad.saved_tensors import Cast, Compress

from ..saved_tensors.support import assert_same, leased, save, views

ROOT = Path(__file__).resolve().parents[2]


def on_disk(directory=None, **options):
    return save_on_disk(directory, **{"min_bytes": 0, "in_memory": True, "staging": "64 MiB", **options})


def arena_in(directory, limit=None, staging=0):
    return Arena(str(directory), limit, True, staging)


def arena_of(policy):
    return policy._links[-1].stage.arena


# -- values ------------------------------------------------------------------------------------------------------------


@given(views())
def test_any_view_comes_back(view):  # cases B8, I8
    handle = save(on_disk(checksum=True), view)
    if view.size:
        assert_same(handle.load(), view)


def test_a_value_takes_no_memory_while_it_is_on_disk(device, tmp_path):
    array = leased(np.arange(100000.0), device)
    policy = on_disk(tmp_path)
    before = pool(device).used_bytes()
    handle = save(policy, array)
    policy.synchronize()
    assert pool(device).used_bytes() == before
    assert (handle.policy, handle.resident_bytes, handle.offloaded_bytes) == ("disk", 0, 800000)
    assert dict(policy.statistics().where) == {"disk": 800000}
    for _ in range(3):  # retain_graph
        assert_same(handle.load(), array)


def test_writing_and_reading_take_no_copy_of_the_size_of_the_value():
    array = leased(np.zeros((2000, 2000)))
    for staging in (0, "1 MiB"):
        for view in (array, array.T, array[:, ::2]):
            policy = on_disk(staging=staging)
            with pool("cpu").peak_scope() as scope:
                handle = save(policy, view)
            assert scope.peak_bytes - scope.begin_bytes <= 3 << 20
            assert_same(handle.load(), view)
            del handle
        handle = save(policy, array)
        with pool("cpu").peak_scope() as scope:
            loaded = handle.load()
        assert scope.peak_bytes - scope.begin_bytes <= loaded.nbytes + (1 << 20)


def test_what_is_under_way_takes_as_much_memory_as_it_may():
    policy = on_disk(staging="1 MiB")
    arrays = [leased(np.full(50000, float(number))) for number in range(20)]
    with pool("cpu").peak_scope() as scope:
        handles = [save(policy, array) for array in arrays]
    assert scope.peak_bytes - scope.begin_bytes <= (1 << 20) + (1 << 14)
    del arrays
    policy.synchronize()
    with pool("cpu").peak_scope() as scope:
        for number in reversed(range(20)):
            assert (handles[number].load() == number).all()
    assert scope.peak_bytes - scope.begin_bytes <= (1 << 20) + 2 * 400000 + (1 << 14)


def test_a_small_view_writes_its_own_bytes():  # case C4
    big = leased(np.zeros((1000, 1000)))
    policy = on_disk()
    assert save(policy, big[0, :2]).offloaded_bytes == 16
    handle = save(policy, big[:, 1])
    assert handle.offloaded_bytes == 8000
    assert arena_of(policy).file_bytes() < 20000


def test_small_values_stay_in_memory():
    assert save(save_on_disk(), leased(np.zeros(1000))) is None
    assert save(save_on_disk(), leased(np.zeros(10000))) is not None


def test_views_of_one_storage_are_written_once():  # cases B1, B4
    policy = on_disk()
    h = leased(np.arange(10000.0).reshape(100, 100))
    handles = [save(policy, view) for view in (h, h.T, h[3:7])]
    assert arena_of(policy).used_bytes() == 20 * 4096
    assert_same(handles[1].load(), h.T)


def test_compressed_then_on_disk():
    array = np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32)
    array = leased(np.maximum(array, 1) - 1)
    policy = Compress("zstd") | Offload("disk", checksum=True)
    handle = save(policy, array.T)
    policy.synchronize()
    assert handle.policy == "zstd | disk"
    assert handle.resident_bytes == 0
    assert handle.offloaded_bytes < array.nbytes / 2
    assert_same(handle.load(), array.T)
    both = save(Cast() | on_disk(), array)
    assert both.offloaded_bytes == array.nbytes // 2


def test_on_disk_then_compressed_is_on_disk():
    handle = save(on_disk() | Compress(min_bytes=0), leased(np.zeros(100000)))
    assert handle.policy == "disk"


# -- the file ----------------------------------------------------------------------------------------------------------


def test_the_directory_shows_nothing(tmp_path):  # case C1
    handle = save(on_disk(tmp_path), leased(np.zeros(100000)))
    assert list(tmp_path.iterdir()) == []
    assert handle.load()[0] == 0


def test_the_file_is_closed_with_the_last_that_needs_it(tmp_path):
    def open_files():
        return [name for name in os.listdir("/proc/self/fd") if _target(name).startswith(str(tmp_path))]

    policy = on_disk(tmp_path)
    handle = save(policy, leased(np.arange(1000.0)))
    assert len(open_files()) == 1
    del policy
    assert handle.load()[9] == 9
    assert len(open_files()) == 1
    handle._piece.payload.buffers[0].arena.synchronize()
    del handle
    assert open_files() == []


def _target(name):
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


def test_places_are_used_again(tmp_path):
    gc.disable()
    try:
        policy = on_disk(tmp_path)
        for step in range(20):
            handles = [save(policy, leased(np.full(10000 + 100 * i, step))) for i in range(10)]
            assert all(handle.load()[0] == step for handle in handles)
            del handles
    finally:
        gc.enable()
    policy.synchronize()
    assert arena_of(policy).used_bytes() == 0
    assert arena_of(policy).file_bytes() < 2200000


def test_extents_that_the_collector_frees_while_one_is_allocated_are_used_later(tmp_path):
    made = arena_in(tmp_path)

    class Cycle:
        def __init__(self):
            self.me, self.extent = self, made.write([np.zeros(5000)])

    gc.disable()
    try:
        for _ in range(10):
            Cycle()
        with made._lock:
            gc.collect()
    finally:
        gc.enable()
    assert made.used_bytes() == 0


def test_threads_save_and_load_at_once(tmp_path):
    policy = on_disk(tmp_path)
    wrong = []

    def work(number):
        for step in range(30):
            array = leased(np.full(3000 + 500 * number, 100 * number + step))
            handle = save(policy, array)
            if not (handle.load() == array).all():
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    policy.synchronize()
    assert arena_of(policy).used_bytes() == 0


def test_platforms_without_positioned_transfers_seek(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "_POSITIONED", False)
    policy = on_disk(tmp_path)
    arrays = [leased(np.random.default_rng(i).random(1000)) for i in range(3)]
    handles = [save(policy, array) for array in arrays]
    for array, handle in zip(arrays, handles):
        assert_same(handle.load(), array)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_missing_directory_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot make a file in this directory") as caught:
        save_on_disk(tmp_path / "nowhere")
    assert caught.value.filename == str(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_file_for_a_directory_is_an_error_at_once(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError):
        save_on_disk(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_directory_that_cannot_be_written_is_an_error_at_once(tmp_path):
    tmp_path.chmod(0o555)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(PermissionError, match="cannot make a file"):
        save_on_disk(tmp_path)


def test_no_permission_is_an_error_of_that_type(monkeypatch, tmp_path):
    def refuse(**options):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "stowgrad-x"))

    monkeypatch.setattr(file.tempfile, "TemporaryFile", refuse)
    with pytest.raises(PermissionError, match="cannot make a file in this directory"):
        save_on_disk(tmp_path)


def full_disk(after):
    """``os.pwrite`` on a disk that has room for so many bytes."""
    real, room = os.pwrite, [after]

    def pwrite(fd, data, position):
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[: room[0]], position)
        room[0] -= written
        return written

    return pwrite


def test_a_full_disk_reaches_the_user_and_its_place_is_freed(tmp_path, monkeypatch):  # case C3
    policy = on_disk(tmp_path, staging=0)
    array = leased(np.arange(100000.0))
    with monkeypatch.context() as patch:
        patch.setattr(file.os, "pwrite", full_disk(300000))
        with pytest.raises(OSError, match="could not write 800,000 bytes: No space left") as caught:
            save(policy, array)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path)
    assert arena_of(policy).used_bytes() == 0  # while the traceback is still there
    assert array[-1] == 99999
    assert_same(save(policy, array).load(), array)
    traceback.clear_frames(caught.tb)


def test_short_writes_and_reads_are_continued(tmp_path, monkeypatch):
    real_write, real_read = os.pwrite, os.preadv
    monkeypatch.setattr(file.os, "pwrite", lambda fd, data, at: real_write(fd, data[:1000], at))
    monkeypatch.setattr(file.os, "preadv", lambda fd, into, at: real_read(fd, [into[0][:777]], at))
    array = leased(np.random.default_rng(0).random(5000))
    assert_same(save(on_disk(tmp_path), array).load(), array)


def test_an_interrupted_write_frees_its_place(tmp_path, monkeypatch):
    policy = on_disk(tmp_path, staging=0)

    def interrupt(fd, data, position):
        raise KeyboardInterrupt

    monkeypatch.setattr(file.os, "pwrite", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(policy, leased(np.zeros(1000)))
    assert arena_of(policy).used_bytes() == 0


def test_the_limit_is_an_error_that_says_so(tmp_path):
    policy = on_disk(tmp_path, limit="1 MiB")
    handles = [save(policy, leased(np.zeros(50000))) for _ in range(2)]
    with pytest.raises(
        OSError, match=r"400,000 bytes more would pass its limit of 1,048,576 bytes \(784.0 KiB in use\)"
    ):
        save(policy, leased(np.zeros(50000)))
    handles.pop()
    assert save(policy, leased(np.zeros(50000))) is not None
    with pytest.raises(ValueError, match="expected a size"):
        save_on_disk(limit="much")


def damage(policy, data, position):
    """Write into the file through the page cache."""
    with open(f"/proc/self/fd/{arena_of(policy).file.fileno()}", "r+b", buffering=0) as opened:
        opened.seek(position)
        opened.write(data)


def test_damage_is_found_by_the_checksum(tmp_path):
    policy = on_disk(tmp_path, checksum=True)
    array = leased(np.arange(1000.0))
    handle = save(policy, array)
    policy.synchronize()
    damage(policy, b"x", 4000)
    with pytest.raises(OSError, match="damaged data: 8,000 bytes at offset 0 have checksum") as caught:
        handle.load()
    assert caught.value.errno == errno.EIO
    damage(policy, array.tobytes(), 0)
    assert_same(handle.load(), array)


def test_a_file_that_was_cut_is_an_error(tmp_path):
    policy = on_disk(tmp_path)
    handle = save(policy, leased(np.arange(1000.0)))
    policy.synchronize()
    os.truncate(arena_of(policy).file.fileno(), 4096)
    with pytest.raises(OSError, match="could not read 8,000 bytes: the file ends 4,096 bytes early"):
        handle.load()


# -- processes ---------------------------------------------------------------------------------------------------------

LIVE_GRAPH = """
    import os, signal, sys
    import numpy as np
    from stowgrad.memory import pool, storage_of
    from stowgrad.offload import save_on_disk
    from stowgrad.saved_tensors import SavedValue

    array, storage = pool("cpu").lease((100000,), np.dtype(float))
    array[...] = 1
    policy = save_on_disk(sys.argv[1])
    handle = policy.save(SavedValue(array, storage, "op", "self"), ())
    assert handle.load()[0] == 1
    print("ready", flush=True)
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 / 0", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)"])
def test_nothing_is_left_however_the_process_ends(tmp_path, end):  # case C1
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIVE_GRAPH) + end, str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "ready\n"
    assert list(tmp_path.iterdir()) == []
    assert "ignored" not in done.stderr
    if "SIGKILL" in end:
        assert done.returncode == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reads_but_never_writes_or_frees(tmp_path):  # case I3
    program = (
        LIVE_GRAPH
        + """
    file = os.fstat(policy._links[0].stage.arena.file.fileno()).st_ino
    child = os.fork()
    if not child:
        assert handle.load()[5] == 1
        other, storage = pool("cpu").lease((50000,), np.dtype(float))
        other[...] = 2
        mine = policy.save(SavedValue(other, storage, "op", "self"), ())
        assert mine.load()[-1] == 2
        assert os.fstat(policy._links[0].stage.arena.file.fileno()).st_ino != file
        assert handle.load()[-1] == 1
        del handle, mine
        print("child", flush=True)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert handle.load()[-1] == 1
    assert handle._piece.payload.buffers[0].arena.used_bytes() == 802816
    print("parent")
    """
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout == "ready\nchild\nparent\n"
    assert list(tmp_path.iterdir()) == []


def test_an_arena_refuses_to_be_written_by_another_process(tmp_path, monkeypatch):
    made = arena_in(tmp_path)
    monkeypatch.setattr(file.os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="only by the process that made it"):
        made.write([np.zeros(3)])
