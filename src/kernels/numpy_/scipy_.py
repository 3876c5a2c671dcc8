"""SciPy, which is optional: loaded when a kernel needs it for the first time."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__: list[str] = []

_loaded: dict[str, ModuleType] = {}


def load(name: str) -> ModuleType:
    """A module of SciPy, as ``load("scipy.special")``.

    Raises:
        ImportError: if SciPy is not installed.
    """
    found = _loaded.get(name)
    if found is None:
        try:
            found = _loaded[name] = importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f'this operation computes with {name}, and SciPy is not installed: pip install "stowgrad[scipy]"'
            ) from error
    return found
