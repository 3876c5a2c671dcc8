"""Which of the user's variables hold which storages: by looking at frames, or at what refers to a tensor.

Only names are kept, never tensors: looking does not change how long anything lives.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeAlias

import numpy as np

from ..autograd.tensor import Tensor
from ..memory.pools import storage_of
from .model import Site
from .sites import is_users, shown_path


@dataclass(frozen=True)
class Name:
    """A variable that holds a storage.

    Attributes:
        text: what reports call it, such as "local variable 'logits'" or "variable 'losses[0]'".
        root: the variable's own name, where ``text`` may have a path below it.
        is_plain: whether ``del`` of the variable lets go of the tensor, as far as this variable keeps it.
        code, instruction: the frame that was looked at, and where it was.
    """

    text: str
    root: str
    is_plain: bool
    code: CodeType
    instruction: int

    def site(self) -> Site | None:
        """The line that bound the variable last, before where its frame was."""
        best: int | None = None
        line = self.code.co_firstlineno
        for instruction in dis.get_instructions(self.code):
            line = getattr(instruction, "starts_line", None) or line
            if instruction.opname.startswith("STORE_") and instruction.argval == self.root:
                if best is None or instruction.offset <= self.instruction:
                    best = line
        if best is None:
            return None
        return Site(shown_path(self.code.co_filename), best, self.code.co_qualname)


Names: TypeAlias = dict[int, list[Name]]  # by storage id

_MOST_FRAMES = 32
_MOST_ITEMS = 256  # below one variable
_DEPTH = 2
_ENDS = 32
_ATOMS = frozenset(
    {int, float, bool, str, bytes, complex, type(None), type, FunctionType, BuiltinFunctionType, ModuleType, CodeType}
)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_OWN = __name__.partition(".")[0]
_LONGEST = 40  # characters of a key
_COPIES_LOCALS = sys.version_info < (3, 13)
_OURS = 3  # references to such a copy that nobody else has: the frame's, ours, and the one that is counting


def variables(frame: FrameType | None) -> Names:
    """The names of the variables of a frame and its callers that hold tensors or arrays, by storage id.

    Args:
        frame: the innermost frame; those of this package and of the standard library's machinery are passed over.
    """
    found: Names = {}
    seen: set[int] = set()
    frames = 0
    while frame is not None and frames < _MOST_FRAMES:
        if is_users(frame):
            frames += 1
            _look_into(frame, found, seen)
        frame = frame.f_back
    return found


def _look_into(frame: FrameType, found: Names, seen: set[int]) -> None:
    code = frame.f_code
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
    kind = "local variable" if is_function else "variable"
    namespace = frame.f_locals
    if id(namespace) in seen:
        return
    if not is_function:
        seen.add(id(namespace))
    for name, value in list(namespace.items()):
        if type(value) in _ATOMS or not name.isidentifier():
            continue  # or of a comprehension, or of pytest's rewritten asserts
        # The graph holds a leaf that requires grad, whatever its variables do.
        is_bound = isinstance(value, Tensor) and value.is_leaf and value.requires_grad
        for rest, storage in _storages(value, _DEPTH, [_MOST_ITEMS]):
            names = found.setdefault(storage, [])
            if len(names) < 4:
                names.append(Name(f"{kind} '{name}{rest}'", name, not rest and not is_bound, code, frame.f_lasti))
    if _COPIES_LOCALS and is_function and sys.getrefcount(namespace) <= _OURS:
        namespace.clear()  # the interpreter made this copy and keeps it: it would keep alive what it holds


def _storages(value: object, depth: int, budget: list[int]) -> Iterator[tuple[str, int]]:
    """The storages below a value, each with what leads to it from there, such as ``[3].cache``."""
    budget[0] -= 1
    if budget[0] < 0 or type(value) in _ATOMS:
        return
    if isinstance(value, Tensor):
        yield "", value._storage.id
        grad = value.grad if value.is_leaf else None
        if grad is not None:
            yield ".grad", grad._storage.id
    elif isinstance(value, np.ndarray):
        storage = storage_of(value)
        if storage is not None:
            yield "", storage.id
    elif not depth:
        return
    elif isinstance(value, _CONTAINERS):
        for key, item in _items(value):
            for rest, id_ in _storages(item, depth - 1, budget):
                word = repr(key)
                yield f"[{word if len(word) < _LONGEST else '..'}]{rest}", id_
    elif type(value).__dictoffset__ and not isinstance(value, type):
        for name, item in _attributes(value):
            for rest, id_ in _storages(item, depth - 1, budget):
                yield f".{name}{rest}", id_


def _attributes(value: object) -> list[tuple[str, Any]]:
    """The attributes of a user's object; of a module those that are no parameters or children, which have names."""
    module = type(value).__module__
    if module == "builtins" or module.partition(".")[0] == _OWN:
        return []
    try:
        found = list(islice(object.__getattribute__(value, "__dict__").items(), 2 * _ENDS))
    except (AttributeError, RuntimeError):  # it has none after all, or another thread is changing it
        return []
    if hasattr(type(value), "named_parameters"):
        return [(name, item) for name, item in found if not name.startswith("_")]
    return found


def _items(container: Any) -> list[tuple[Any, Any]]:
    """Keys and values of a container; of a long one its ends: data sets lie in variables, too."""
    if isinstance(container, (list, tuple)):
        size = len(container)
        numbers = range(size) if size <= 2 * _ENDS else [*range(_ENDS), *range(size - _ENDS, size)]
        return [(number, container[number]) for number in numbers if number < len(container)]
    try:
        if isinstance(container, dict):
            return list(islice(container.items(), 2 * _ENDS))
        return [("..", item) for item in islice(container, 2 * _ENDS)]
    except RuntimeError:  # another thread is changing it
        return []


# -- by what refers to it ----------------------------------------------------------------------------------------------


def referrers(ids: frozenset[int]) -> dict[int, list[str]]:
    """What refers to the tensors of some storages, in words: globals, attributes, items of containers, closures.

    This asks the garbage collector, which looks at every object there is: for the end of a failing test.
    """
    found: dict[int, list[str]] = {}
    # By type: `isinstance` asks the object, and some objects of other libraries answer with a warning.
    for tensor in [one for one in gc.get_objects() if issubclass(type(one), Tensor)]:
        id_ = tensor._storage.id
        if id_ in ids:
            found.setdefault(id_, []).extend(text for text in _described(tensor, 3) if text not in found[id_])
    return found


def _described(held: object, depth: int) -> list[str]:
    texts: list[str] = []
    for by in gc.get_referrers(held):
        if depth == 0 or issubclass(type(by), FrameType):
            continue
        if issubclass(type(by), dict):
            texts += _in_dictionary(held, by, depth)
        elif issubclass(type(by), (list, tuple)):
            numbers = [number for number, item in enumerate(by) if item is held]
            texts += [f"{outer}[{numbers[0]}]" for outer in _described(by, depth - 1) if numbers]
        elif issubclass(type(by), CellType):
            texts += _closures(by)
        elif type(by).__dictoffset__ and not issubclass(type(by), (ModuleType, type)):
            names = [key for key, value in vars(by).items() if value is held]
            texts += [f"attribute '{name}' of a {type(by).__qualname__}" for name in names]
    return texts


def _closures(cell: CellType) -> list[str]:
    """The user's functions that keep a variable of the function around them."""
    functions = [one for held in gc.get_referrers(cell) if isinstance(held, tuple) for one in gc.get_referrers(held)]
    return [
        f"a variable in the closure of {one.__qualname__}"
        for one in functions
        if isinstance(one, FunctionType) and not one.__module__.startswith(_OWN)
    ]


def _in_dictionary(held: object, by: dict[Any, Any], depth: int) -> list[str]:
    keys = [key for key, value in by.items() if value is held]
    if not keys:
        return []
    module = sys.modules.get(by.get("__name__", "")) if isinstance(by.get("__name__"), str) else None
    if module is not None and vars(module) is by:
        name = getattr(module, "__file__", None)
        return [f"global variable '{keys[0]}' of {shown_path(name) if name else module.__name__}"]
    if "__name__" in by and "__builtins__" in by:
        name = by.get("__file__")
        return [f"global variable '{keys[0]}'" + (f" of {shown_path(name)}" if isinstance(name, str) else "")]
    return [f"{outer}[{keys[0]!r}]" for outer in _described(by, depth - 1)]
