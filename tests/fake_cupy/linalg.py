"""``cupy.linalg`` of the double, ``cupyx.errstate``, what makes matrices; errors are raised only where asked for."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .arrays import _device, host, ndarray, words

_raising = [False]


@contextlib.contextmanager
def errstate(*, linalg: str) -> Iterator[None]:
    before = _raising[0]
    _raising[0] = linalg == "raise"
    try:
        yield
    finally:
        _raising[0] = before


def _returning(name: str) -> Any:
    function = getattr(np.linalg, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            found = function(*map(host, args), **kwargs)
        except np.linalg.LinAlgError:
            if _raising[0]:
                raise
            raise AssertionError(
                f"cupy.linalg.{name} leaves garbage here: errors are ignored unless asked for"
            ) from None
        return tuple(map(_device, found)) if isinstance(found, tuple) else _device(found)

    return run


def arange(stop: int) -> ndarray:
    return _device(np.arange(stop))


def eye(rows: int, columns: int | None = None, dtype: Any = float) -> ndarray:
    return _device(np.eye(rows, columns, dtype=dtype))


def added(made: dict[str, types.ModuleType]) -> dict[str, types.ModuleType]:
    """The modules of the double, with these."""
    module = made["cupy.linalg"] = types.ModuleType("cupy.linalg")
    names = words("cholesky det eigh eigvalsh inv lstsq qr slogdet solve svd")
    vars(module).update({name: _returning(name) for name in names})
    vars(made["cupy"]).update({"arange": arange, "eye": eye, "linalg": module})
    vars(made["cupyx"])["errstate"] = errstate
    return made
