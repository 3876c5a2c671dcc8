"""Where NumPy's functions arrive: the table of what each of them becomes, and what happens to those without an entry.

NOTE [ Nothing falls off the tape ]
1. A function with an entry in the table is computed by recorded operations.
2. Others run in NumPy on the tensors' values, and what comes out are tensors. That is done if nothing requires grad, or
   if the function is in `CONSTANT`: its results are integers, bools or descriptions, which have no gradient anyway.
3. Whatever else requires grad is refused with a TypeError that names the function. So an array never comes back from a
   tensor that requires grad.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import Tensor
from ..autograd.out import into
from .convert import owned, plain, requires_grad, tensors_in

__all__ = ["CONSTANT", "FUNCTIONS", "array_function", "deliver", "implements", "label", "refuse", "with_numpy"]

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
CONSTANT: set[Any] = set()


def implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into the table, for one or several of NumPy's, whose arguments it takes; ``out`` apart.

    Functions that an older NumPy lacks are None, and left out.
    """

    def enter(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            if function is not None:
                FUNCTIONS[function] = handler
        return handler

    return enter


def array_function(function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy calls when there is a tensor among the arguments of one of its functions."""
    for kind in types:
        if not issubclass(kind, Tensor | np.ndarray):
            return NotImplemented
    handler = FUNCTIONS.get(function)
    if handler is None:
        return with_numpy(function, args, kwargs)
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    position = _place_of_out(function) if len(args) > 1 else None
    if position is not None and len(args) > position:
        out, args = args[position], (*args[:position], None, *args[position + 1 :])
    if out is None:
        return handler(*args, **kwargs)
    if requires_grad(args, kwargs, out):
        refuse_out(label(function))
    return deliver(label(function), handler(*args, **kwargs), out)


@functools.cache
def _place_of_out(function: Any) -> int | None:
    """Where ``out`` stands among the positional arguments of a function."""
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.name == "out" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            return number
    return None


def with_numpy(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of a function that has no derivative here, computed by NumPy: tensors (note, rule 2).

    Raises:
        TypeError: if it may have a gradient, and an argument requires grad.
    """
    if function not in CONSTANT and requires_grad(args, kwargs):
        refuse(label(function))
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    found = next(iter(tensors_in((args, kwargs))), None)
    results = _as_tensors(function(*plain(args), **plain(kwargs)), found)
    return results if out is None else deliver(label(function), results, out)


def deliver(name: str, result: Any, out: Any) -> Any:
    """A result written into what the caller gave as ``out``: a tensor or an array."""
    targets = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    for value, target in zip(results, targets, strict=True):
        if target is None:
            continue
        if tuple(target.shape) != tuple(value.shape):
            raise ValueError(f"{name}: out has shape {tuple(target.shape)}, the result {tuple(value.shape)}")
        if isinstance(target, Tensor):
            into(target, _given, value)
        elif np.can_cast(value.dtype, target.dtype, "same_kind"):
            target[...] = value.detach().numpy()
        else:
            raise TypeError(f"{name}: cannot cast the result from {value.dtype} to out's {target.dtype}")
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


def _given(value: Any) -> Any:
    return value


def _as_tensors(value: Any, like: Any) -> Any:
    """NumPy's results as tensors, on the device of another tensor; what is no array of numbers stays as it is."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biufcV" or (array.dtype.kind == "V" and array.dtype.names):
            return value
        return owned(array, like)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_as_tensors(part, like) for part in value])
    if isinstance(value, tuple | list):
        return type(value)([_as_tensors(part, like) for part in value])
    return value


def label(function: Any) -> str:
    """How people call a function of NumPy or SciPy: ``np.linalg.solve``."""
    module = str(getattr(function, "__module__", None) or "numpy")
    name = getattr(function, "__name__", str(function))
    if isinstance(function, np.ufunc):
        return f"np.{name}" if getattr(np, name, None) is function else name
    return f"{module.replace('numpy', 'np', 1)}.{name}"


def refuse(name: str, what: str = "") -> Any:
    """Say that gradients would be lost.

    Raises:
        TypeError: always.
    """
    raise TypeError(
        f"{name} is not differentiable{what}, but an argument requires grad. Where no gradient is needed, call it with"
        " tensor.detach().numpy()."
    )


def refuse_out(name: str) -> Any:
    """Say that results with gradients can't go into existing memory.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        f"{name}: functions with out=... arguments (and a += t for an array a) don't support automatic"
        " differentiation, but one of the arguments requires grad. Call it without out=, or with tensor.detach()."
    )
