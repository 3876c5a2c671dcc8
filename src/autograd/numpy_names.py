"""NumPy's names of arguments, which PyTorch's functions take as well: ``x.sum(axis=0, keepdims=True)``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["numpy_names"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OURS = {"axis": "dim", "keepdims": "keepdim"}


def numpy_names(function: _Function) -> _Function:
    """A function that takes ``axis`` for its ``dim``, and ``keepdims`` for its ``keepdim``."""

    @functools.wraps(function)
    def named(*args: Any, **keywords: Any) -> Any:
        if keywords:
            for theirs, ours in _OURS.items():
                if theirs in keywords:
                    if ours in keywords:
                        raise TypeError(f"{function.__name__}() got both {ours!r} and {theirs!r}, which mean the same")
                    keywords[ours] = keywords.pop(theirs)
        return function(*args, **keywords)

    return named  # type: ignore[return-value]
