"""NumPy's names of arguments, which PyTorch's functions take as well: ``x.sum(axis=0, keepdims=True)``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .entries import by_hand
from .frames import clear_own_frames
from .misplaced import no_tensor_was_given

__all__ = ["numpy_names"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OURS = {"axis": "dim", "keepdims": "keepdim"}


def numpy_names(function: _Function) -> _Function:
    """A function that takes ``axis`` for its ``dim``, and ``keepdims`` for its ``keepdim``. It is an entry, too."""

    @functools.wraps(function)
    def named(*args: Any, **keywords: Any) -> Any:
        try:
            if keywords:
                _rename(function.__name__, keywords)
            return function(*args, **keywords)
        except BaseException as error:
            message = no_tensor_was_given(error, function, args, keywords)
            del args, keywords
            clear_own_frames(error)
            if message is None:
                raise
        raise TypeError(message)

    return cast(_Function, by_hand(named))


def _rename(name: str, keywords: dict[str, Any]) -> None:
    for theirs, ours in _OURS.items():
        if theirs in keywords:
            if ours in keywords:
                raise TypeError(f"{name}() got both {ours!r} and {theirs!r}, which mean the same")
            keywords[ours] = keywords.pop(theirs)
