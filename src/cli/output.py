"""Where the command's output goes: reports to stdout, notes to stderr, profiles to files that are never overwritten."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from . import colour

_WIDTH_WITHOUT_TERMINAL = 100


class CommandError(Exception):
    """Wrong input: the message is printed, and the exit code is 2."""


def note(text: str) -> None:
    """A line for the user that is no result."""
    print_text(text, sys.stderr)


def print_failures(texts: Iterable[str], color: str = "auto") -> None:
    """Which memory checks failed, a line each."""
    for text in texts:
        line = f"memprof: {text}"
        print_text(colour.alarm(line) if colour.has_colour(color, sys.stderr) else line, sys.stderr)


def print_report(text: str, color: str, stream: TextIO | None = None) -> None:
    """A report, in colour where ``--color`` and the stream allow it."""
    stream = sys.stdout if stream is None else stream
    print_text(colour.painted(text) if colour.has_colour(color, stream) else text, stream)


def print_text(text: str, stream: TextIO | None = None) -> None:
    """Print to a stream (stdout by default), whatever its encoding can't hold being escaped."""
    stream = sys.stdout if stream is None else stream
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def terminal_width() -> int:
    """``COLUMNS``, or the terminal's width, or 100 where there is none."""
    return shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 24)).columns


def check_target(name: str, force: bool) -> None:
    """See before a long run that its profile can be written.

    Raises:
        CommandError: if there is such a file already (without ``force``), or no such directory.
    """
    if name == "-":
        return
    path = Path(name)
    if path.is_dir():
        raise CommandError(f"{name} is a directory; name a file")
    if path.exists() and not force:
        raise CommandError(_exists(name))
    if not path.parent.is_dir():
        raise CommandError(f"there is no directory {path.parent} to write {path.name} to")
    if not os.access(path.parent, os.W_OK):
        raise CommandError(f"the directory {path.parent} can't be written to")


def write_target(name: str, text: str, force: bool) -> None:
    """Write a profile, the whole of it or nothing.

    Raises:
        CommandError: if it can't be written, or has come to exist and ``force`` is off.
    """
    if name == "-":
        print_text(text.rstrip())
        return
    path = Path(name)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        if path.exists() and not force:
            raise CommandError(_exists(name))
        partial.replace(path)
    except OSError as error:
        raise CommandError(f"can't write {name}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def _exists(name: str) -> str:
    return f"{name} exists already; choose another name with -o, or overwrite it with -f"
