"""Whether the code that asks computes something again: what must happen once only looks here."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ..saved_tensors.state import Under

_recomputing: ContextVar[bool] = ContextVar("stowgrad_recomputing", default=False)


def is_recomputing() -> bool:
    """Whether the code that asks runs inside the second run of a checkpointed region.

    >>> is_recomputing()
    False
    """
    return _recomputing.get()


def update_state(update: Callable[[], object]) -> None:
    """Change what goes along with a computation, such as running statistics: ``update()``, without gradients.

    Once: not when a checkpointed region runs again. For the region it is no part of what it computes.

    >>> import stowgrad
    >>> from stowgrad.checkpoint import checkpoint
    >>> calls = stowgrad.zeros(())
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> checkpoint(lambda t: (update_state(lambda: calls.add_(1)), t.exp().sum())[1], x).backward()
    >>> calls
    tensor(1.)
    """
    if not is_recomputing():
        with Under(grad_enabled=False, hooks=()):
            update()


class Recomputing:
    """A block of code that is a second run."""

    def __enter__(self) -> None:
        self._before = _recomputing.get()
        _recomputing.set(True)

    def __exit__(self, *exc_info: object) -> None:
        _recomputing.set(self._before)
