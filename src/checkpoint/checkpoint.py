"""`checkpoint`: run a function without keeping what it saves for backward."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..autograd import is_grad_enabled
from .inputs import SavedInputs
from .region import Region
from .surroundings import NoRandomState, RandomState

T = TypeVar("T")


def checkpoint(
    function: Callable[..., T],
    *args: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> T:
    """Run a function, and compute it again in backward instead of keeping what it saves.

    Args:
        function: called with the other arguments; called again in backward, where it must do the same.
        args: its arguments. Tensors in them, at any depth of lists, tuples and dicts, are kept for the second run.
        use_reentrant: accepted for PyTorch's sake; there is one implementation, which needs neither value.
        preserve_rng_state: let the second run draw the same random numbers (from stowgrad's generators, NumPy's global
            one and Python's). Without it, a function that draws gets a warning.
        kwargs: its keyword arguments.

    Returns:
        What the function returns.

    Raises:
        TypeError: if ``function`` can't be called.
        CheckpointError: in backward, if the second run saves other values than the first.
        RuntimeError: in backward, if a tensor that the function reads was changed in place since.

    In memory stay the arguments and what other code holds; gradients are bit for bit those without a checkpoint.

    Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.

    >>> import stowgrad
    >>> x = stowgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda t: (t * t).exp().sum(), x).backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    if not callable(function):
        raise TypeError(f"checkpoint: expected a function, got {type(function).__name__}")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    random_state = RandomState() if preserve_rng_state else NoRandomState()
    region = Region(function, SavedInputs(args, kwargs), random_state)
    result: T = region.first_run(args, kwargs)
    if isinstance(random_state, NoRandomState) and random_state.drawn and region.places:
        warnings.warn(
            "checkpoint: preserve_rng_state=False, but the function drew random numbers. Computed again in backward, it"
            " draws others, and gradients are wrong. Leave preserve_rng_state=True.",
            UserWarning,
            stacklevel=2,
        )
    return result
