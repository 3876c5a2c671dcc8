"""`checkpoint_sequential`: a chain of functions in a few regions of about equal length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .checkpoint import checkpoint

_OPTIONS = ("preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop", "verify")


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]], segments: int, input: Any, use_reentrant: bool = False, **kwargs: Any
) -> Any:
    """Call functions one after another, checkpointed in segments.

    Args:
        functions: a `Sequential`, or functions (modules) in the order in which they are called.
        segments: how many; their lengths differ by one at most. The last one is not checkpointed: its values are needed
            first in backward.
        input: what the first function is called with.
        use_reentrant: as for `checkpoint`.
        kwargs: options of `checkpoint`.

    Returns:
        What the last function returns.

    Raises:
        ValueError: for an unknown option, no functions, or a number of segments above that of the functions or below 1.

    >>> import stowgrad
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> y = checkpoint_sequential([stowgrad.exp, stowgrad.sin, stowgrad.exp, stowgrad.cos], 2, x)
    """
    unknown = sorted(set(kwargs) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"checkpoint_sequential: unexpected keyword arguments {', '.join(unknown)}")
    chain = list(functions)
    if not chain:
        raise ValueError("checkpoint_sequential: expected at least one function")
    if not isinstance(segments, int) or isinstance(segments, bool) or not 1 <= segments <= len(chain):
        raise ValueError(
            f"checkpoint_sequential: segments must be from 1 to {len(chain)}, the number of functions, got {segments!r}"
        )
    length, longer = divmod(len(chain), segments)
    value, begin = input, 0
    for number in range(segments):
        end = begin + length + (number < longer)
        segment = _chained(chain[begin:end])
        last = end == len(chain)
        value = segment(value) if last else checkpoint(segment, value, use_reentrant=use_reentrant, **kwargs)
        begin = end
    return value


def _chained(functions: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def segment(value: Any) -> Any:
        for function in functions:
            value = function(value)
        return value

    return segment
