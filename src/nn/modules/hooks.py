"""Hooks around a module's forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ...autograd.hooks import RemovableHandle


class HookEntry(NamedTuple):
    """A hook and how it wants to be called.

    Attributes:
        function: the user's function.
        with_kwargs: whether it also takes (and a pre-hook may replace) the keyword arguments.
    """

    function: Callable[..., Any]
    with_kwargs: bool


Hooks: TypeAlias = dict[int, HookEntry]  # by registration number, in call order


def add_hook(hooks: Hooks, entry: HookEntry, prepend: bool) -> RemovableHandle:
    """Add a hook at the end, or in front of all others.

    Raises:
        TypeError: if it can't be called.
    """
    if not callable(entry.function):
        raise TypeError(f"a forward hook must be callable, got {type(entry.function).__name__}")
    before = dict(hooks)
    handle = RemovableHandle(hooks, entry)
    if prepend:
        for number in before:
            hooks[number] = hooks.pop(number)
    return handle


def call_pre_hooks(
    hooks: Hooks, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that ``forward`` gets after all pre-hooks.

    Raises:
        RuntimeError: if a hook that takes keyword arguments returns anything but None or a pair.
    """
    for hook, with_kwargs in list(hooks.values()):
        if with_kwargs:
            pair = hook(module, args, kwargs)
            if pair is not None:
                if not isinstance(pair, tuple) or len(pair) != 2:
                    raise RuntimeError(
                        "a forward pre-hook with keyword arguments must return None or a pair"
                        f" (new args, new kwargs), got {type(pair).__name__}"
                    )
                args, kwargs = pair
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def call_forward_hooks(hooks: Hooks, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """What the module returns after all forward hooks."""
    for hook, with_kwargs in list(hooks.values()):
        changed = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        if changed is not None:
            output = changed
    return output
