"""Hooks around a module's forward: the user's functions, and how a call passes them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ...autograd.hooks import RemovableHandle
from .backward_hooks import BackwardHook


class HookEntry(NamedTuple):
    """A hook and how it wants to be called.

    Attributes:
        function: the user's function.
        with_kwargs: whether it also takes (and a pre-hook may replace) the keyword arguments.
        always_call: whether a forward hook is called, too, when something raised before it.
    """

    function: Callable[..., Any]
    with_kwargs: bool
    always_call: bool = False


Hooks: TypeAlias = dict[int, HookEntry]  # by registration number, in call order


def add_hook(hooks: dict[int, Any], entry: Any, prepend: bool) -> RemovableHandle:
    """Add a hook at the end, or in front of all others.

    Raises:
        TypeError: if it can't be called.
    """
    function = entry.function if isinstance(entry, HookEntry) else entry
    if not callable(function):
        raise TypeError(f"a hook must be callable, got {type(function).__name__}")
    before = dict(hooks)
    handle = RemovableHandle(hooks, entry)
    if prepend:
        for number in before:
            hooks[number] = hooks.pop(number)
    return handle


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a module with hooks returns."""
    done: set[int] = set()
    output = None
    try:
        args, kwargs = call_pre_hooks(module._forward_pre_hooks, module, args, kwargs)
        watch: BackwardHook | None = None
        if module._backward_hooks or module._backward_pre_hooks:
            watch = BackwardHook(
                module, list(module._backward_hooks.values()), list(module._backward_pre_hooks.values())
            )
            args = watch.on_inputs(args)
        output = module.forward(*args, **kwargs)
        for number, entry in list(module._forward_hooks.items()):
            done.add(number)
            output = _call_forward_hook(entry, module, args, kwargs, output)
        return output if watch is None else watch.on_outputs(output)
    except Exception:
        for number, entry in list(module._forward_hooks.items()):
            if entry.always_call and number not in done:
                output = _call_after_error(entry, module, args, kwargs, output)
        raise


def call_pre_hooks(
    hooks: Hooks, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that ``forward`` gets after all pre-hooks.

    Raises:
        RuntimeError: if a hook that takes keyword arguments returns anything but None or a pair.
    """
    for hook, with_kwargs, _ in list(hooks.values()):
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


def _call_forward_hook(
    entry: HookEntry, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    """The output after one forward hook."""
    hook = entry.function
    changed = hook(module, args, kwargs, output) if entry.with_kwargs else hook(module, args, output)
    return output if changed is None else changed


def _call_after_error(entry: HookEntry, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """The same, where an error is on its way already: that of a hook only gives a warning."""
    try:
        return _call_forward_hook(entry, module, args, kwargs, output)
    except Exception as error:  # noqa: BLE001  # the first error is the one to be seen
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced as another error was"
            f" raised in forward: {error}",
            stacklevel=4,
        )
        return output
