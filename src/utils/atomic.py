"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import psutil


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file beside ``path``, and let it take that place when it is complete and on the disk.

    The file is written under another name in the same directory, flushed to the disk, renamed, and the directory is
    flushed too: after a crash at any moment, ``path`` is the old file or the new one. If anything fails, the old file
    stays and nothing else is left. What a killed process left is removed by the next call for the same path.

    Raises:
        OSError: if the directory can't be written, the disk is full, or ``path`` is there and no regular file.
    """
    target = Path(os.path.realpath(path))  # a link stays a link, and what it points to is replaced
    mode = _mode_of(target)
    _remove_abandoned(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(target)  # "No space left on device" alone does not say where
        raise
    _flush_directory(target.parent)


def _mode_of(target: Path) -> int | None:
    """The permissions of the file that is replaced, or None if there is none."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(f"{target} is there and is no regular file; it will not be replaced")
    return stat.S_IMODE(mode)


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files for ``target`` whose processes are gone."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(\d+)-[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            match = pattern.fullmatch(entry.name)
            if match is not None and not psutil.pid_exists(int(match[1])):
                os.unlink(entry.path)


def _flush_directory(directory: Path) -> None:
    """Make a rename in a directory survive a crash, where directories can be flushed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
