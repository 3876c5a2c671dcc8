"""Threads that fetch batches ahead of their use.

NOTE [ Worker threads ]
1. Every batch is a numbered task. A worker has a queue of tasks; what it makes of one waits until its turn comes.
2. At most ``prefetch_factor`` tasks a worker are begun and not used: that bounds the memory of what is fetched ahead.
3. Random numbers that a task draws come from a stream of its own, named by the seed of the iteration and the number of
   the task: they are the same on every thread, and again when an iteration is resumed.
4. Threads know the `_Shared` only, never the iterator. When that is closed, collected, or ends with an exception, they
   are told to stop: each ends with the batch that it is at. Whoever waits for that waits `LONGEST_END` seconds at most:
   a thread can't be ended from outside, and one that hangs must not hang the program.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from ...autograd.random import Generator, drawing_from

LONGEST_END = 5.0  # as PyTorch waits for its processes
_STRIDE = 0x9E3779B97F4A7C15  # seeds of neighbouring tasks are far from those that people choose


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker thread can know about itself.

    Attributes:
        id: its number, from 0.
        num_workers: how many there are.
        seed: of the iteration, plus the worker's number.
        dataset: the data set, which all workers share.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """Which worker of a `DataLoader` the current thread is; None if it is none."""
    return _here.info


@dataclass(frozen=True)
class _Made:
    """What came of a task: a batch, an exception, or the end of what its worker has."""

    batch: Any = None
    error: BaseException | None = None
    is_end: bool = False


class _Shared:
    """What the threads and the iterator share."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.made: dict[int, _Made] = {}
        self.stopped = False
        self.queues: list[SimpleQueue[Any]] = []

    def stop(self) -> None:
        """Let all threads end; may be called from any of them, and by the collector."""
        self.stopped = True
        for queue in self.queues:
            queue.put(None)

    def deliver(self, number: int, made: _Made) -> None:
        with self.changed:
            if not self.stopped:
                self.made[number] = made
            self.changed.notify_all()

    def collect(self, number: int, timeout: float) -> _Made:
        end = time.monotonic() + timeout if timeout > 0 else None
        with self.changed:
            while number not in self.made:
                if not self.changed.wait(None if end is None else end - time.monotonic()):
                    raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            return self.made.pop(number)


class Prefetching:
    """An iterator over the batches of tasks, in order.

    Args:
        tasks: what to fetch, for each batch.
        start: for each worker, called on its thread: gives the function from a task to a batch; a batch may end with
            StopIteration.
        num_workers: the number of threads.
        prefetch_factor: how many batches for each of them are made ahead.
        timeout: the longest wait for a batch in seconds; 0 for ever.
        seed: of the random numbers in tasks.
        dataset: for `get_worker_info`.
        first: the number of the first task.
    """

    def __init__(
        self,
        tasks: Iterator[Any],
        start: Callable[[int], Callable[[Any], Any]],
        *,
        num_workers: int,
        prefetch_factor: int,
        timeout: float,
        seed: int,
        dataset: Any,
        first: int = 0,
    ) -> None:
        self._tasks = tasks
        self._timeout = timeout
        self._most = num_workers * prefetch_factor
        self._given = self._used = first
        self._owner: dict[int, int] = {}
        self._working = list(range(num_workers))
        self._turn = 0
        self._shared = shared = _Shared()
        shared.queues = [SimpleQueue() for _ in range(num_workers)]
        self._finalizer = weakref.finalize(self, shared.stop)
        self._threads = []
        for number in range(num_workers):
            info = WorkerInfo(number, num_workers, seed + number, dataset)
            arguments = (shared, number, start, info, seed)
            name = f"stowgrad-data-{number}"
            self._threads.append(threading.Thread(target=_work, args=arguments, name=name, daemon=True))
        for thread in self._threads:
            thread.start()
        self._give()

    def _give(self) -> None:
        """Begin as many tasks as may be on their way."""
        while self._working and self._given - self._used < self._most:
            try:
                task = next(self._tasks)
            except StopIteration:
                self._working = []
                return
            worker = self._working[self._turn % len(self._working)]
            self._turn += 1
            self._owner[self._given] = worker
            self._shared.queues[worker].put((self._given, task))
            self._given += 1

    def __iter__(self) -> Prefetching:
        return self

    def __next__(self) -> Any:
        while self._used < self._given:
            number = self._used
            try:
                made = self._shared.collect(number, self._timeout)
            except BaseException:
                self.close(wait=False)
                raise
            self._used += 1
            worker = self._owner.pop(number)
            if made.error is not None:
                error = made.error
                self.close()
                error.add_note(f"in DataLoader worker {worker}, at batch {number}")
                try:
                    raise error
                finally:
                    del error, made  # the traceback holds this frame: no cycle
            if made.is_end:
                if worker in self._working:
                    self._working.remove(worker)
                self._give()
                continue
            self._give()
            return made.batch
        self.close()
        raise StopIteration

    def close(self, wait: bool = True) -> None:
        """End the threads; what they have fetched is dropped. One that does not end is left alone, with a warning."""
        is_first = self._finalizer.alive
        self._finalizer()
        self._given = self._used
        self._working = []
        if wait and is_first:
            self._wait()
        with self._shared.changed:
            self._shared.made.clear()

    def _wait(self) -> None:
        end = time.monotonic() + LONGEST_END
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        hanging = [thread.name for thread in self._threads if thread.is_alive()]
        if hanging:
            warnings.warn(
                f"DataLoader: worker threads did not end within {LONGEST_END} seconds and are left alone:"
                f" {', '.join(hanging)}; what they do can't be stopped, and ends with the process",
                RuntimeWarning,
                stacklevel=4,
            )


def _work(
    shared: _Shared, number: int, start: Callable[[int], Callable[[Any], Any]], info: WorkerInfo, seed: int
) -> None:
    _here.info = info
    fetch: Callable[[Any], Any] | None = None
    failed: BaseException | None = None
    try:
        with drawing_from(Generator().manual_seed(info.seed)):
            fetch = start(number)
    except BaseException as error:  # noqa: BLE001  # raised again where the batch is waited for
        failed = error
    del start
    queue = shared.queues[number]
    while True:
        given = queue.get()
        if given is None or shared.stopped:
            break
        task_number, task = given
        shared.deliver(task_number, _made_of(fetch, task, failed, seed + (task_number + 1) * _STRIDE))
        del given, task  # nothing is kept while waiting
    close = getattr(fetch, "close", None)
    if close is not None:
        close()  # a stream may have something to put away; what it raises goes to threading.excepthook


def _made_of(fetch: Callable[[Any], Any] | None, task: Any, failed: BaseException | None, seed: int) -> _Made:
    if failed is not None or fetch is None:
        return _Made(error=failed)
    try:
        with drawing_from(Generator().manual_seed(seed)):
            return _Made(batch=fetch(task))
    except StopIteration:
        return _Made(is_end=True)
    except BaseException as error:  # noqa: BLE001  # raised again where the batch is waited for
        return _Made(error=error)
