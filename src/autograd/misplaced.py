"""What an error says when an argument is no tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, TracebackType
from typing import Any

from ..saved_tensors.lines import PACKAGE
from .variable import Variable


def no_tensor_was_given(
    error: BaseException, function: Callable[..., Any], values: tuple[Any, ...], named: Mapping[str, Any] | None = None
) -> str | None:
    """The message of the `TypeError` for an argument that lacks what the package expects of a tensor.

    Args:
        error: what left the function.
        function: the function.
        values: its arguments in the order of its parameters; those by position if there is ``named``.
        named: its arguments by name, if it takes any.

    Returns:
        None if the error is another one, or code of the user's own asked the argument.
    """
    if type(error) is not AttributeError or isinstance(error.obj, Variable) or not isinstance(function, FunctionType):
        return None
    asked = error.name or ""
    if not hasattr(Variable._tensor_class, asked) or not _raised_in_the_package(error.__traceback__):
        return None
    # Many first arguments and private attributes have no annotation, but are a tensor and a tensor's.
    for number, (name, value) in enumerate(_by_name(function.__code__, values, named)):
        if name == "self" or not (asked[0] == "_" or number == 0 or _is_meant_for_tensors(function, name)):
            continue
        if value is error.obj:
            return _no_tensor(function, name, number, value)
        if isinstance(value, list | tuple) and any(part is error.obj for part in value):
            return (
                f"{_name(function)}(): argument '{name}' must be Tensors, not {type(error.obj).__name__} among others"
            )
    return None


def _raised_in_the_package(traceback: TracebackType | None) -> bool:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    code = traceback.tb_frame.f_code  # a module's own `__getattr__` raises for what its user forgot
    return code.co_filename.startswith(PACKAGE) and code.co_name != "__getattr__"


def _by_name(code: CodeType, values: tuple[Any, ...], named: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """The arguments with the names of their parameters; each in ``*args`` has that name."""
    count = len(values) if named is None else code.co_argcount
    yield from zip(code.co_varnames[:count], values)
    if code.co_flags & inspect.CO_VARARGS:
        yield from ((code.co_varnames[count + code.co_kwonlyargcount], value) for value in values[count:])
    yield from (named or {}).items()


def _is_meant_for_tensors(function: FunctionType, name: str) -> bool:
    return "Tensor" in str(function.__annotations__.get(name, ""))


def _no_tensor(function: FunctionType, name: str, number: int, value: Any) -> str:
    code = function.__code__
    first = 0 if code.co_varnames[:1] == ("self",) else 1
    place = f" (position {number + first})" if number < code.co_argcount else ""
    way_out = "" if value is None else "; stowgrad.as_tensor() makes one of numbers and arrays"
    return f"{_name(function)}(): argument '{name}'{place} must be Tensor, not {type(value).__name__}{way_out}"


def _name(function: FunctionType) -> str:
    """``exp``; ``Linear.forward``."""
    return function.__qualname__ if function.__name__ == "forward" else function.__name__
