"""What code runs under: grad mode and the stack of saved-tensor hooks, in one context variable.

Threads and asyncio tasks have their own; a context manager restores what it found by setting it, not by a token, so
that it may be left in another task than it was entered in.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, TypeAlias

# A `hooks.HookEntry`; that module imports this one.
HookEntry: TypeAlias = Any


class State:
    """An immutable pair: whether ops are recorded, and the hook entries from the outermost to the innermost.

    Entries are `hooks.HookEntry`; this module stands below that one.
    """

    __slots__ = ("grad_enabled", "hooks")

    def __init__(self, grad_enabled: bool, hooks: tuple[Any, ...]) -> None:
        self.grad_enabled = grad_enabled
        self.hooks = hooks


_DEFAULT = State(True, ())
_current: ContextVar[State] = ContextVar("stowgrad_state", default=_DEFAULT)

current = _current.get


def set_state(state: State) -> None:
    """Make ``state`` the one that code on this thread or task runs under."""
    _current.set(state)


class Under:
    """Run a block of code under another grad mode, other hooks, or both."""

    __slots__ = ("_before", "_changes")

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __enter__(self) -> None:
        self._before = before = current()
        grad_enabled = self._changes.get("grad_enabled", before.grad_enabled)
        set_state(State(grad_enabled, self._changes.get("hooks", before.hooks)))

    def __exit__(self, *exc_info: object) -> None:
        set_state(self._before)
