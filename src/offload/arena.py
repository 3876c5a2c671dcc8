"""One file without a name, and the parts of it that packed values lie in.

NOTE [ Arenas ]
1. The file is removed from its directory as it is made, so nothing is left there however the process ends.
2. An `Extent` owns its part and frees it when it dies. That may happen anywhere, also in the cyclic collector while the
   arena allocates, so freeing takes no lock: it appends to a deque, which the next allocation reads.
3. After a fork parent and child may read what was saved before: both have the file open. So neither writes anything
   new to it; whoever saves next, on either side, opens an arena of its own. The child frees no part of the old one.
4. A value is copied into staging memory, and a thread writes it from there: what is written to the value afterwards
   changes nothing. One that fills pages of its own is written from there instead, and they are the staging memory
   (NOTE [ Sources ]). A value that is larger than all staging memory is written at once, a piece at a time.
5. Room on the disk is reserved before a value is accepted, so a full disk is an error of the op that saves. A write
   that fails in the background leaves its value in staging memory, from which it is read; the next save raises the
   error.
6. Values are needed in the order opposite to that of saving. Reading one has another thread read those that were saved
   before it, as far as staging memory goes. A value whose write hasn't ended is taken from staging memory, which is
   then kept as if it had been read ahead. Pages that were read ahead become the value's memory: nothing is copied.
7. Staging memory is lent, not owed: when something else doesn't fit under the host's limit, what was read ahead is
   dropped and the writes are waited for, before anything is refused.
8. Ctrl-C may arrive anywhere in a save: its part of the file is freed only when no thread writes there any more.
"""

from __future__ import annotations

import errno
import os
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Sequence

from ..memory import CPU, MemoryBudgetError, format_size, pool
from ..saved_tensors.payload import PACKED, SCRATCH, as_bytes
from .extent import Ahead, Extent
from .file import NamelessFile
from .free_list import FreeList
from .jobs import letting_go, read_job, write_job
from .order import ReadingOrder
from .pages import (
    PAGE,
    HostArray,
    checksum,
    gather,
    gathered,
    is_aligned,
    is_much_for,
    lease_pages,
    pieces,
    scatter,
    whole_pages,
)
from .source import Source, source_of, watch
from .worker import Worker

_PIECE = 1 << 20


_STALE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation while it was being"
    " written to the disk; change a copy (clone()), or call synchronize() of the policy before"
)
# How often this process and its ancestors have forked.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork)


class Arena:
    """A temporary file that holds packed values (NOTE [ Arenas ]).

    Args:
        directory: where.
        limit: the most bytes that it may take.
        checked: whether each part is checked when it is read.
        staging: the most bytes of staging memory for writing, and as many for reading ahead; 0 does all at once.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError, OSError: if no file can be made there.
    """

    def __init__(self, directory: str, limit: int | None, checked: bool, staging: int) -> None:
        self.directory = directory
        self.limit = limit
        self.checked = checked
        self.staging = staging
        self.pid = os.getpid()
        self._born = _forks
        self._written = _Total()
        self._read = _Total()
        try:
            self.file = NamelessFile(directory, limit)
        except OSError as error:
            raise explained(error, "cannot make a file in this directory", directory) from error
        self._parts = FreeList()
        self._most = 0
        self._freed: deque[tuple[int, int]] = deque()
        self._lock = threading.RLock()
        self._writer = Worker("disk-writer")
        self._reader = Worker("disk-reader")
        self._staged: list[weakref.ref[HostArray]] = []
        self._ahead: list[weakref.ref[Ahead]] = []
        self._order: ReadingOrder[Extent] = ReadingOrder()
        self._failure: OSError | None = None
        _arenas.append(weakref.ref(self, _arenas.remove))
        if _give_up_staging not in pool(CPU).evictors:
            pool(CPU).evictors.append(_give_up_staging)

    @property
    def written_bytes(self) -> int:
        """Bytes that went to the file."""
        return self._written.value

    @property
    def read_bytes(self) -> int:
        """Bytes that came from the file."""
        return self._read.value

    @property
    def takes(self) -> bool:
        """Whether it may be written: not after a fork (note, rule 3)."""
        return self._born == _forks and self.pid == os.getpid()

    def another(self) -> Arena:
        """One like it, to be used from a fork on."""
        return Arena(self.directory, self.limit, self.checked, self.staging)

    def close(self) -> None:
        """Close the file; its extents can't be read any more."""
        self.file.close()

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def used_bytes(self) -> int:
        """Bytes of the file that extents take, in whole pages."""
        with self._lock:
            self._settle()
            return self._parts.taken

    def file_bytes(self) -> int:
        """How far into the file extents have reached: the most that was taken at any time."""
        return self._most

    # -- parts ---------------------------------------------------------------------------------------------------------

    def free(self, start: int, nbytes: int) -> None:
        """Take a part back (note, rule 2). Not for users: a dying `Extent` calls it."""
        if os.getpid() == self.pid:
            self._freed.append((start, whole_pages(nbytes)))

    def _allocate(self, nbytes: int) -> Extent:
        size = whole_pages(nbytes)
        with self._lock:
            self._settle()
            if self.limit is not None and self._parts.taken + size > self.limit:
                self._writer.drain()  # it holds what it writes, also where nobody else does any more
                self._settle()
            if self.limit is not None and self._parts.taken + size > self.limit:
                raise OSError(
                    errno.ENOSPC,
                    f"save_on_disk: {nbytes:,} bytes more would pass its limit of {self.limit:,} bytes"
                    f" ({format_size(self._parts.taken)} in use); raise limit= or save less",
                    self.directory,
                )
            extent = Extent(self, self._parts.take(size), nbytes)
            try:
                self.file.reserve(self._parts.end)
            except OSError as error:
                extent.release()
                raise explained(error, f"could not write {nbytes:,} bytes", self.directory) from error
            self._most = max(self._most, self._parts.end)
            return extent

    def _settle(self) -> None:
        while self._freed:
            self._parts.give(*self._freed.popleft())

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, arrays: Sequence[HostArray]) -> Extent:
        """Store the elements of some arrays, of any strides, in C order one after the other.

        Raises:
            OSError: if the limit or the disk is full, the file can't be written, or a write before this one failed in
                the background; nothing stays allocated.
        """
        if not self.takes:
            raise RuntimeError("an arena is written only by the process that made it; make a new one after a fork")
        self._raise_failure()
        extent = self._allocate(sum(array.nbytes for array in arrays))
        try:
            source = source_of(arrays)
            if not self._write_behind(extent, arrays, source):
                self._write_now(extent, arrays, source)
        except BaseException as error:
            self._writer.drain()  # note, rule 8
            extent.release()  # the traceback would keep it, and the memory that it was written from
            traceback.clear_frames(error.__traceback__)
            if isinstance(error, OSError):
                raise explained(error, f"could not write {extent.nbytes:,} bytes", self.directory) from error
            raise
        # Only now: what others read ahead before it is in staging memory or written would be what lay there before.
        with self._lock:
            self._order.add(extent)
        return extent

    def saved_again(self, extent: Extent) -> None:
        """Note that a value which is stored already is needed by one more op (NOTE [ Order of reading ])."""
        if self.takes:
            with self._lock:
                self._order.add_again(extent)

    def synchronize(self) -> None:
        """Wait until all is written, and nothing is being read ahead any more.

        Raises:
            OSError: if a write failed in the background.
        """
        self._writer.drain()
        self._reader.drain()
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            what = "an earlier write failed; its value is still in memory"
            raise explained(failure, what, self.directory) from failure

    def _write_behind(self, extent: Extent, arrays: Sequence[HostArray], source: Source | None) -> bool:
        """Have the writer write a value, or a copy of it; False if there isn't enough staging memory."""
        size = whole_pages(extent.nbytes)
        if size > self.staging:
            return False
        self._writer.wait_until(lambda: self._staged_bytes() + size <= self.staging)
        staging = self._staging_for(size, source)
        if staging is None:
            self._writer.drain()  # the values that wait are gone from memory then, and this one is written at once
            return False
        reference = weakref.ref(extent)
        if source is None:
            gather(arrays, staging)
        else:
            extent.source = source
            watch(source, letting_go(reference))
        extent.staging = staging
        self._writer.submit(write_job(reference))
        return True

    def _staging_for(self, size: int, source: Source | None) -> HostArray | None:
        """Memory from which a value is to be written, or None if it would be too much."""
        with self._lock:
            if self._staged_bytes() + size > self.staging:
                return None
            if source is not None:
                staging = source.pages
            elif not _has_room(size):
                return None
            else:
                try:
                    staging = lease_pages(size, PACKED)[:]  # not the root, which others may come to hold
                except MemoryBudgetError:  # another thread was faster
                    return None
            self._staged = [reference for reference in self._staged if reference() is not None]
            self._staged.append(weakref.ref(staging))
            return staging

    def _staged_bytes(self) -> int:
        """Bytes of the values that wait for being written, or that couldn't be; it takes no lock."""
        found = [reference() for reference in list(self._staged)]
        return sum(staging.nbytes for staging in found if staging is not None)

    def _write_now(self, extent: Extent, arrays: Sequence[HostArray], source: Source | None) -> None:
        """Write a value, through memory of a piece's size where it has to be copied."""
        if source is not None:
            for start, stop in pieces(extent.nbytes, _PIECE):
                self.write_pages(extent, source.pages[start:stop], start)
            return
        piece = lease_pages(min(_PIECE, extent.nbytes), SCRATCH)
        for start, pages in gathered(arrays, piece):
            self.write_pages(extent, pages, start)

    def write_pages(self, extent: Extent, pages: HostArray, start: int) -> None:
        """Write pages of an extent, ``start`` bytes into it. Not for users."""
        self.file.write(pages, extent.start + start)
        self._written.add(pages.nbytes)
        if self.checked:
            extent.checksum = ((extent.checksum or 0) + checksum(pages, start // PAGE)) % 2**64

    def let_go(self, extent: Extent) -> None:
        """Have no use for a value's own memory any more, which is about to be written (NOTE [ Sources ]).

        Raises:
            MemoryBudgetError: if it can't be written to the file, and there is no room for a copy.
        """
        self._writer.wait_until(lambda: extent.staging is None)
        ahead, (staging, source) = extent.ahead, extent.in_memory()
        if ahead is not None and ahead.source is not None:
            extent.ahead = None
        if staging is not None and source is not None:
            pages = lease_pages(staging.nbytes, PACKED)
            pages[:] = staging
            extent.staging = pages
        extent.source = None  # not before: Ctrl-C may come between, and then the next write asks again

    def give_up_staging(self) -> None:
        """Let staging memory go (note, rule 7). Not for users: the pool asks for it."""
        if not self.staging or os.getpid() != self.pid:
            return
        for extent in self._order.alive():
            extent.ahead = None
        self._reader.drain()
        self._writer.drain()

    def failed(self, error: OSError) -> None:
        """Note a failure of the background (note, rule 5). Not for users."""
        if self._failure is None:
            self._failure = error.with_traceback(None)  # which would hold the value, and this arena

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, extent: Extent, outs: Sequence[HostArray]) -> None:
        """Fill contiguous arrays with what `write` stored.

        Raises:
            OSError: if the file can't be read or isn't what was written.
            RuntimeError: if the program has written into the value before it was in the file.
        """
        if extent.is_stale():
            raise RuntimeError(_STALE)
        staging = extent.staging
        if staging is not None:  # its write is under way, or failed
            scatter(staging, 0, outs)
        elif (pages := self._take_ahead(extent)) is not None:
            scatter(pages, 0, outs)
        else:
            self._read_now(extent, outs)
        self._read_ahead(extent)

    def take(self, extent: Extent) -> HostArray | None:
        """The pages of a value that are in memory: the caller's from now on. None if it is to be read."""
        if is_much_for(whole_pages(extent.nbytes), extent.nbytes) or extent.is_stale():
            return None
        pages, source = extent.in_memory()
        if pages is None:
            pages = self._take_ahead(extent)
        elif source is None:  # the writer reads them: they may not be written
            return None
        if pages is not None:
            self._read_ahead(extent)
        return pages

    def _read_now(self, extent: Extent, outs: Sequence[HostArray]) -> None:
        total = 0
        whole = as_bytes(outs[0]) if len(outs) == 1 and is_aligned(outs[0]) else None
        piece: HostArray | None = None
        for start, stop in pieces(whole_pages(extent.nbytes), _PIECE):
            if whole is not None and stop <= extent.nbytes:
                total += self.read_pages(extent, whole[start:stop], start)
                continue
            piece = lease_pages(stop - start, SCRATCH) if piece is None else piece
            total += self.read_pages(extent, piece[: stop - start], start)
            scatter(piece[: stop - start], start, outs)
        self.check(extent, total)

    def read_pages(self, extent: Extent, pages: HostArray, start: int) -> int:
        """Read pages of an extent, ``start`` bytes into it, and give their checksum. Not for users."""
        try:
            self.file.read(pages, extent.start + start)
        except OSError as error:
            raise explained(error, f"could not read {extent.nbytes:,} bytes", self.directory) from error
        self._read.add(pages.nbytes)
        return 0 if extent.checksum is None else checksum(pages, start // PAGE)

    def check(self, extent: Extent, total: int) -> None:
        """Compare the checksum of all that was read of an extent. Not for users.

        Raises:
            OSError: if it isn't that of what was written.
        """
        total %= 2**64
        if extent.checksum is not None and total != extent.checksum:
            raise OSError(
                errno.EIO,
                f"save_on_disk: damaged data: {extent.nbytes:,} bytes at offset {extent.start:,} have checksum"
                f" {total:016x}, written was {extent.checksum:016x}",
                self.directory,
            )

    def _take_ahead(self, extent: Extent) -> HostArray | None:
        """What was read ahead; None if there is nothing, or it is no good: reading again says why."""
        ahead = extent.ahead
        if ahead is None or os.getpid() != self.pid:
            return None
        self._reader.wait_until(ahead.arrived.is_set)
        extent.ahead = None
        return ahead.pages if ahead.is_good() else None

    def _read_ahead(self, read: Extent) -> None:
        """Have the values read that were saved before a value, the last one first (note, rule 6)."""
        if not self.staging or os.getpid() != self.pid:
            return
        with self._lock:
            self._order.follow(read)
            room = self.staging - self._bytes_ahead()
            for extent in self._order.coming():
                if extent.ahead is not None or extent.start < 0:
                    continue
                size = whole_pages(extent.nbytes)
                room -= size
                if room < 0:
                    return
                staging, source = extent.in_memory()
                if staging is not None:
                    extent.ahead = ahead = Ahead.of(staging, source)
                    self._ahead.append(weakref.ref(ahead))
                    continue
                if not _has_room(size):
                    return
                try:
                    extent.ahead = ahead = Ahead(lease_pages(size, SCRATCH))
                except MemoryBudgetError:  # another thread was faster
                    return
                self._ahead.append(weakref.ref(ahead))
                self._reader.submit(read_job(weakref.ref(extent), weakref.ref(ahead)))

    def _bytes_ahead(self) -> int:
        """Bytes that are read ahead, after those were dropped that the pass has left behind."""
        for extent in self._order.passed():
            extent.ahead = None
        alive = [(reference, reference()) for reference in self._ahead]
        self._ahead = [reference for reference, ahead in alive if ahead is not None]
        return sum(ahead.pages.nbytes for _, ahead in alive if ahead is not None)


# A list, which threads change and read in one step each.
_arenas: list[weakref.ref[Arena]] = []


def _give_up_staging(nbytes: int) -> None:
    # No lock of an arena is taken here: whoever holds one may be waiting for the pool, which holds its own.
    for arena in [reference() for reference in list(_arenas)]:
        if arena is not None:
            arena.give_up_staging()


class _Total:
    """A number that several threads add to."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, nbytes: int) -> None:
        with self._lock:
            self.value += nbytes


def _has_room(nbytes: int) -> bool:
    """Whether so many bytes fit under the host's limit with nothing given up for them."""
    of = pool(CPU)
    limit = of.get_limit()
    return limit is None or of.held_bytes() + nbytes <= limit


def explained(error: OSError, what: str, directory: str) -> OSError:
    """The same error, with what was tried: its type follows from its number."""
    reason = error.strerror or str(error)
    prefix = "" if reason.startswith("save_on_disk: ") else f"save_on_disk: {what}: "
    return OSError(error.errno or errno.EIO, f"{prefix}{reason}", directory)
