"""What a region draws its random numbers from, and what it casts to, kept for its second run."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autograd.autocast_mode import casting, current_casting
from ..autograd.random import Generator, default_generator, drawing_from, replacing, watching


class RandomState:
    """The random streams as they are now: stowgrad's that the region draws from, NumPy's global one and Python's.

    What ops cast to under autocast is kept too.

    The last two belong to all threads, so they are only touched for a region that draws from them.
    """

    def __init__(self) -> None:
        self._casting = current_casting()
        self._default = default_generator()
        self._begins: dict[Generator, Generator] = {self._default: self._default.clone()}
        self._numpy: Any = np.random.get_state()  # noqa: NPY002  # user code may draw from the global stream
        self._python: Any = random.getstate()

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Run a block of code for the first time, and keep where each stream that it draws from began."""
        with watching(self._note), casting(self._casting):
            yield
        if _same_numpy_state(self._numpy, np.random.get_state()):  # noqa: NPY002
            self._numpy = None
        if self._python == random.getstate():
            self._python = None

    def _note(self, generator: Generator, source: Generator) -> None:
        if generator not in self._begins:
            self._begins[generator] = source.clone()

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Run a block of code on the streams as they were; afterwards they go on as if it had not run."""
        sources = {generator: begin.clone() for generator, begin in self._begins.items()}
        numpy_now, python_now = np.random.get_state(), random.getstate()  # noqa: NPY002
        if self._numpy is not None:
            np.random.set_state(self._numpy)  # noqa: NPY002
        if self._python is not None:
            random.setstate(self._python)
        try:
            with drawing_from(sources[self._default]), replacing(sources), casting(self._casting):
                yield
        finally:
            if self._numpy is not None:
                np.random.set_state(numpy_now)  # noqa: NPY002
            if self._python is not None:
                random.setstate(python_now)


def _same_numpy_state(x: Any, y: Any) -> bool:
    return x[2:] == y[2:] and np.array_equal(x[1], y[1])


class NoRandomState:
    """In place of a `RandomState` for a region that is not to be restored: notices whether it would have to be."""

    def __init__(self) -> None:
        self.drawn = False
        self._casting = current_casting()

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Run a block of code for the first time."""
        with watching(self._note), casting(self._casting):
            yield

    def _note(self, generator: Generator, source: Generator) -> None:
        self.drawn = True

    def restored(self) -> contextlib.AbstractContextManager[None]:
        """Run a block of code on the streams as they happen to be."""
        return casting(self._casting)
