"""Threads that a pass runs on besides its caller's.

NOTE [ Threads of a pass ]
1. Each device that is not the host has one thread on which its nodes run. It starts when a pass first needs it, is a
   daemon, and is made anew in a forked child.
2. A pass is on one thread at a time and is handed on where the next node is another device's. So neither the order of
   nodes nor a sum or a peak depends on timing. What real devices compute overlaps all the same: their kernels are only
   launched by the thread.
3. A device's thread that waits for another one serves requests meanwhile: a pass inside a pass may come back to it.
4. The context variables of the caller are there on every thread, and its CUDA stream; what is set there does not come
   back.
5. A thread has let go of all that it was handed before the caller goes on.
6. Ctrl-C while the caller waits stops the pass after the node that runs, and is raised when the thread is done.
"""

from __future__ import annotations

import _thread
import contextvars
import functools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

from ..memory import Device

Work: TypeAlias = Callable[[], None]


class _Request:
    """Something to run on another thread, for one that waits."""

    def __init__(self, work: Work, inbox: Inbox) -> None:
        self.error: BaseException | None = None
        self.finished = False
        self._work: Work | None = work
        self._context: contextvars.Context | None = contextvars.copy_context()
        self.inbox = inbox

    def execute(self) -> None:
        """Run it, let go of it, and wake the one that waits."""
        work, context = self._work, self._context
        self._work = self._context = None
        try:
            if work is not None and context is not None:
                context.run(work)
        except BaseException as error:  # noqa: BLE001  # handed to the caller
            self.error = error
        del work, context
        self.finished = True
        self.inbox.put(None)


# What a thread waits at: requests to serve, or None when one of its own has finished.
Inbox: TypeAlias = "SimpleQueue[_Request | None]"


class _Here(threading.local):
    """What is true of the current thread."""

    inbox: Inbox | None = None


class _Worker:
    """The thread of one device."""

    def __init__(self, name: str) -> None:
        self.inbox: Inbox = SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        _here.inbox = self.inbox
        while True:
            request = self.inbox.get()
            if request is not None:  # or it is late news of a request of its own
                request.execute()
            del request


_here = _Here()
_workers: dict[Device, _Worker] = {}
_starting = threading.Lock()
_watches_forks = False


def run_on_device(device: Device, work: Work, stop: Work) -> None:
    """Run ``work`` on the thread of a device and wait for it; at once where that is the current thread.

    Args:
        device: whose thread.
        work: what to run.
        stop: called if Ctrl-C arrives meanwhile; it makes ``work`` end soon.
    """
    worker = _worker_of(device)
    if _here.inbox is worker.inbox:
        work()
    else:
        request = _Request(_on_our_stream(device, work), _own_inbox())
        del work
        _wait_for(request, functools.partial(worker.inbox.put, request), stop)


def run_on_fresh_thread(work: Work, stop: Work) -> None:
    """Run ``work`` on a thread with a stack of its own and wait for it; see `run_on_device`."""
    request = _Request(work, _own_inbox())
    del work
    _wait_for(request, functools.partial(_thread.start_new_thread, request.execute, ()), stop)


def _on_our_stream(device: Device, work: Work) -> Work:
    """Work that runs on the CUDA stream that is the current one here: CuPy has one for each thread."""
    if device.type != "cuda":
        return work
    import cupy

    stream = cupy.cuda.get_current_stream(device.index)

    def run() -> None:
        with cupy.cuda.Device(device.index), stream:
            work()

    return run


def _own_inbox() -> Inbox:
    return SimpleQueue() if _here.inbox is None else _here.inbox


def _wait_for(request: _Request, send: Callable[[], object], stop: Work) -> None:
    interrupt: BaseException | None = None
    begin = send
    while True:
        try:
            begin()  # one call into C: Ctrl-C arrives when it has been sent
            _serve_until(request)
            break
        except BaseException as error:
            if isinstance(error, RuntimeError) and "start new thread" in str(error):
                raise  # nobody will answer
            interrupt, begin = error, _nothing  # raised below, when the other thread has ended
            stop()
    failure, request.error = interrupt or request.error, None
    if failure is not None:
        try:
            raise failure
        finally:
            del failure, interrupt  # or this frame and the exception would hold each other


def _serve_until(request: _Request) -> None:
    while not request.finished:
        other = request.inbox.get()
        if other is not None:
            other.execute()
        del other


def _nothing() -> None:
    pass


def _worker_of(device: Device) -> _Worker:
    global _watches_forks
    worker = _workers.get(device)
    if worker is None:
        with _starting:
            if not _watches_forks and hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_after_fork)
            _watches_forks = True
            worker = _workers.get(device)
            if worker is None:
                worker = _workers[device] = _Worker(f"stowgrad-{device}")
    return worker


def _after_fork() -> None:
    """The child has none of the parent's threads."""
    global _starting
    _starting = threading.Lock()
    _workers.clear()
