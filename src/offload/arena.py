"""One file without a name, and the parts of it that packed values lie in.

NOTE [ Arenas ]
1. The file is removed from its directory as it is made, so nothing is left there however the process ends.
2. An `Extent` owns its part and frees it when it dies. That may happen anywhere, also in the cyclic collector while the
   arena allocates, so freeing takes no lock: it appends to a deque, which the next allocation reads.
3. After a fork the child may read: it has the file open. It never writes to the parent's arena nor frees a part of it;
   whoever packs in the child opens an arena of its own.
4. Arrays are written and read in place, without a copy, whatever their size.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..memory import format_size
from ..saved_tensors.payload import as_bytes, byte_runs
from .free_list import FreeList

HostArray: TypeAlias = np.ndarray[Any, Any]

# Parts start at pages, so that a later direct transfer needs no other layout.
_PAGE = 4096
_POSITIONED = hasattr(os, "preadv")


class Extent:
    """A part of an arena; dropping it frees the part.

    Attributes:
        start: where in the file it begins.
        nbytes: bytes written.
        place: ``"disk"``.
    """

    __slots__ = ("arena", "checksum", "nbytes", "start")

    place = "disk"

    def __init__(self, arena: Arena, start: int, nbytes: int) -> None:
        self.arena = arena
        self.nbytes = nbytes
        self.checksum: int | None = None
        self.start = start

    def release(self) -> None:
        """Free the part now."""
        start, self.start = self.start, -1
        if start >= 0:
            self.arena.free(start, self.nbytes)

    def __del__(self) -> None:
        self.release()


class Arena:
    """A temporary file that holds packed values (NOTE [ Arenas ]).

    Args:
        directory: where; the system's directory for temporary files by default.
        limit: the most bytes that it may take.
        checksum: whether each part is checked when it is read.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError, OSError: if no file can be made there.
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, limit: int | None = None, checksum: bool = False
    ) -> None:
        self.directory = os.fspath(tempfile.gettempdir() if directory is None else directory)
        self.limit = limit
        self.checksum = checksum
        self.pid = os.getpid()
        self._file = _nameless_file(self.directory)
        self._parts = FreeList()
        self._freed: deque[tuple[int, int]] = deque()
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close the file; its extents can't be read any more."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def used_bytes(self) -> int:
        """Bytes of the file that extents take, in whole pages."""
        with self._lock:
            self._settle()
            return self._parts.taken

    def file_bytes(self) -> int:
        """The size of the file: the most that was taken at any time."""
        return os.fstat(self._file.fileno()).st_size

    # -- parts ---------------------------------------------------------------------------------------------------------

    def free(self, start: int, nbytes: int) -> None:
        """Take a part back (note, rule 2). Not for users: a dying `Extent` calls it."""
        if os.getpid() == self.pid:
            self._freed.append((start, _pages(nbytes)))

    def _allocate(self, nbytes: int) -> Extent:
        size = _pages(nbytes)
        with self._lock:
            self._settle()
            if self.limit is not None and self._parts.taken + size > self.limit:
                raise OSError(
                    errno.ENOSPC,
                    f"save_on_disk: {nbytes:,} bytes more would pass its limit of {self.limit:,} bytes"
                    f" ({format_size(self._parts.taken)} in use); raise limit= or save less",
                    self.directory,
                )
            return Extent(self, self._parts.take(size), nbytes)

    def _settle(self) -> None:
        while self._freed:
            self._parts.give(*self._freed.popleft())

    # -- transfers -----------------------------------------------------------------------------------------------------

    def write(self, arrays: Sequence[HostArray]) -> Extent:
        """Store the elements of some arrays, of any strides, in C order one after the other.

        Raises:
            OSError: if the limit or the disk is full or the file can't be written; nothing stays allocated.
        """
        if os.getpid() != self.pid:
            raise RuntimeError("an arena is written only by the process that made it; make a new one after a fork")
        extent = self._allocate(sum(array.nbytes for array in arrays))
        checksum = 0
        try:
            position = extent.start
            for array in arrays:
                for run in _runs(array):
                    self._write_all(run, position)
                    position += run.nbytes
                    if self.checksum:
                        checksum = zlib.crc32(run.data, checksum)
        except BaseException as error:
            extent.release()  # the traceback would keep it
            if isinstance(error, OSError):
                raise _explained(error, f"could not write {extent.nbytes:,} bytes", self.directory) from error
            raise
        if self.checksum:
            extent.checksum = checksum
        return extent

    def read(self, extent: Extent, outs: Sequence[HostArray]) -> None:
        """Fill contiguous arrays with what `write` stored.

        Raises:
            OSError: if the file can't be read or isn't what was written.
        """
        checksum = 0
        position = extent.start
        try:
            for out in outs:
                run = as_bytes(out)
                self._read_all(run, position)
                position += run.nbytes
                if extent.checksum is not None:
                    checksum = zlib.crc32(run.data, checksum)
        except OSError as error:
            raise _explained(error, f"could not read {extent.nbytes:,} bytes", self.directory) from error
        if extent.checksum is not None and checksum != extent.checksum:
            raise OSError(
                errno.EIO,
                f"save_on_disk: damaged data: {extent.nbytes:,} bytes at offset {extent.start:,} have checksum"
                f" {checksum:08x}, written was {extent.checksum:08x}",
                self.directory,
            )

    def _write_all(self, run: HostArray, position: int) -> None:
        done = 0
        while done < run.nbytes:
            written = self._write_some(run[done:], position + done)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += written

    def _read_all(self, run: HostArray, position: int) -> None:
        done = 0
        while done < run.nbytes:
            got = self._read_some(run[done:], position + done)
            if not got:
                raise OSError(errno.EIO, f"the file ends {run.nbytes - done:,} bytes early")
            done += got

    def _write_some(self, run: HostArray, position: int) -> int:
        if _POSITIONED:
            return os.pwrite(self._file.fileno(), run.data, position)
        with self._lock:
            self._file.seek(position)
            return int(self._file.write(run.data))

    def _read_some(self, run: HostArray, position: int) -> int:
        if _POSITIONED:
            return os.preadv(self._file.fileno(), [run.data], position)
        with self._lock:
            self._file.seek(position)
            return int(self._file.readinto(run.data))


def _runs(array: HostArray) -> Iterable[HostArray]:
    return (as_bytes(array),) if array.flags.c_contiguous else byte_runs(array)


def _pages(nbytes: int) -> int:
    return max(-(-nbytes // _PAGE), 1) * _PAGE


def _nameless_file(directory: str) -> Any:
    try:
        os.stat(os.path.join(directory, ""))  # says what is wrong with the directory, not with a file in it
        return tempfile.TemporaryFile(buffering=0, dir=directory, prefix="stowgrad-")
    except OSError as error:
        raise _explained(error, "cannot make a file in this directory", directory) from error


def _explained(error: OSError, what: str, directory: str) -> OSError:
    """The same error, with what was tried: its type follows from its number."""
    reason = error.strerror or str(error)
    return OSError(error.errno or errno.EIO, f"save_on_disk: {what}: {reason}", directory)
