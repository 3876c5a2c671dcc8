"""Random numbers from a counter (Philox): what an element gets depends on key, counter and its index alone.

The counter moves by `counter_steps(size)` for a draw of ``size`` elements: the caller adds them for its next draw. An
element belongs to a tile of fixed size with a stream of its own, so threads can draw tiles in any order, and a shorter
array gets the beginning of what a longer one gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .tiling import FLOAT32, FLOAT64, DType, copy_tiled, numpy_workspace

__all__ = [
    "counter_steps",
    "integers",
    "normal",
    "permutation",
    "uniform",
]

DRAW_TILE = 131072  # elements; part of what a seed means, so it does not follow the cache-minded tile size
# A step of the counter gives 256 bits. No draw here takes more than a few of them an element, so streams stay apart.
_STEPS_PER_TILE = 1 << 20


def counter_steps(size: int) -> int:
    """How far a draw of ``size`` elements moves the counter."""
    return -(-size // DRAW_TILE) * _STEPS_PER_TILE


def bit_stream(key: int, counter: int, start: int) -> np.random.Philox:
    """The stream of the tile that begins at element ``start``, a multiple of `DRAW_TILE`."""
    return np.random.Philox(key=key, counter=counter + start // DRAW_TILE * _STEPS_PER_TILE)


# Streams that nobody draws from: to make one takes 16 us, to begin it anew 1 us.
_idle: list[np.random.Philox] = []
_WORD = (1 << 64) - 1


def raw_words(key: int, counter: int, start: int, count: int) -> Array:
    """The first numbers of a `bit_stream`, of 64 bits."""
    position = counter + start // DRAW_TILE * _STEPS_PER_TILE
    try:
        stream = _idle.pop()
    except IndexError:
        stream = np.random.Philox(key=0)
    state: Any = {  # tuples will do, in half of the time of arrays
        "bit_generator": "Philox",
        "state": {
            "counter": tuple([position >> bits & _WORD for bits in (0, 64, 128, 192)]),
            "key": (key & _WORD, key >> 64 & _WORD),
        },
        "buffer": (0, 0, 0, 0),
        "buffer_pos": 4,  # behind its end: nothing has been drawn
        "has_uint32": 0,
        "uinteger": 0,
    }
    stream.state = state
    words: Array = stream.random_raw(count)
    _idle.append(stream)
    return words


def uniform(out: Array, *, key: int, counter: int, low: float = 0.0, high: float = 1.0) -> None:
    """Fill ``out`` evenly from ``[low, high)``; rounding may give ``high`` if not 1."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        generator.random(out=part, dtype=part.dtype.type)
        if low != 0 or high != 1:
            np.multiply(part, high - low, part)
            np.add(part, low, part)

    _fill(draw, out, key, counter, _working(out))


def normal(out: Array, *, key: int, counter: int, mean: float = 0.0, std: float = 1.0) -> None:
    """Fill ``out`` from the normal distribution."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        generator.standard_normal(out=part, dtype=part.dtype.type)
        if std != 1:
            np.multiply(part, std, part)
        if mean != 0:
            np.add(part, mean, part)

    _fill(draw, out, key, counter, _working(out))


def integers(out: Array, *, key: int, counter: int, low: int, high: int) -> None:
    """Fill ``out`` with whole numbers from ``[low, high)``, all equally likely."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        part[...] = generator.integers(low, high, part.size)

    with numpy_workspace(8, out.size, DRAW_TILE):
        _fill(draw, out, key, counter, out.dtype)


def permutation(out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` (n,) with 0 ... n - 1 in random order."""
    out[...] = np.arange(out.size, dtype=out.dtype)
    np.random.Generator(bit_stream(key, counter, 0)).shuffle(out)


def _working(out: Array) -> DType:
    """The dtype in which a generator can draw floats for ``out``."""
    return FLOAT64 if out.dtype == FLOAT64 else FLOAT32


def _fill(
    draw: Callable[[np.random.Generator, Array], None], out: Array, key: int, counter: int, working: DType
) -> None:
    drawn = out if out.dtype == working else scratch(out.shape, working)
    flat = drawn.reshape(-1)

    def tile(where: slice) -> None:
        draw(np.random.Generator(bit_stream(key, counter, where.start)), flat[where])

    parallel_slices(tile, flat.size, DRAW_TILE)
    if drawn is not out:
        copy_tiled(drawn, out)
