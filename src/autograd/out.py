"""``out=``: the result of a function written into a tensor that the caller has."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..saved_tensors.state import current
from . import inplace
from .frames import user_level
from .grad_mode import no_grad
from .ops.promotion import category
from .variable import Variable


def into(out: Any, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call a function and write what it returns into ``out``: a tensor, or a tuple of as many as there are results.

    A tensor of another shape gets the result's shape, with a warning if it had elements.

    Returns:
        ``out``.

    Raises:
        RuntimeError: if an argument or ``out`` requires grad while gradients are recorded; if the result's dtype can't
            be cast to that of ``out``, or lies on another device.
        TypeError: if ``out`` is no tensor.
    """
    name = str(getattr(function, "name", getattr(function, "__name__", "the function")))
    targets = tuple(out) if isinstance(out, tuple | list) else (out,)
    for target in targets:
        if not isinstance(target, Variable):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    if current().grad_enabled and any(tensor._requires_grad for tensor in _tensors((*targets, args, keywords))):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the"
            " arguments requires grad. Call it without out=, or under no_grad()."
        )
    with no_grad():
        results = function(*args, **keywords)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(targets):
            raise TypeError(f"{name}(): expected {len(results)} tensors as out, got {len(targets)}")
        for result, target in zip(results, targets, strict=True):
            _check(name, result, target)
        for result, target in zip(results, targets, strict=True):
            _deliver(name, result, target)
    return out


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors among arguments, and in the sequences among them."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Variable):
            yield value
        elif isinstance(value, tuple | list | dict):
            yield from _tensors(value)


def _check(name: str, result: Any, target: Any) -> None:
    found, wanted = result._array.dtype, target._array.dtype
    if category(found) > category(wanted):
        raise RuntimeError(f"{name}(): result type {found} can't be cast to the desired output type {wanted}")
    if result._storage.device != target._storage.device:
        raise RuntimeError(
            f"{name}(): expected out tensor to be on {result._storage.device}, but it is on {target._storage.device}"
        )


def _deliver(name: str, result: Any, target: Any) -> None:
    if result._array.shape == target._array.shape:
        inplace.copy_(target, result)
        return
    if target._array.size:
        warnings.warn(
            f"{name}(): an output with one or more elements was resized since it had shape"
            f" {list(target._array.shape)}, which does not match the required output shape"
            f" {list(result._array.shape)}; give a tensor of that shape, or one without elements",
            UserWarning,
            stacklevel=user_level(),
        )
    dtype = target._array.dtype
    cast = result if result._array.dtype == dtype else result.to(dtype)
    target._array, target._storage = cast._array, cast._storage
