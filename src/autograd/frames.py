"""Exceptions that leave the library hold no tensors in its frames."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..saved_tensors.lines import PACKAGE

P = ParamSpec("P")
R = TypeVar("R")


def user_level() -> int:
    """The ``stacklevel`` at which a warning that the caller gives points to the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def clear_own_frames(exception: BaseException) -> None:
    """Drop the local variables of the finished frames of this package that an exception refers to.

    The user's own frames keep theirs. Causes, contexts and the parts of a group are cleared too.
    """
    waiting: list[BaseException | None] = [exception]
    seen: set[int] = set()
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        traceback = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename.startswith(PACKAGE):
                try:
                    frame.clear()
                except RuntimeError:  # it still runs: it is below the entry that is being left
                    pass
            traceback = traceback.tb_next
        waiting += [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions


def leaves_no_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public entry: no frame of the library holds a tensor once an exception has left it."""

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            del args, kwargs
            clear_own_frames(error)
            raise

    return entry
