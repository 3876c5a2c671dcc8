"""Exceptions without the tensors in their frames."""

from __future__ import annotations

import traceback
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def clear_frames(exception: E) -> E:
    """Drop the local variables of all finished frames that an exception refers to, and return it.

    An exception that is kept keeps the frames of its traceback, and those keep activations: the frames of the program,
    that is; those of this package are empty anyway. Causes, contexts and the parts of a group are cleared too; type,
    message and traceback stay.

    >>> def fail():
    ...     activations = bytearray(1000)
    ...     raise ValueError("no")
    >>> try:
    ...     fail()
    ... except ValueError as error:
    ...     kept = clear_frames(error)
    >>> kept.__traceback__.tb_next.tb_frame.f_locals
    {}
    """
    waiting: list[BaseException | None] = [exception]
    seen: set[int] = set()
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        waiting += [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions
    return exception
