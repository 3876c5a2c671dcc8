"""Worker threads that share out the tiles of a kernel, and the BLAS library's thread count beside them.

NOTE [ Tiles and threads ]
1. A kernel cuts its work into tiles whose boundaries depend on shapes only, and `parallel_for` runs one function for
   each of them. What a tile computes never depends on which thread runs it, nor on how many there are.
2. While tiles run on several threads BLAS runs on one, so that a product inside a tile neither competes with the other
   tiles nor differs between thread counts. A nested call runs inline.
3. Scratch is leased before the first tile runs, one set for each participant: a kernel that does not fit under the
   memory limit fails before it wrote anything, and the peak depends on shapes and settings, not on timing.
4. A worker has let go of all that a job holds before the caller goes on, so nothing dies late because of threads.
5. Threads start at the first job that can use them, are daemons, and are made anew in a forked child.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, prod
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import ThreadpoolController

from .. import memory

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
ScratchSpec: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]

_ALIGNMENT = 64
# The most multiplications of a product that OpenBLAS runs on one thread by itself, and of a matrix with a vector.
_ALONE, _VECTOR_ALONE = 1 << 18, 9216
_COMPLEX_ALONE, _COMPLEX_VECTOR_ALONE = 1 << 15, 4095
_BYTE = np.dtype(np.uint8)
UNCOUNTED_BYTES = 2048  # the size below which results may come from NumPy too (architecture, law 1)


class _Here(threading.local):
    """What is true of the current thread."""

    inside_job = False


class _Blas:
    """The thread count of every BLAS library loaded into the process; looked for at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] | None = None
        self._outside: list[int] = []
        self._depth = 0

    def _found(self) -> list[Any]:
        if self._libraries is None:
            self._libraries = list(ThreadpoolController().select(user_api="blas").lib_controllers)
        return self._libraries

    def set_num_threads(self, count: int, *, lower_only: bool = False) -> None:
        with self._lock:
            if self._depth == 0:
                self._outside = [library.get_num_threads() for library in self._found()]
            self._outside = [min(count, now) if lower_only else count for now in self._outside]
            if self._depth == 0:
                self._restore()

    def enter_single(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                libraries = self._found()
                self._outside = [library.get_num_threads() for library in libraries]
                for library in libraries:
                    _set_num_threads(library, 1)

    def leave_single(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._restore()

    def _restore(self) -> None:
        for library, count in zip(self._found(), self._outside, strict=True):
            _set_num_threads(library, count)

    def forked(self) -> None:
        """In a child: the lock may have been held, and jobs of the parent's other threads do not run on here."""
        self._lock = threading.Lock()
        if self._depth:
            self._depth = 0
            self._restore()


def _set_num_threads(library: Any, count: int) -> None:
    """Set it from any thread: threadpoolctl lets one alone do so, lest threads fight, which `_Blas` sees to here."""
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


class _Job:
    """One `parallel_for`: a counter of tiles that its participants draw from.

    Workers run in the caller's context. It holds what hooks hold, so the job lets go of it when it closes (rule 4).
    """

    def __init__(self, function: Callable[..., object], count: int, scratch: list[list[Array]]) -> None:
        self.function: Callable[..., object] | None = function
        self.context: contextvars.Context | None = contextvars.copy_context()  # np.errstate lives there
        self.scratch = scratch
        self.error: BaseException | None = None
        self._count = count
        self._next = itertools.count().__next__  # one call into C: no two participants draw the same number
        self._lock = threading.Lock()
        self._idle = threading.Lock()
        self._helpers = 0
        self._closed = False

    def draw(self) -> None:
        """Run tiles until none is left or one failed."""
        function, count, draw = self.function, self._count, self._next
        if function is None:
            return
        arrays = self.scratch.pop()
        while self.error is None and (index := draw()) < count:
            function(index, *arrays)

    def help(self) -> None:
        """What a worker does with a job: a part of it, or nothing if the others were faster."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
        try:
            if self.context is not None:  # it is there while somebody helps
                self.context.copy().run(self.draw)
        except BaseException as error:  # noqa: BLE001  # handed to the caller
            self.error = error
        with self._lock:
            self._helpers -= 1
            if self._closed and self._helpers == 0:
                self._idle.release()

    def close(self) -> None:
        """Let nobody join any more and wait for those inside: they write into the caller's arrays."""
        with self._lock:
            self._closed = True
            waiting = self._helpers > 0
            if waiting:
                self._idle.acquire()  # taken; the last helper's release ends the wait below
        interrupt: BaseException | None = None
        while waiting:
            try:
                self._idle.acquire()
                waiting = False
            except KeyboardInterrupt as error:
                interrupt = error
        self.function = self.context = None
        self.scratch = []
        if interrupt is not None:
            raise interrupt


class _Workers:
    """The threads and the queue on which they wait for jobs."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._started = 0
        self._lock = threading.Lock()

    def ensure(self, count: int) -> None:
        if self._started < count:
            with self._lock:
                for number in range(self._started, count):
                    threading.Thread(
                        target=_serve, args=(self.queue,), name=f"stowgrad-worker-{number}", daemon=True
                    ).start()
                    self._started = number + 1


def _serve(queue: SimpleQueue[Callable[[], None]]) -> None:
    _here.inside_job = True
    while True:
        # Nothing may be bound here while waiting: it would keep a finished job, and so its caller's arrays, alive.
        queue.get()()


_here = _Here()
_blas = _Blas()
_workers: _Workers | None = None
_setup = threading.Lock()
_num_threads: int | None = None


def _after_fork() -> None:
    global _here, _workers, _setup
    _here = _Here()
    _workers = None
    _setup = threading.Lock()
    _blas.forked()


def _cgroup_cpus() -> int | None:
    """The processors that the control group's quota amounts to, rounded up; None without a quota."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            base = Path("/sys/fs/cgroup/cpu")
            quota = (base / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (base / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return max(1, ceil(int(quota) / int(period)))


def _default_num_threads() -> int:
    text = os.environ.get("STOWGRAD_NUM_THREADS", "").strip()
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"STOWGRAD_NUM_THREADS must be a whole number of at least 1, got {text!r}")
        return int(text)
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(here, _cgroup_cpus() or here)


def get_num_threads() -> int:
    """The number of threads that share out tiles, the calling one included.

    By default the environment's STOWGRAD_NUM_THREADS, else the processors that this process may use: its affinity and
    its control group's quota. BLAS is lowered to it, and never raised, when it is first asked for.
    """
    global _num_threads
    if _num_threads is None:
        with _setup:
            if _num_threads is None:
                count = _default_num_threads()
                _blas.set_num_threads(count, lower_only=True)
                os.register_at_fork(after_in_child=_after_fork)
                _num_threads = count
    return _num_threads


def set_num_threads(count: int) -> None:
    """Set the number of threads for tiles and for BLAS. Results of tiled kernels do not depend on it.

    Raises:
        ValueError, TypeError: if ``count`` is not a whole number of at least 1.
    """
    global _num_threads
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"set_num_threads: expected a whole number, got {type(count).__name__}")
    if count < 1:
        raise ValueError(f"set_num_threads: expected at least 1, got {count}")
    get_num_threads()
    _blas.set_num_threads(count)
    _num_threads = count


@contextmanager
def tile_threads(count: int) -> Iterator[None]:
    """Share tiles out over that many threads, whatever is set, and leave BLAS alone: each thread has scratch memory."""
    global _num_threads
    before = get_num_threads()
    _num_threads = count
    try:
        yield
    finally:
        _num_threads = before


def runs_alone(*sizes: int, dtype: np.dtype[Any] | None = None) -> bool:
    """Whether BLAS computes a product of matrices of these sizes (rows, columns, terms) on one thread by itself."""
    if dtype is not None and dtype.kind == "c":
        return prod(sizes) <= (_COMPLEX_VECTOR_ALONE if min(sizes) == 1 else _COMPLEX_ALONE)
    return prod(sizes) <= (_VECTOR_ALONE if min(sizes) == 1 else _ALONE)


@contextmanager
def blas_single_threaded() -> Iterator[None]:
    """BLAS on one thread: for products too small for more, or whose result must not depend on the thread count."""
    _blas.enter_single()
    try:
        yield
    finally:
        _blas.leave_single()


def scratch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array for intermediate values, leased until its last view dies.

    Less than 2 KiB comes from NumPy, uncounted.
    """
    nbytes = prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if nbytes < UNCOUNTED_BYTES else _leased(shape, dtype, nbytes)


def scratch_set(specs: Sequence[ScratchSpec]) -> list[Array]:
    """Scratch arrays, each of its shape and dtype and from a line of the cache on, in one lease."""
    if not specs:
        return []
    count, (shape, dtype) = len(specs), specs[0]
    nbytes = prod(shape) * dtype.itemsize
    lines = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    if count == 1:
        return [np.empty(shape, dtype) if lines < UNCOUNTED_BYTES else _leased(shape, dtype, lines)]
    if lines == nbytes >= UNCOUNTED_BYTES and specs.count(specs[0]) == count:
        block = _leased((count, *shape), dtype, count * nbytes)
        return [block[number] for number in range(count)]  # a quarter of the time that it takes for any dtypes
    return scratch_sets(1, specs)[0]


def scratch_sets(count: int, specs: Sequence[ScratchSpec]) -> list[list[Array]]:
    """``count`` times what `scratch_set` gives, in one lease."""
    if not specs:
        return [[] for _ in range(count)]
    offsets, end = [], 0
    for shape, dtype in specs:
        offsets.append(end)
        end += -(-prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    if count * end < UNCOUNTED_BYTES:
        return [[np.empty(shape, dtype) for shape, dtype in specs] for _ in range(count)]
    block = _leased((count * end,), _BYTE, count * end)
    return [
        [np.ndarray(shape, dtype, block, base + offset) for (shape, dtype), offset in zip(specs, offsets)]
        for base in range(0, count * end, end)
    ]


def _leased(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> Array:
    array: Array = _host().lease(shape, dtype, "temporary", nbytes)[0]
    return array


@functools.cache
def _host() -> memory.MemoryPool:
    return memory.pool(memory.CPU)


def parallel_for(
    function: Callable[..., object], count: int, specs: Sequence[ScratchSpec] = (), *, alone: bool = False
) -> None:
    """Call ``function(index, *scratch)`` for each index below ``count``, on several threads (see the note above).

    Args:
        function: writes the results of one tile; tiles must not write the same elements.
        count: the number of tiles. With one, or one thread, or inside another job, the calls run inline, in order.
        specs: shape and dtype of each scratch array that ``function`` wants; their content is undefined.
        alone: whether the calls run inline in any case: the work is over before a thread wakes up.

    Raises:
        MemoryBudgetError: if the scratch does not fit, before any tile has run.
        Exception: the first one that a tile raised, when all running tiles have ended; the others are not started.
    """
    if count <= 0:
        return
    participants = 1 if count == 1 or alone or _here.inside_job else min(get_num_threads(), count)
    if participants == 1:
        arrays = scratch_set(specs)
        for index in range(count):
            function(index, *arrays)
        return
    job = _Job(function, count, scratch_sets(participants, specs))
    _run(job, participants - 1)
    error = job.error
    if error is not None:
        job.error = None  # the error's traceback holds frames that hold the job: no cycle
        try:
            raise error
        finally:
            del error


def _run(job: _Job, helpers: int) -> None:
    global _workers
    if _workers is None:
        with _setup:
            if _workers is None:
                _workers = _Workers()
    _workers.ensure(helpers)
    _blas.enter_single()
    _here.inside_job = True
    try:
        for _ in range(helpers):
            _workers.queue.put(job.help)
        job.draw()
    except BaseException as error:  # noqa: BLE001  # raised again by the caller
        job.error = error
    finally:
        _here.inside_job = False
        try:
            job.close()
        finally:
            _blas.leave_single()


def parallel_slices(
    function: Callable[..., object],
    length: int,
    step: int,
    specs: Sequence[ScratchSpec] = (),
    *,
    alone: bool = False,
) -> None:
    """`parallel_for` over a range: ``function(slice, *scratch)`` for each run of ``step`` out of ``length``."""

    if 0 < length <= step:
        function(slice(0, length), *scratch_set(specs))
        return

    def tile(index: int, *arrays: Array) -> None:
        start = index * step
        function(slice(start, min(start + step, length)), *arrays)

    parallel_for(tile, -(-length // step), specs, alone=alone)
