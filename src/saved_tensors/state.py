"""What code runs under: grad mode, inference mode and the stack of saved-tensor hooks, in one context variable.

Threads and asyncio tasks have their own; a context manager restores what it found by setting it, not by a token, so
that it may be left in another task than it was entered in.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

# A `hooks.HookEntry`; that module imports this one.
HookEntry: TypeAlias = Any
R = TypeVar("R")


class State:
    """What code runs under; immutable.

    Args:
        grad_flag: grad mode, as `is_grad_enabled` reports it.
        hooks: the hook entries from the outermost to the innermost: `hooks.HookEntry`, this module stands below that.
        inference: whether results are inference tensors, which have no history.
        disabled: the message of the error that entering hooks raises, or None where they are allowed.

    Attributes:
        followers: those of the hook entries that are told of every op.
        grad_enabled: whether ops are recorded: in grad mode, and outside of inference mode.
        outside: in a pass backward, what the user's code in it runs under: the state of the pass with the hook entries
            that it hides from everything else. None elsewhere, and where there is nothing to hide.
    """

    __slots__ = (
        "_without_grad",
        "_without_hooks",
        "disabled",
        "followers",
        "grad_enabled",
        "grad_flag",
        "hooks",
        "inference",
        "outside",
    )

    def __init__(
        self, grad_flag: bool, hooks: tuple[Any, ...], inference: bool = False, disabled: str | None = None
    ) -> None:
        self.grad_flag = grad_flag
        self.grad_enabled = grad_flag and not inference
        self.hooks = hooks
        self.followers = tuple([entry for entry in hooks if entry.follows_ops])
        self.inference = inference
        self.disabled = disabled
        self.outside: State | None = None
        # Never the state itself: it would be a cycle, and keep what hooks refer to.
        self._without_hooks: State | None = None
        self._without_grad: State | None = None

    def with_grad(self, grad_flag: bool) -> State:
        """The same in another grad mode."""
        if grad_flag == self.grad_flag:
            return self
        if grad_flag:
            return State(True, self.hooks, self.inference, self.disabled)
        if self._without_grad is None:
            self._without_grad = State(False, self.hooks, self.inference, self.disabled)
        return self._without_grad

    def with_hooks(self, hooks: tuple[Any, ...]) -> State:
        """The same with other hook entries."""
        return State(self.grad_flag, hooks, self.inference, self.disabled)

    def without_hooks(self) -> State:
        """The same without hook entries."""
        if not self.hooks:
            return self
        if self._without_hooks is None:
            self._without_hooks = self.with_hooks(())
        return self._without_hooks

    def for_pass(self) -> State:
        """What a pass runs under that isn't recorded: grad mode off, and the hook entries `outside`."""
        quiet = self.with_grad(False)
        if not quiet.hooks and quiet.outside is None:
            return quiet
        state = quiet.with_hooks(())
        state.outside = quiet if quiet.hooks else None
        return state

    def with_inference(self, grad_flag: bool, inference: bool) -> State:
        """The same in another grad mode, inside or outside of inference mode."""
        return State(grad_flag, self.hooks, inference, self.disabled)

    def with_disabled(self, disabled: str | None) -> State:
        """The same where entering hooks raises an error with this message, or (None) doesn't."""
        return State(self.grad_flag, self.hooks, self.inference, disabled)


_DEFAULT = State(True, ())
_current: ContextVar[State] = ContextVar("stowgrad_state", default=_DEFAULT)

current = _current.get


def default_hooks() -> tuple[HookEntry, ...]:
    """The hook entries that a thread starts with."""
    return _DEFAULT.hooks


def set_default_hooks(hooks: tuple[HookEntry, ...]) -> None:
    """Change the hook entries that a thread starts with, and of those threads that are still under that state."""
    _DEFAULT.hooks = hooks
    _DEFAULT.followers = tuple([entry for entry in hooks if entry.follows_ops])
    _DEFAULT._without_hooks = _DEFAULT._without_grad = None


# Make a state the one that code on this thread or task runs under; the token that it returns isn't used.
set_state = _current.set


def call_outside(function: Callable[..., R], *args: Any) -> R:
    """Call what the user wrote, in a pass that isn't recorded: under the hook entries that the pass hides.

    What it changes stays so: a context that one hook enters may be left by another.
    """
    hidden = current()
    state = hidden.outside or hidden
    set_state(state)
    try:
        return function(*args)
    finally:
        left = current()
        set_state(hidden if left is state else left.for_pass())


class Under:
    """Run a block of code under another state: any of ``grad_enabled``, ``hooks``, ``inference`` and ``disabled``."""

    __slots__ = ("_before", "_changes")

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __enter__(self) -> None:
        self._before = before = current()
        change = self._changes.get
        set_state(
            State(
                change("grad_enabled", before.grad_flag),
                change("hooks", before.hooks),
                change("inference", before.inference),
                change("disabled", before.disabled),
            )
        )

    def __exit__(self, *exc_info: object) -> None:
        set_state(self._before)


class AnomalyMode:
    """Whether nodes are recorded with a traceback, and their results checked; of the whole process, like PyTorch's."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


anomaly = AnomalyMode()
