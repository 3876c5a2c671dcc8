"""Random numbers of other distributions than the uniform and the normal, drawn as those of `random` are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .random import DRAW_TILE, _fill, _working, bit_stream
from .tiling import FLOAT64, contiguous, copy_tiled, numpy_workspace

__all__ = ["binomial", "cauchy", "exponential", "geometric", "log_normal", "poisson", "standard_gamma"]

# Above, the counts would not fit in 64 bits.
_MOST = 9.2e18


def exponential(out: Array, *, key: int, counter: int, rate: float = 1.0) -> None:
    """Fill ``out`` from the exponential distribution of mean ``1 / rate``."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        generator.standard_exponential(out=part, dtype=part.dtype.type)
        if rate != 1:
            np.divide(part, rate, part)

    _fill(draw, out, key, counter, _working(out))


def log_normal(out: Array, *, key: int, counter: int, mean: float = 1.0, std: float = 2.0) -> None:
    """Fill ``out`` with powers of e to normal numbers of that mean and deviation."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        generator.standard_normal(out=part, dtype=part.dtype.type)
        np.multiply(part, std, part)
        np.add(part, mean, part)
        with np.errstate(over="ignore"):
            np.exp(part, part)

    _fill(draw, out, key, counter, _working(out))


def cauchy(out: Array, *, key: int, counter: int, median: float = 0.0, sigma: float = 1.0) -> None:
    """Fill ``out`` from the Cauchy distribution."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        generator.random(out=part, dtype=part.dtype.type)
        np.subtract(part, 0.5, part)
        np.multiply(part, np.pi, part)
        np.tan(part, part)
        np.multiply(part, sigma, part)
        np.add(part, median, part)

    _fill(draw, out, key, counter, _working(out))


def geometric(out: Array, *, key: int, counter: int, p: float) -> None:
    """Fill ``out`` with how many trials it takes to succeed once, each with probability ``p``."""

    def draw(generator: np.random.Generator, part: Array) -> None:
        generator.standard_exponential(out=part)
        np.divide(part, -np.log1p(-p), part)
        np.ceil(part, part)
        np.maximum(part, 1, out=part)

    _fill(draw, out, key, counter, FLOAT64)


def poisson(rate: Array, out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` with Poisson numbers of the means in ``rate``, which are not negative."""

    def draw(generator: np.random.Generator, means: Array, part: Array) -> None:
        part[...] = generator.poisson(np.minimum(means, _MOST))

    _fill_from(draw, (rate,), out, key, counter)


def binomial(count: Array, prob: Array, out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` with how many of ``count`` trials succeed, each with probability ``prob``; both are clamped."""

    def draw(generator: np.random.Generator, counts: Array, probabilities: Array, part: Array) -> None:
        trials = np.clip(counts, 0, _MOST).astype(np.int64)
        part[...] = generator.binomial(trials, np.clip(probabilities.astype(np.float64), 0, 1))

    _fill_from(draw, (count, prob), out, key, counter)


def standard_gamma(concentration: Array, out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` from gamma distributions of scale 1, with no number below the least normal one."""
    dtype = out.dtype if out.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    least = float(np.finfo(dtype).tiny)

    def draw(generator: np.random.Generator, shapes: Array, part: Array) -> None:
        numbers = generator.standard_gamma(np.abs(np.maximum(shapes.astype(np.float64), 0.0)))
        part[...] = np.maximum(numbers, least)

    _fill_from(draw, (concentration,), out, key, counter)


def _fill_from(draw: Callable[..., None], inputs: tuple[Array, ...], out: Array, key: int, counter: int) -> None:
    """Fill ``out`` tile by tile from inputs of its shape."""
    drawn = out if out.flags.c_contiguous else scratch(out.shape, out.dtype)
    flat = drawn.reshape(-1)
    rows = [contiguous(np.broadcast_to(x, out.shape)).reshape(-1) for x in inputs]

    def tile(where: slice) -> None:
        generator = np.random.Generator(bit_stream(key, counter, where.start))
        draw(generator, *[row[where] for row in rows], flat[where])

    with numpy_workspace(32, out.size, DRAW_TILE):
        parallel_slices(tile, flat.size, DRAW_TILE)
    if drawn is not out:
        copy_tiled(drawn, out)
