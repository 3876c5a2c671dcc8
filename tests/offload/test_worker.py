"""The thread that does what it is given while the program goes on."""

from __future__ import annotations

import threading
import weakref

import numpy as np

from stowgrad.offload import worker as module
from stowgrad.offload.worker import Worker

from ..saved_tensors.support import assert_same, leased, save
from .test_background import on_disk


def test_a_worker_that_died_is_replaced():
    worker = Worker("test")
    done = []

    def die():
        raise SystemExit

    worker.submit(die)
    worker.submit(lambda: done.append(1))
    worker.drain()
    assert done == [1]
    killed = worker._thread
    worker._thread = threading.Thread(target=lambda: None)  # one that is gone with its job
    worker._thread.start()
    worker._thread.join()
    worker.submit(lambda: done.append(2))
    worker.drain()
    assert done == [1, 2]
    assert killed is not worker._thread


def test_a_worker_ends_when_it_has_nothing_to_do(monkeypatch):
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.01)
    worker = Worker("test")
    worker.submit(lambda: None)
    worker.drain()
    thread = worker._thread
    if thread is not None:
        thread.join(10)
    assert worker._thread is None


def test_a_finished_job_is_let_go():
    class Thing:
        pass

    worker, thing = Worker("test"), Thing()
    reference = weakref.ref(thing)
    worker.submit(lambda thing=thing: None)
    worker.drain()
    del thing
    assert reference() is None


def test_where_no_thread_can_be_had_the_caller_does_the_work(tmp_path, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    policy = on_disk(tmp_path)
    arrays = [leased(np.arange(number, number + 5000.0)) for number in range(3)]
    handles = [save(policy, array) for array in arrays]
    policy.synchronize()
    for handle, array in zip(handles[::-1], arrays[::-1]):
        assert_same(handle.load(), array)
    assert policy.arena.read_bytes == 3 * 40960
