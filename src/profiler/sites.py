"""Source lines: where in the user's code something happened.

A site is a code object and an instruction in it, which costs about 1 us to find; its line number, which costs more, is
looked up only for the few sites that a report shows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeAlias

from .model import Site

# What is recorded: the code and the offset of an instruction in it.
RawSite: TypeAlias = tuple[CodeType, int]

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_STANDARD = frozenset({"contextlib", "functools", "runpy", "threading", "concurrent.futures.thread"})
_internal: dict[str, bool] = {}


def user_site(depth: int = 1) -> RawSite | None:
    """The innermost frame on this thread's stack that is the user's, or None where there is none.

    Args:
        depth: how many frames to leave out to begin with; the caller of this function is frame 1.
    """
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if not (_internal[name] if name in _internal else _look(name, frame.f_globals.get("__name__"))):
            return code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return None


def user_stack(most: int, depth: int = 1) -> tuple[RawSite, ...]:
    """The user's innermost frames on this thread's stack, ``most`` of them at most."""
    found: list[RawSite] = []
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and len(found) < most:
        if is_users(frame):
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs code of the user's."""
    name = frame.f_code.co_filename
    return not (_internal[name] if name in _internal else _look(name, frame.f_globals.get("__name__")))


def _look(filename: str, module: object) -> bool:
    """Whether a file belongs to this package or to the machinery that calls functions for others."""
    _internal[filename] = inside = filename.startswith((_PACKAGE, "<frozen ")) or module in _STANDARD
    return inside


def resolve(site: RawSite | None) -> Site | None:
    """The file, line and function of a recorded site."""
    if site is None:
        return None
    code, instruction = site
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
            break
    return Site(shown_path(code.co_filename), line, code.co_qualname)


def shown_path(filename: str) -> str:
    """A path as reports show it: relative to the working directory, or else its last two parts.

    Reports are sent to others and compared across machines, so they do not tell where a home directory is.
    """
    if filename.startswith("<"):
        return filename
    path = Path(filename).absolute()
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        return "/".join(path.parts[-2:])
