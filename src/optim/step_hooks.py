"""Hooks of an optimizer: around its steps, and around what goes into and comes out of its state dicts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd.entries import leaves_no_tensors
from ..autograd.hooks import HookTable, RemovableHandle


class Hooked:
    """What an optimizer offers to those who watch it; `Optimizer` calls them."""

    def __init__(self) -> None:
        self._step_pre_hooks = HookTable()
        self._step_post_hooks = HookTable()
        self._state_dict_pre_hooks = HookTable()
        self._state_dict_post_hooks = HookTable()
        self._load_pre_hooks = HookTable()
        self._load_post_hooks = HookTable()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[attr-defined]  # the subclass has it

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; a pair that it returns takes their place."""
        return RemovableHandle(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return RemovableHandle(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[[Any], None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict()``."""
        return _registered(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after ``state_dict()``; a dict that it returns takes the place."""
        return _registered(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before ``load_state_dict()``; a dict that it returns is loaded instead.

        The dict that it is given is a shallow copy.
        """
        return _registered(self._load_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[[Any], None], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after ``load_state_dict()``."""
        return _registered(self._load_post_hooks, hook, prepend)


def _registered(table: HookTable, hook: Callable[..., Any], prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(table, hook)
    if prepend:
        others = {number: other for number, other in table.items() if number != handle.id}
        for number in others:
            del table[number]
        table.update(others)
    return handle


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's ``step`` with the hooks of its instances around it."""

    @leaves_no_tensors
    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        given: tuple[Any, ...] = (self, *args)
        for hook in tuple(self._step_pre_hooks.values()):
            result = hook(self, given, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), got {result}")
                given, kwargs = result
        returned = step(*given, **kwargs)
        for hook in tuple(self._step_post_hooks.values()):
            hook(self, given, kwargs)
        return returned

    return run
