"""`checkpoint`: run a function without keeping what it saves for backward."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..autograd import is_grad_enabled
from ..autograd.frames import user_level
from .inputs import SavedInputs
from .region import ContextFn, Options, Region
from .surroundings import Surroundings

DETERMINISM_CHECKS = ("default", "none")
# What `set_checkpoint_early_stop` and `set_checkpoint_debug_enabled` say; None leaves it to the call.
_early_stop: ContextVar[bool | None] = ContextVar("stowgrad_early_stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("stowgrad_checkpoint_debug", default=None)


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
    context_fn: ContextFn | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    verify: bool = False,
    **kwargs: Any,
) -> Any:
    """Run a function, and compute it again in backward instead of keeping what it saves.

    Args:
        function: called with the other arguments; called again in backward, where it must do the same. Without it, the
            result is a decorator: ``@checkpoint(early_stop=False)``.
        args: its arguments. Tensors in them, at any depth of lists, tuples, dicts, deques and dataclasses, are kept for
            the second run.
        use_reentrant: accepted for PyTorch's sake; there is one implementation, which does what both of PyTorch's do.
        preserve_rng_state: let the second run draw the same random numbers: from stowgrad's generators, NumPy's global
            one and Python's, and generators of either that the function is given or holds. Without it, a function that
            draws gets a warning.
        context_fn: returns two context managers, for the first and for the second run; see
            `create_selective_checkpoint_contexts`.
        determinism_check: ``"default"`` compares the operations of both runs and all that they save; ``"none"`` only
            shapes and dtypes of what is saved.
        debug: list the operations of both runs in errors, from the first on.
        early_stop: end the second run when it has saved what is needed. The code after that point then runs only once.
        verify: also compare a checksum of each saved value.
        kwargs: its keyword arguments.

    Returns:
        What the function returns.

    Raises:
        TypeError: if ``function`` can't be called.
        ValueError: for an unknown ``determinism_check``, or ``debug`` with a ``context_fn``.
        CheckpointError: in backward, if the second run does something else than the first, or reads another tensor.
        RuntimeError: in backward, if a tensor that the function reads was changed in place since.

    In memory stay the arguments and what other code holds; gradients are bit for bit those without a checkpoint.
    ``is_recomputing()`` tells a function which run it is in; what is to happen once belongs into ``update_state()``.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.

    >>> import stowgrad
    >>> x = stowgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda t: (t * t).exp().sum(), x).backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    if determinism_check not in DETERMINISM_CHECKS:
        raise ValueError(
            f"determinism_check should be one of {', '.join(map(repr, DETERMINISM_CHECKS))}, got {determinism_check!r}"
        )
    if debug and context_fn is not None:
        raise ValueError("debug=True is incompatible with a context_fn: give one of them")
    if function is None:
        settings = dict(
            preserve_rng_state=preserve_rng_state,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            early_stop=early_stop,
            verify=verify,
        )
        return lambda decorated: _decorated(decorated, {**settings, **kwargs})
    if not callable(function):
        raise TypeError(f"checkpoint: expected a function, got {type(function).__name__}")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    stop, whole = _early_stop.get(), _debug.get()
    options = Options(
        early_stop if stop is None else stop,
        determinism_check == "default",
        debug if whole is None else whole,
        verify,
        context_fn,
    )
    surroundings = Surroundings(preserve_rng_state)
    surroundings.note(function)
    region = Region(function, SavedInputs(args, kwargs, surroundings.note), surroundings, options)
    result = region.first_run(args, kwargs)
    if surroundings.forgotten and region.places:
        warnings.warn(
            "checkpoint: preserve_rng_state=False, but the function drew random numbers. Computed again in backward, it"
            " draws others, and gradients are wrong. Leave preserve_rng_state=True.",
            UserWarning,
            stacklevel=user_level(),
        )
    return result


def _decorated(function: Callable[..., Any], settings: dict[str, Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(function, *args, **settings, **kwargs)

    return checkpointed


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Say for a block of code whether second runs of the regions that begin in it end early, whatever the calls say.

    >>> import stowgrad
    >>> with set_checkpoint_early_stop(False):
    ...     y = checkpoint(lambda t: t * t, stowgrad.ones(1, requires_grad=True))
    """
    before = _early_stop.get()
    _early_stop.set(enable)
    try:
        yield
    finally:
        _early_stop.set(before)


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Say for a block of code whether errors of the regions that begin in it list all operations; None: as calls say.

    >>> with set_checkpoint_debug_enabled(True):
    ...     pass
    """
    before = _debug.get()
    _debug.set(enabled)
    try:
        yield
    finally:
        _debug.set(before)
