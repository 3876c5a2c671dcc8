"""Exceptions that leave the library hold no tensors in its frames."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from itertools import compress
from types import FrameType, FunctionType
from typing import Any, TypeVar

from ..saved_tensors.lines import PACKAGE

T = TypeVar("T")

_LIBRARIES = frozenset({"cupy", "numpy", "scipy"})


def user_level() -> int:
    """The ``stacklevel`` at which a warning that the caller gives points to the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def clear_own_frames(exception: BaseException) -> None:
    """Drop the local variables of the finished frames of this package, and of NumPy, that an exception refers to.

    The user's own frames keep theirs. Causes, contexts and the parts of a group are cleared too.
    """
    waiting: list[BaseException | None] = [exception]
    seen: set[int] = set()
    nested: dict[int, FrameType] = {}  # by id: a frame that raises again is in a traceback twice
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        traceback, own = error.__traceback__, False
        while traceback is not None:
            frame = traceback.tb_frame
            own = _is_own(frame)
            if own:
                try:
                    frame.clear()
                except RuntimeError:  # it still runs: it is below the entry that is being left
                    pass
                if frame.f_code.co_freevars and "<locals>" in frame.f_code.co_qualname:
                    nested[id(frame)] = frame
            traceback = traceback.tb_next
        if own and isinstance(error, AttributeError):
            error.obj = None  # what lacks the attribute
        waiting += [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions
    if nested:
        _empty_cells(list(nested.values()))


def _is_own(frame: FrameType) -> bool:
    """Whether a frame is of this package, or of a library that computes for it."""
    if frame.f_code.co_filename.startswith(PACKAGE):
        return True
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES


def _empty_cells(frames: list[FrameType]) -> None:
    """Drop what nested functions have of the functions around them, where only these finished frames refer to them.

    A frame that is cleared keeps the function that it ran (in Python 3.11 a comprehension is one, too), which keeps the
    cells of variables. A function that someone else has may run again, and is left alone.
    """
    listed = [value for frame in frames for value in gc.get_referents(frame) if type(value) is FunctionType]
    owners = Counter(map(id, listed))
    rest, dead = _once(listed), list[FunctionType]()
    del listed
    while True:
        lonely = [count == owners[id(function)] for function, count in zip(rest, _references(rest))]
        if True not in lonely:
            return
        dead += compress(rest, lonely)
        rest = [function for function, is_dead in zip(rest, lonely) if not is_dead]
        _empty_cells_of(dead)


def _empty_cells_of(functions: list[FunctionType]) -> None:
    cells = [cell for function in functions for cell in function.__closure__ or ()]
    shares = Counter(map(id, cells))
    cells = _once(cells)
    for cell, count in zip(cells, _references(cells)):
        if count == shares[id(cell)]:
            del cell.cell_contents


def _once(values: list[T]) -> list[T]:
    return list({id(value): value for value in values}.values())


def _references(values: list[Any]) -> list[int]:
    """How often each object is referred to, besides by the list."""
    return [sys.getrefcount(value) - _BY_A_LIST for value in values]


_BY_A_LIST = 0
_BY_A_LIST = _references([object()])[0]
