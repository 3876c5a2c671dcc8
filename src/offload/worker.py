"""A thread that does what it is given, in order, while the program goes on.

NOTE [ Background threads ]
1. A thread starts with the first job and ends when it has had none for a second, so nothing has to close it. It is a
   daemon: what is under way when the interpreter ends is of no use to anybody.
2. A job holds what it works on weakly until it begins, and it reports its failure itself. One that dies all the same,
   or takes its thread with it, is noticed by whoever waits; the next job gets a new thread.
3. In the child of a fork there are no jobs and no thread.
4. Ctrl-C may arrive anywhere in the thread that gives a job or waits: what is left to do follows from the queue and
   from whether a job is being done, not from a count that could miss one.
5. Where no thread can be had (the system has no more, or the interpreter is ending), whoever gives a job does it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
        self._lock = threading.RLock()  # C code leaves it: Ctrl-C can't come between, as in a condition's own exit
        self._changed = threading.Condition(self._lock)
        self._jobs: deque[Job] = deque()
        self._busy = False
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Have a job done after all others."""
        if os.getpid() != self._pid:
            self._forget()
        with self._lock:
            self._jobs.append(job)
            self._ensure()
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until all jobs are done."""
        self.wait_until(lambda: False)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, or there is no job left that could bring it about."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            while (self._jobs or self._busy) and not holds():
                self._ensure()
                if self._jobs or self._busy:
                    self._changed.wait(_LOOK_SECONDS)

    def _ensure(self) -> None:
        """Have a thread if there are jobs; one that a thread died with counts as done."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._busy = False
        if self._thread is None and self._jobs:
            self._thread = threading.Thread(target=self._run, name=f"stowgrad-{self._name}", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # note, rule 5
                self._thread = None
                while self._jobs:
                    with suppress(Exception):
                        self._jobs.popleft()()

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                if not self._jobs:
                    self._changed.wait(_IDLE_SECONDS)
                if self._thread is not me:  # Ctrl-C arrived while it was started, and there is another one
                    return
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.popleft()
                self._busy = True
            with suppress(BaseException):  # its owner sees that it wasn't done
                job()
            del job  # or a finished job would live on while this waits
            with self._changed:
                self._busy = False
                self._changed.notify_all()
