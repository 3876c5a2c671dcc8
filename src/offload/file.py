"""A file without a name: how it is made, how it grows, and transfers of whole pages to and from it.

Transfers go around the page cache where the file system lets them: a stream of writes through the cache is slowed to a
fifth once it has filled, and what it holds counts as this process's memory.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from ..memory import format_size
from .pages import HostArray

_POSITIONED = hasattr(os, "preadv")
_GROWTH_BYTES = 64 << 20
_MOST_GROWTH_BYTES = 1 << 30
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs"})
_NO_ALLOCATION = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV})


class NamelessFile:
    """A temporary file that no directory shows (see the note of the module).

    Args:
        directory: where.
        limit: the most bytes that are reserved for it.

    Attributes:
        direct: whether transfers go around the page cache.
        reserved: bytes of the disk that it has for certain; 0 where the system can't tell.

    Raises:
        FileNotFoundError, NotADirectoryError, PermissionError, OSError: if no file can be made there.
    """

    def __init__(self, directory: str, limit: int | None) -> None:
        self.directory = directory
        self.reserved = 0
        self._limit = limit
        self._allocates = hasattr(os, "posix_fallocate")
        self._file = _open(directory)
        self._seek = threading.Lock()
        self.direct = _go_direct(self._file.fileno())

    def fileno(self) -> int:
        """The file's descriptor."""
        return int(self._file.fileno())

    def close(self) -> None:
        """Close it, which removes it."""
        self._file.close()

    def reserve(self, end: int) -> None:
        """Have room on the disk for the first ``end`` bytes.

        Raises:
            OSError: if the disk is full.
        """
        needed = end - self.reserved
        if needed <= 0:
            return
        free = shutil.disk_usage(self.directory).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({format_size(free)} free)")
        if not self._allocates:
            return
        more = max(min(max(self.reserved, _GROWTH_BYTES), _MOST_GROWTH_BYTES, free // 4), needed)
        if self._limit is not None:
            more = max(min(more, self._limit - self.reserved), needed)
        for size in dict.fromkeys((more, needed)):
            try:
                os.posix_fallocate(self.fileno(), self.reserved, size)
            except OSError as error:
                if error.errno in _NO_ALLOCATION:
                    self._allocates = False
                    return
                if size == needed:
                    raise
            else:
                self.reserved += size
                return

    def write(self, pages: HostArray, position: int) -> None:
        """Write whole pages at a position of the file.

        Raises:
            OSError: if they can't be written.
        """
        done = 0
        while done < pages.nbytes:
            direct = self.direct
            try:
                written = self._write_some(pages[done:], position + done)
            except OSError as error:
                self._leave_direct(error, direct)
                continue
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += written

    def read(self, pages: HostArray, position: int) -> None:
        """Fill whole pages from a position of the file.

        Raises:
            OSError: if they can't be read, or the file ends before.
        """
        done = 0
        while done < pages.nbytes:
            direct = self.direct
            try:
                got = self._read_some(pages[done:], position + done)
            except OSError as error:
                self._leave_direct(error, direct)
                continue
            if not got:
                raise OSError(errno.EIO, f"the file ends {pages.nbytes - done:,} bytes early")
            done += got

    def _leave_direct(self, error: OSError, was_direct: bool) -> None:
        """Go through the page cache after a transfer that can't go around it; otherwise raise the error.

        Another thread may have seen to it since the transfer began.
        """
        if not was_direct or error.errno != errno.EINVAL:
            raise error
        import fcntl

        flags = fcntl.fcntl(self.fileno(), fcntl.F_GETFL)
        fcntl.fcntl(self.fileno(), fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self.direct = False

    def _write_some(self, run: HostArray, position: int) -> int:
        if _POSITIONED:
            return os.pwrite(self.fileno(), run.data, position)
        with self._seek:
            self._file.seek(position)
            return int(self._file.write(run.data))

    def _read_some(self, run: HostArray, position: int) -> int:
        if _POSITIONED:
            return os.preadv(self.fileno(), [run.data], position)
        with self._seek:
            self._file.seek(position)
            return int(self._file.readinto(run.data))


def _open(directory: str) -> Any:
    os.stat(os.path.join(directory, ""))  # says what is wrong with the directory, not with a file in it
    return tempfile.TemporaryFile(buffering=0, dir=directory, prefix="stowgrad-")


def _go_direct(descriptor: int) -> bool:
    """Have transfers go around the page cache: Linux wants whole pages for that, macOS nothing, Windows has no way."""
    if not _POSITIONED:
        return False
    import fcntl

    try:
        if hasattr(os, "O_DIRECT"):
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT)
            return True
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)
    except OSError:
        return False
    return False


def lies_in_memory(directory: str) -> bool:
    """Whether a directory's files take memory instead of a disk; where the system doesn't tell, they don't."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    path = os.path.realpath(directory)
    found = ("", "")
    for line in mounts:
        _, point, kind, *_ = line.split()
        point = point.replace("\\040", " ")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1] in _IN_MEMORY


def default_directory() -> str:
    """The first of the usual directories for temporary files that isn't in memory; else the first of them."""
    usual = [tempfile.gettempdir(), *(name for name in ("/var/tmp", os.getcwd()) if os.path.isdir(name))]
    return next((name for name in usual if not lies_in_memory(name) and os.access(name, os.W_OK)), usual[0])
