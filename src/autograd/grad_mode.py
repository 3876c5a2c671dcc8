"""Grad mode: whether ops are recorded, and inference mode. Of the current thread and task; on by default."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from ..saved_tensors.state import current, set_state

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether grad mode is on: outside of inference mode, ops are recorded then."""
    return current().grad_flag


def is_inference_mode_enabled() -> bool:
    """Whether results are inference tensors now."""
    return current().inference


class _GradMode:
    """A context manager and decorator that sets grad mode; nesting restores."""

    enabled: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        state = current()
        self._before.append(state.grad_flag)
        set_state(state.with_grad(self.enabled))

    def __exit__(self, *exc_info: object) -> None:
        set_state(current().with_grad(self._before.pop()))

    def clone(self) -> _GradMode:
        """Another one that does the same."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self, function)  # type: ignore[no-any-return]

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


def _wrap_generator(mode: _GradMode, function: Any) -> Any:
    """The mode holds while the generator runs, not while its caller does."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        try:
            with mode.clone():
                value = generator.send(None)
            while True:
                try:
                    request = yield value
                except GeneratorExit:
                    with mode.clone():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001  # goes on into the generator
                    with mode.clone():
                        value = generator.throw(error)
                else:
                    with mode.clone():
                        value = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapper


class no_grad(_GradMode):  # noqa: N801  # PyTorch's name
    """Record nothing in a block of code, or in a function that it decorates (``@no_grad`` or ``@no_grad()``).

    >>> import stowgrad
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> with no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    enabled = False

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()  # type: ignore[misc]
        return mode(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__()


class enable_grad(no_grad):  # noqa: N801  # PyTorch's name
    """Record again in a block of code, or in a function that it decorates."""

    enabled = True


class set_grad_enabled(_GradMode):  # noqa: N801  # PyTorch's name
    """Set grad mode to ``mode`` at once; as a context manager or decorator, for a block or function.

    Args:
        mode: whether ops are recorded.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.enabled = bool(mode)
        state = current()
        self._found = state.grad_flag
        set_state(state.with_grad(self.enabled))

    def __enter__(self) -> None:
        self._before.append(self._found)
        set_state(current().with_grad(self.enabled))

    def clone(self) -> _GradMode:
        return set_grad_enabled(self.enabled)

    def __call__(self, function: F) -> F:
        set_state(current().with_grad(self._found))
        return super().__call__(function)


class inference_mode(_GradMode):  # noqa: N801  # PyTorch's name
    """Record nothing, for good, in a block of code, or in a function that it decorates (with or without a call).

    Args:
        mode: False for normal behaviour, with grad mode on, inside of an outer inference mode.

    Results are inference tensors: they have no version that counts, so outside they can't be changed in place, require
    grad or be saved for backward (``clone()`` gives a normal tensor). Views of normal tensors are normal tensors.

    >>> import stowgrad
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> with inference_mode():
    ...     y = x * 2
    >>> y.requires_grad, y.is_inference()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode
        self._outer: list[bool] = []

    def __enter__(self) -> None:
        state = current()
        self._before.append(state.grad_flag)
        self._outer.append(state.inference)
        set_state(state.with_inference(not self.mode, self.mode))

    def __exit__(self, *exc_info: object) -> None:
        set_state(current().with_inference(self._before.pop(), self._outer.pop()))

    def clone(self) -> _GradMode:
        return inference_mode(self.mode)
