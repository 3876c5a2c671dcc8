"""Which modules a program is in, kept only while somebody asks, and the policies that are attached to modules.

Modules are known by ``named_modules`` only and held weakly: this package stands below ``nn``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

# A `nn.Module`.
Module: TypeAlias = Any
# Which modules a condition lets through: paths with wildcards, modules, several of them, or a function of the path.
Modules: TypeAlias = "str | Module | Iterable[Any] | Callable[[str], bool]"

# How many policies ask. A module that is called looks at this, and does nothing else where it is 0.
followed = 0
_lock = threading.Lock()


class Place(NamedTuple):
    """A module that is being called, and its path below the outermost one."""

    module: weakref.ref[Any]
    path: str


_stack: ContextVar[tuple[Place, ...]] = ContextVar("stowgrad_modules", default=())
_names: weakref.WeakKeyDictionary[Module, dict[int, tuple[weakref.ref[Any], str]]] = weakref.WeakKeyDictionary()
_attached: weakref.WeakKeyDictionary[Module, tuple[Any, ...]] = weakref.WeakKeyDictionary()


def follow(by: int) -> None:
    """Ask for the modules (1), or don't any more (-1)."""
    global followed
    with _lock:
        followed += by


def is_inside(module: Module) -> bool:
    """Whether a module is the innermost one that is being called."""
    stack = _stack.get()
    return bool(stack) and stack[-1].module() is module


def current_path() -> str:
    """The path of the innermost module that is being called, below the outermost one; the latter's is its class."""
    stack = _stack.get()
    if not stack:
        return ""
    return stack[-1].path or type(stack[0].module()).__name__


class inside:  # noqa: N801  # a context manager, named as it reads
    """Run a module: its place is on the stack, and the policies that are attached to it are active."""

    __slots__ = ("_before", "_module", "_policies")

    def __init__(self, module: Module) -> None:
        self._module = module

    def __enter__(self) -> None:
        module, before = self._module, _stack.get()
        path = _path_below(before, module) if before else ""
        self._before = before
        self._policies = ExitStack()
        _stack.set((*before, Place(weakref.ref(module), path)))
        try:
            for policy in _attached.get(module, ()):
                self._policies.enter_context(policy)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._policies.close()
        finally:
            _stack.set(self._before)


def _path_below(stack: tuple[Place, ...], module: Module) -> str:
    parent = stack[-1].module()
    path = stack[-1].path
    name = _name_in(parent, module) if parent is not None else type(module).__name__
    return f"{path}.{name}" if path else name


def _name_in(parent: Module, module: Module) -> str:
    """What a module is called below another one; its class if it isn't registered there."""
    names = _names.get(parent)
    known = None if names is None else names.get(id(module))
    if known is None or known[0]() is not module:
        names = {id(child): (weakref.ref(child), name) for name, child in parent.named_modules()}
        names.setdefault(id(module), (weakref.ref(module), type(module).__name__))
        _names[parent] = names
        known = names[id(module)]
    return known[1]


# -- conditions --------------------------------------------------------------------------------------------------------


def is_module(found: object) -> bool:
    """Whether something is a module: it knows its submodules by name."""
    return hasattr(found, "named_modules")


def condition_for(modules: Modules) -> tuple[Callable[[], bool], str]:
    """A question about the modules that are being called, and the same in words.

    Raises:
        TypeError: for anything that names no module.
    """
    if isinstance(modules, str):
        return lambda: any(_matches(place.path, modules) for place in _stack.get()), f"module {modules}"
    if is_module(modules):
        reference = weakref.ref(modules)
        name = type(modules).__name__
        return lambda: any(place.module() is reference() for place in _stack.get()), f"module {name}"
    if callable(modules):
        asked = modules
        name = getattr(asked, "__name__", type(asked).__name__)
        return lambda: bool(_stack.get()) and bool(asked(_stack.get()[-1].path)), f"module by {name}"
    if not isinstance(modules, Iterable):
        raise TypeError(f"where: module must be a path, a module, several or a function, got {type(modules).__name__}")
    several = [condition_for(one) for one in modules]
    text = " or ".join(text.removeprefix("module ") for _, text in several)
    return lambda: any(asks() for asks, _ in several), f"module {text}"


def _matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern part by part; ``*`` stands for one part or a piece of it."""
    parts, wanted = path.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(fnmatchcase(part, want) for part, want in zip(parts, wanted))


# -- attaching ---------------------------------------------------------------------------------------------------------


class Attachment:
    """A policy on some modules; `detach` takes it off them. Also a context manager that does so at its end."""

    def __init__(self, policy: Any, modules: list[Module]) -> None:
        self._policy = policy
        self._modules = [weakref.ref(module) for module in modules]
        for module in modules:
            _attached[module] = (*_attached.get(module, ()), policy)
        follow(1)

    def detach(self) -> None:
        """Take the policy off the modules; again has no effect."""
        modules, self._modules = self._modules, []
        for reference in modules:
            module = reference()
            left = list(_attached.get(module, ())) if module is not None else []
            if self._policy in left:
                left.remove(self._policy)
                _attached[module] = tuple(left)
        if modules:
            follow(-1)

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.detach()


def attach(policy: Any, modules: Module | Iterable[Module]) -> Attachment:
    """Have a policy active whenever one of some modules is called; for a list of modules that isn't called, its own.

    Raises:
        TypeError: for anything that is no module.
        ValueError: if there is no module.
    """
    found = _callable_modules(modules)
    if not found:
        raise ValueError("attach: expected at least one module, got none")
    return Attachment(policy, found)


def _callable_modules(modules: Any) -> list[Module]:
    if is_module(modules):
        if getattr(type(modules), "forward", None) is not getattr(_base_of(modules), "forward", None):
            return [modules]
        return [found for child in modules.children() for found in _callable_modules(child)]
    if isinstance(modules, str) or not isinstance(modules, Iterable):
        raise TypeError(f"attach: expected a module or several, got {type(modules).__name__}")
    return [found for module in modules for found in _callable_modules(module)]


def _base_of(module: Module) -> type:
    """The class at the root of all modules: its ``forward`` is the one that is missing."""
    return [kind for kind in type(module).__mro__ if "forward" in vars(kind)][-1]
