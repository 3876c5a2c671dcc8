"""Random numbers: counter-based streams, so that a draw can be repeated by naming where it began.

A generator is a key (from its seed) and a counter. An op that draws takes the next stretch of counters and keeps the
two numbers in its node: the same numbers come again, whoever asks, on however many threads.

Each thread has a default generator of its own, so that threads do not disturb each other's draws.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..memory import CPU, Device, storage_for_user
from .variable import Variable

_KEY_BITS = 64
_STATE_WORDS = 2


class Generator:
    """A stream of random numbers, like ``torch.Generator``; copies and pickles go on from where it is.

    Args:
        device: accepted for PyTorch's sake: one stream serves all devices. What a CUDA device makes of it are other
            numbers than the host's, of the same distribution.

    >>> g = Generator().manual_seed(3)
    >>> g.take(4), g.take(4)
    ((3, 0), (3, 4))
    """

    def __init__(self, device: Device | str = CPU) -> None:
        self.device = device
        self._lock = threading.Lock()
        self._key = 0
        self._counter = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of a seed (any integer, taken modulo 2**64)."""
        self._key, self._counter = int(seed) % (1 << _KEY_BITS), 0
        return self

    def seed(self) -> int:
        """Start the stream of a seed from the system, and return that."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._key

    def take(self, steps: int) -> tuple[int, int]:
        """The key, and the first counter of the next stretch of ``steps``, which is used up by this."""
        resolve = _resolver.get()
        source = self if resolve is None else resolve(self)
        with source._lock:
            begin = source._counter
            source._counter += steps
        return source._key, begin

    def get_state(self) -> Any:
        """Where the stream is, as a uint64 tensor of two elements: a copy."""
        return _to_tensor([self._key, self._counter])

    def set_state(self, state: Any) -> Generator:
        """Go on from where `get_state` was called.

        Raises:
            RuntimeError: if ``state`` is no such tensor.
        """
        self._key, self._counter = _from_tensor(state)
        return self

    def clone(self) -> Generator:
        """Another generator at the same place of the same stream."""
        return _generator_at(self.device, self._key, self._counter)

    def __reduce__(self) -> Any:
        return _generator_at, (self.device, self._key, self._counter)


def _generator_at(device: Device | str, key: int, counter: int) -> Generator:
    """A generator at a place of a stream: how copies and pickles are made."""
    generator = Generator(device)
    generator._key, generator._counter = key, counter
    return generator


def _to_tensor(words: list[int]) -> Any:
    array = np.array(words, np.uint64)
    return Variable._tensor_class._wrap(array, storage_for_user(array))


def _from_tensor(state: Any) -> tuple[int, int]:
    array = getattr(state, "_array", None)
    if array is None or array.dtype != np.uint64 or array.shape != (_STATE_WORDS,):
        what = type(state).__name__ if array is None else f"{array.dtype} of shape {list(array.shape)}"
        raise RuntimeError(f"expected a random state as get_state() returns it (uint64 of shape [2]), got {what}")
    return int(array[0]), int(array[1])


class _Defaults(threading.local):
    """The default generator of each thread, begun anew after `manual_seed`."""

    generator: Generator | None = None
    epoch = -1


_defaults = _Defaults()
_seed = int.from_bytes(os.urandom(8), "little")
_epoch = 0
_thread_numbers = itertools.count()
# A generator that takes the default's place in a context: what a recompute draws from.
_replacement: ContextVar[Generator | None] = ContextVar("stowgrad_generator", default=None)
# Called with the generator that somebody draws from; the one that it returns gives the numbers.
_resolver: ContextVar[Callable[[Generator], Generator] | None] = ContextVar("stowgrad_resolver", default=None)
# Streams of threads other than the first get keys far from those that seeds of people have.
_STRIDE = 0x9E3779B97F4A7C15


def default_generator() -> Generator:
    """The generator that ops on this thread draw from if they are given none."""
    replacement = _replacement.get()
    if replacement is not None:
        return replacement
    if _defaults.generator is None or _defaults.epoch != _epoch:
        number = 0 if threading.current_thread() is threading.main_thread() else next(_thread_numbers) + 1
        _defaults.generator = Generator().manual_seed(_seed + number * _STRIDE)
        _defaults.epoch = _epoch
    return _defaults.generator


def chosen(generator: Any) -> Generator:
    """The generator to draw from: the one that is given, or this thread's default.

    Raises:
        TypeError: if what is given is none.
    """
    if generator is None:
        return default_generator()
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be a stowgrad.Generator or None, not {type(generator).__name__}")
    return generator


def manual_seed(seed: int) -> Generator:
    """Start all default streams anew from a seed; returns this thread's generator.

    >>> import stowgrad
    >>> first = (stowgrad.manual_seed(0), stowgrad.rand(3))[1]
    >>> again = (stowgrad.manual_seed(0), stowgrad.rand(3))[1]
    >>> bool((first == again).all())
    True
    """
    global _seed, _epoch
    _seed = int(seed)
    _epoch += 1
    return default_generator()


def seed() -> int:
    """Start all default streams anew from a seed of the system, and return that."""
    chosen = int.from_bytes(os.urandom(8), "little")
    manual_seed(chosen)
    return chosen


def initial_seed() -> int:
    """The seed of this thread's default generator."""
    return default_generator().initial_seed()


def get_rng_state() -> Any:
    """The state of this thread's default generator: a uint64 tensor of two elements."""
    return default_generator().get_state()


def set_rng_state(state: Any) -> None:
    """Set the state of this thread's default generator.

    Raises:
        RuntimeError: if ``state`` is not what `get_rng_state` returns.
    """
    default_generator().set_state(state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Let a block of code draw without moving this thread's default stream: after it, all is as before.

    ``devices`` is accepted for PyTorch's sake: one stream serves all devices.
    """
    if not enabled:
        yield
        return
    generator = default_generator()
    seed_before, epoch_before, state = _seed, _epoch, (generator._key, generator._counter)
    try:
        yield
    finally:
        _restore(generator, seed_before, epoch_before, state)


def _restore(generator: Generator, seed_before: int, epoch_before: int, state: tuple[int, int]) -> None:
    global _seed, _epoch
    _seed, _epoch = seed_before, epoch_before
    generator._key, generator._counter = state
    if _replacement.get() is None:
        _defaults.generator, _defaults.epoch = generator, epoch_before


@contextlib.contextmanager
def drawing_from(generator: Generator) -> Iterator[None]:
    """Let ops in a block of code draw from ``generator`` instead of the default."""
    before = _replacement.get()
    _replacement.set(generator)
    try:
        yield
    finally:
        _replacement.set(before)


@contextlib.contextmanager
def watching(note: Callable[[Generator, Generator], None]) -> Iterator[None]:
    """Call ``note(generator, source)`` before each draw in a block of code; the numbers come from ``source``."""
    outer = _resolver.get()

    def resolve(generator: Generator) -> Generator:
        source = generator if outer is None else outer(generator)
        note(generator, source)
        return source

    token = _resolver.set(resolve)
    try:
        yield
    finally:
        _resolver.reset(token)


@contextlib.contextmanager
def replacing(sources: dict[Generator, Generator]) -> Iterator[None]:
    """Let a block of code draw from the values of ``sources`` where it names their keys."""
    token = _resolver.set(lambda generator: sources.get(generator, generator))
    try:
        yield
    finally:
        _resolver.reset(token)
