"""What a region runs under: its random streams, what it casts to, and defaults; kept for its second run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..autograd.autocast_mode import casting, current_casting
from ..autograd.creation import get_default_device, set_default_device
from ..autograd.ops.promotion import get_default_dtype, set_default_dtype
from ..autograd.random import Generator, default_generator, drawing_from, replacing, watching
from .streams import Streams


class Surroundings:
    """What a region runs under, and the random streams as they are now.

    Streams are stowgrad's that the region draws from, NumPy's global one and Python's, and those of NumPy's and
    Python's generators that are noted.

    Args:
        preserve_rng_state: whether streams are restored.

    Attributes:
        note: to be called with what the region is given, and with its function.
    """

    def __init__(self, preserve_rng_state: bool) -> None:
        self._preserve = preserve_rng_state
        self._casting = current_casting()
        self._defaults = get_default_dtype(), get_default_device()
        self._default = default_generator()
        self._begins: dict[Generator, Generator] = {self._default: self._default.clone()}
        self._drawn = False
        self._streams = Streams()
        self.note = self._streams.note

    @property
    def forgotten(self) -> bool:
        """Whether the region drew random numbers that its second run will not draw."""
        return self._drawn and not self._preserve

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Run a block of code for the first time, and keep where each stream that it draws from began."""
        with watching(self._draws), casting(self._casting):
            yield
        self._drawn = self._streams.keep_drawn() or self._drawn

    def _draws(self, generator: Generator, source: Generator) -> None:
        self._drawn = True
        if generator not in self._begins:
            self._begins[generator] = source.clone()

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Run a block of code under the same; afterwards streams go on as if it had not run."""
        with _under_defaults(*self._defaults), casting(self._casting):
            if not self._preserve:
                yield
                return
            sources = {generator: begin.clone() for generator, begin in self._begins.items()}
            with self._streams.rewound(), drawing_from(sources[self._default]), replacing(sources):
                yield


@contextlib.contextmanager
def _under_defaults(dtype: Any, device: Any) -> Iterator[None]:
    """Run a block of code under a default dtype and device. They belong to all threads: set only if they differ."""
    before = get_default_dtype(), get_default_device()
    if before == (dtype, device):
        yield
        return
    set_default_dtype(dtype)
    set_default_device(device)
    try:
        yield
    finally:
        set_default_dtype(before[0])
        set_default_device(before[1])
