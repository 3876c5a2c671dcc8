"""Names that the user knows: the path of a module in its model, the names of parameters and their gradients.

Models are known by their methods only (``named_modules``, ``named_parameters``, ``named_buffers``), and by weak
reference: watching a model does not keep it alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any


class ModuleNames:
    """The paths of all modules below the outermost ones that were called."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._roots: dict[int, weakref.ref[Any]] = {}

    def path(self, module: object, name: str, parent: str) -> tuple[str, bool]:
        """The path of a module that is being called, and whether it is a model that was not known before.

        Args:
            module: the module.
            name: what the caller calls it; the fall-back below ``parent``.
            parent: the path of the module that calls it, or empty.
        """
        known = self._paths.get(id(module))
        if known is not None and known[0]() is module:
            return known[1], False
        if parent:
            path = f"{parent}.{name}"  # called, but not registered below the model
            return (path if self._remember(module, path) else parent), False
        return self._register(module, name)

    def _register(self, root: Any, name: str) -> tuple[str, bool]:
        title = type(root).__name__ if root is not None else name
        if not self._remember(root, title):
            return name, False
        self._roots[id(root)] = self._paths[id(root)][0]
        for path, module in _pairs(root, "named_modules"):
            if module is not root:
                self._remember(module, path)
        return title, True

    def _remember(self, module: object, path: str) -> bool:
        try:
            self._paths[id(module)] = (weakref.ref(module), path)
        except TypeError:  # None, or a class without weak references
            return False
        return True

    def roots(self) -> list[Any]:
        """The models that are still alive."""
        alive = [(key, reference()) for key, reference in self._roots.items()]
        self._roots = {key: weakref.ref(root) for key, root in alive if root is not None}
        return [root for _, root in alive if root is not None]


def tensor_names(root: Any) -> Iterator[tuple[int, str]]:
    """The storage id and the name of each parameter and buffer of a model."""
    for method in ("named_parameters", "named_buffers"):
        for name, tensor in _pairs(root, method):
            storage = getattr(tensor, "_storage", None)
            if storage is not None:
                yield storage.id, name


def gradient_names(root: Any) -> Iterator[tuple[int, str]]:
    """The storage id and the name of each gradient of a model."""
    for name, tensor in _pairs(root, "named_parameters"):
        storage = getattr(getattr(tensor, "grad", None), "_storage", None)
        if storage is not None:
            yield storage.id, f"{name}.grad"


def state_names(optimizer: Any, name_of: Callable[[int], str]) -> Iterator[tuple[int, str]]:
    """The storage id and the name of each tensor in an optimizer's state, after the name of its parameter."""
    for parameter, entries in dict(getattr(optimizer, "state", None) or {}).items():
        storage = getattr(parameter, "_storage", None)
        if storage is None or not isinstance(entries, dict):
            continue
        for key, tensor in entries.items():
            held = getattr(tensor, "_storage", None)
            if held is not None:
                yield held.id, f"{name_of(storage.id) or 'parameter'}.{key}"


def _pairs(root: Any, method: str) -> Iterator[tuple[str, Any]]:
    listed = getattr(root, method, None)
    return iter(listed()) if callable(listed) else iter(())
