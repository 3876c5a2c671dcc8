"""A thread that does what it is given, in order, while the program goes on.

NOTE [ Background threads ]
1. A thread starts with the first job and ends when it has had none for a second, so nothing has to close it. It is a
   daemon: what is under way when the interpreter ends is of no use to anybody.
2. A job holds what it works on weakly until it begins, and it reports its failure itself. One that dies all the same,
   or takes its thread with it, is noticed by whoever waits; the next job gets a new thread.
3. In the child of a fork there are no jobs and no thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Job: TypeAlias = Callable[[], None]

_IDLE_SECONDS = 1.0
_LOOK_SECONDS = 0.1


class Worker:
    """A background thread (see the note above).

    Args:
        name: of the thread.

    >>> worker = Worker("example")
    >>> done = []
    >>> for number in range(3):
    ...     worker.submit(lambda number=number: done.append(number))
    >>> worker.drain()
    >>> done
    [0, 1, 2]
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._unfinished = 0
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Have a job done after all others."""
        if os.getpid() != self._pid:
            self._forget()
        with self._changed:
            self._jobs.append(job)
            self._unfinished += 1
            self._ensure()
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until all jobs are done."""
        self.wait_until(lambda: False)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, or there is no job left that could bring it about."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            while self._unfinished and not holds():
                self._ensure()
                self._changed.wait(_LOOK_SECONDS)

    def _ensure(self) -> None:
        """Have a thread; a job that a thread died with counts as done."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._unfinished = len(self._jobs)
        if self._thread is None and self._jobs:
            self._thread = threading.Thread(target=self._run, name=f"stowgrad-{self._name}", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    self._changed.wait(_IDLE_SECONDS)
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.popleft()
            try:
                job()
            except BaseException:  # noqa: BLE001  # its owner sees that it wasn't done
                pass
            del job  # or a finished job would live on while this waits
            with self._changed:
                self._unfinished -= 1
                self._changed.notify_all()
