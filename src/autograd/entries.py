"""Entries: an error that leaves a public function takes no tensors along.

NOTE [ Entries ]
1. An exception refers to the frames that it came through, and those to their variables: whoever keeps it would keep
   what a failed call was given and had made. An entry stands before a function. When an error leaves the function, the
   entry drops its arguments, clears the frames of the package behind it (`clear_own_frames`), and lets the error pass.
   The user's frames, in between too, keep their variables; `stowgrad.utils.clear_frames` is for those.
2. Without an error an entry is one Python call with the same arguments: 25 ns. So it has the function's own signature;
   arguments in a tuple and a dict would take 150 ns. Its code is compiled for a number of arguments and then given
   their names: a few dozen compilations for a thousand functions.
3. An argument that is no tensor where one is needed makes the function fail with `AttributeError`, after any amount of
   work and with a message about the package's insides. The entry raises a `TypeError` that names the argument in its
   place: nothing is asked on the way in.
4. Functions become entries where the public names are gathered, when the modules below have imported what they need
   from each other: what the package itself calls are mostly the functions.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Container
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

from .frames import clear_own_frames
from .misplaced import no_tensor_was_given

P = ParamSpec("P")
R = TypeVar("R")

_STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_LINE = sys._getframe().f_lineno + 2  # of the text: tracebacks show the call in it
_TEMPLATE = """\
def enclosing(clear, explain, function):
    def entry({parameters}):
        try:
            return function({arguments})
        except BaseException as error:
            message = explain(error, function, {values})
            del {names}
            clear(error)
            if message is None:
                raise
        raise TypeError(message)
"""
_clear, _explain = CellType(clear_own_frames), CellType(no_tensor_was_given)
_by_hand: set[CodeType] = set()


def leaves_no_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """The entry of a function: the same, but no frame of the package holds a tensor once an exception has left it."""
    return cast(Callable[P, R], functools.update_wrapper(_made(cast(FunctionType, function)), function))


def by_hand(function: Callable[P, R]) -> Callable[P, R]:
    """Note that a function does itself what an entry does."""
    _by_hand.add(cast(FunctionType, function).__code__)
    return function


def is_entry(function: FunctionType) -> bool:
    """Whether a function is an entry."""
    return function.__code__.co_filename == __file__ or function.__code__ in _by_hand


# -- their code --------------------------------------------------------------------------------------------------------


def _made(function: FunctionType) -> FunctionType:
    code, cells = function.__code__, (_clear, _explain, CellType(function))
    if code.co_flags & _STARRED:  # the function itself has the defaults
        starred = _starred().replace(co_name=code.co_name, co_qualname=code.co_qualname)
        return FunctionType(starred, function.__globals__, function.__name__, None, cells)
    made = FunctionType(_code(code), function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _code(code: CodeType) -> CodeType:
    """The code of the entry of a function with this code: compiled for its number of arguments, and named."""
    first, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    compiled = _numbered(first, count)
    return compiled.replace(
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_posonlyargcount=code.co_posonlyargcount,
        co_varnames=(*names, "error", "message"),
        co_consts=tuple([names[first:] if isinstance(value, tuple) else value for value in compiled.co_consts]),
    )


@functools.cache
def _starred() -> CodeType:
    """The code of an entry with any arguments."""
    arguments = "*args) if not kwargs else function(*args, **kwargs"
    return _compiled("*args, **kwargs", arguments, "args, kwargs", "args, kwargs")


@functools.cache
def _numbered(positional: int, count: int) -> CodeType:
    """The code of an entry with so many arguments, of which so many may be positional; their names are numbered."""
    names = [f"_{n}" for n in range(count)]
    first, others = names[:positional], names[positional:]
    parameters = [*first, "*", *others] if others else first
    arguments = [*first, *[f"{name}={name}" for name in others]]
    values = "".join([f"{name}, " for name in names])
    return _compiled(", ".join(parameters), ", ".join(arguments), ", ".join(names), f"({values})")


def _compiled(parameters: str, arguments: str, names: str, values: str) -> CodeType:
    text = _TEMPLATE.format(parameters=parameters, arguments=arguments, names=names, values=values)
    return _first_code(_first_code(compile("\n" * (_LINE - 1) + text, __file__, "exec", dont_inherit=True)))


def _first_code(code: CodeType) -> CodeType:
    return next(value for value in code.co_consts if isinstance(value, CodeType))


# -- where the public names are gathered -------------------------------------------------------------------------------

_offered: dict[FunctionType, FunctionType] = {}


def offer(*namespaces: ModuleType) -> None:
    """Make entries of the functions that modules offer, in ``__all__`` or by a public name for what is their own.

    Where a function was defined its entry takes its place, too: by that name it is pickled.
    """
    for namespace in namespaces:
        for name in getattr(namespace, "__all__", None) or _own_names(namespace):
            function = getattr(namespace, name)
            made = _offer(function)
            if made is not function:
                setattr(namespace, name, made)
                home = vars(sys.modules[function.__module__])
                if home.get(function.__qualname__) is function:
                    home[made.__qualname__] = made


def _own_names(module: ModuleType) -> list[str]:
    found = vars(module).items()
    return [name for name, value in found if name[0] != "_" and getattr(value, "__module__", "") == module.__name__]


def offer_methods(*classes: Any, only: Container[str] | None = None, leave: Container[str] = ()) -> None:
    """Make entries of the public methods and operators that classes define, and of what gets and sets properties.

    Args:
        classes: what is no class is passed over.
        only: their names, if not all.
        leave: names of those that stay as they are, since they do nothing that can fail; of properties, the getters.
    """
    for owner in filter(inspect.isclass, classes):
        for name, value in list(vars(owner).items()):
            special = name.startswith("__") and name.endswith("__")
            if (special or not name.startswith("_")) and (only is None or name in only):
                made = _offer_member(value, name in leave)
                if made is not value:
                    setattr(owner, name, made)


def _offer_member(value: Any, leave: bool) -> Any:
    if isinstance(value, property):
        fget = value.fget if leave else _offer(value.fget)
        return property(fget, _offer(value.fset), value.fdel, value.__doc__)
    if leave:
        return value
    if isinstance(value, staticmethod | classmethod):
        return type(value)(_offer(value.__func__))
    return _offer(value)


def _offer(value: Any) -> Any:
    """The entry of a function that may be given a tensor, always the same one; anything else as it is."""
    if not isinstance(value, FunctionType) or is_entry(value):
        return value
    code = value.__code__
    if not (code.co_argcount or code.co_kwonlyargcount or code.co_flags & _STARRED):
        return value
    made = _offered.get(value)
    if made is None:
        made = _offered[value] = cast(FunctionType, leaves_no_tensors(value))
    return made
