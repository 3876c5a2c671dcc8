"""Random streams that are not stowgrad's: NumPy's and Python's, the global ones and those of generators."""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

_GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)


class _Stream(NamedTuple):
    """One stream: how to read its state and how to set it."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def _stream_of(generator: Any) -> _Stream:
    if isinstance(generator, random.Random):
        return _Stream(generator.getstate, generator.setstate)
    if isinstance(generator, np.random.RandomState):
        return _Stream(generator.get_state, generator.set_state)
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    return _Stream(lambda: bits.state, lambda state: setattr(bits, "state", state))


_GLOBAL = (
    _Stream(np.random.get_state, np.random.set_state),  # user code may draw from the global stream
    _Stream(random.getstate, random.setstate),
)


class Streams:
    """The streams that a region may draw from, as they are when each is noted.

    They belong to all threads, so only those that a region has drawn from are ever touched.
    """

    def __init__(self) -> None:
        self._begins = [(stream, stream.read()) for stream in _GLOBAL]
        self._seen: set[int] = set()

    def note(self, value: Any) -> None:
        """Keep the state of a generator, or of those that something holds which can be called.

        A function holds what is in its closure, its bound arguments or its object, and generators that it names; a
        module the attributes of all its parts.
        """
        if not isinstance(value, _GENERATORS) and (not callable(value) or isinstance(value, type)):
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, _GENERATORS):
            stream = _stream_of(value)
            self._begins.append((stream, stream.read()))
            return
        for part in _held(value):
            self.note(part)

    def keep_drawn(self) -> bool:
        """Forget the streams that have not moved; whether there are others."""
        self._begins = [(stream, begin) for stream, begin in self._begins if not _same(begin, stream.read())]
        return bool(self._begins)

    @contextlib.contextmanager
    def rewound(self) -> Iterator[None]:
        """Run a block of code on the streams as they were; afterwards they are as if it had not run."""
        now = [(stream, stream.read()) for stream, _ in self._begins]
        for stream, begin in self._begins:
            stream.write(begin)
        try:
            yield
        finally:
            for stream, state in now:
                stream.write(state)


def _held(function: Any) -> list[Any]:
    """What a function, a bound method, a partial or another callable object holds."""
    if isinstance(function, FunctionType):
        named = [function.__globals__.get(name) for name in function.__code__.co_names]
        found = [value for value in named if isinstance(value, _GENERATORS)]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # a variable that has no value yet
                found.append(cell.cell_contents)
        return found
    if isinstance(function, MethodType):
        return [function.__self__, function.__func__]
    if isinstance(function, functools.partial):
        return [function.func, *function.args, *function.keywords.values()]
    attributes = getattr(function, "__dict__", {})
    modules = attributes.get("_modules")  # of other callable attributes not: they may lead anywhere
    parts = modules.values() if isinstance(modules, dict) else ()
    return [*parts, *(value for value in attributes.values() if isinstance(value, _GENERATORS))]


def _same(x: Any, y: Any) -> bool:
    """Whether two states are the same: tuples, dicts, arrays and numbers."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.array_equal(x, y)
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_same(part, y[key]) for key, part in x.items())
    if isinstance(x, tuple) and any(isinstance(part, np.ndarray) for part in x):
        return len(x) == len(y) and all(map(_same, x, y))
    return bool(x == y)
