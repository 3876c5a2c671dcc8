"""GELU, forward and backward: each tile is taken through all steps while it is in the cache.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ..executor import Array
from .error_function import scaled_complement_tile
from .exponentials import exp_of_product, fast_exponential, in_float32
from .tiling import BOOL, FLOAT32, DType, map_tiles, map_tiles_in_out

__all__ = ["gelu", "gelu_backward"]

_TANH_SLOPE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715 * _TANH_SLOPE
_FLAT = 100.0  # where the square of x is larger, the hyperbolic tangent is 1
_FAR = 1e4  # there is nothing left of a tail, in any dtype
_DECAY, _PEAK = -0.5, 1 / math.sqrt(2 * math.pi)
_ONE, _PEAK_32 = in_float32(1.0, _PEAK)


def gelu(x: Array, out: Array, *, approximate: str = "none") -> None:
    """``out = x * Phi(x)``: ``Phi`` is the normal distribution function ("none") or its approximation by "tanh"."""
    if approximate == "tanh":
        map_tiles_in_out(gelu_tanh_tile, [x, out])
    elif x.dtype == FLOAT32:
        map_tiles_in_out(_gelu_odds_tile, [x, out], [x.dtype])
    else:
        map_tiles(gelu_tile, [x, out], [x.dtype] * 3)


def gelu_backward(grad: Array, x: Array, grad_x: Array, *, approximate: str = "none") -> None:
    """``grad_x = grad * gelu'(x)``."""
    if approximate == "tanh":
        map_tiles_in_out(gelu_tanh_backward_tile, [grad, x, grad_x], [x.dtype])
    elif x.dtype == FLOAT32:
        map_tiles_in_out(_gelu_odds_backward_tile, [grad, x, grad_x], [x.dtype])
    else:
        map_tiles(gelu_backward_tile, [grad, x, grad_x], [x.dtype] * 3 + [BOOL])


# -- float32 -----------------------------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """A fit of ``log2(Phi(-x) / Phi(x))``.

    With ``t = x**2`` it is ``x * (start + rise * t + b / (t + a + b' / (t + a' + ...)))``; ``fractions`` are the pairs
    ``(b, a)`` from the outermost to the innermost one.
    """

    start: float
    rise: float
    fractions: tuple[tuple[float, float], ...]


# Our own fits, minimax in the weights of their uses. A fraction takes five steps in place of eleven of a polynomial.
# Of the function: x * Phi(x) is right to 1e-7 of 1 + abs(x), and to 6e-6 of itself down to -5.
_FORWARD = _Fit(
    -7.044871591056069,
    -0.024702933198109175,
    (
        (303.14780126784734, 67.91547304898417),
        (-39.46603540563443, -4.27714250010703),
        (249.74634136124646, 17.64600686012152),
    ),
)
# Of the slope, where the tails need not be right to their last place: to 3e-7.
_BACKWARD = _Fit(
    -3.41432749367894,
    -0.05233518525407192,
    (
        (7.6950984687300945, -23.591857219615257),
        (1382.4686501148371, 45.3102328719418),
    ),
)


class _Steps(NamedTuple):
    """A fit in the base of a fast exponential and in ``u = rise * x**2``, so that ``rise`` itself takes no step."""

    power: np.ufunc
    start: Array
    rise: Array
    fractions: tuple[tuple[Array, Array], ...]  # from the innermost one to the outermost
    to_density: Array  # power(to_density * u) = exp(-x**2 / 2)


@functools.cache
def _steps(fit: _Fit) -> _Steps:
    power, logarithm = fast_exponential()
    unit = math.log(2) * logarithm
    rise = fit.rise * unit
    fractions = [
        in_float32(b * rise * (rise if depth else unit), a * rise) for depth, (b, a) in enumerate(fit.fractions)
    ]
    start, step, to_density = in_float32(fit.start * unit, rise, _DECAY * logarithm / rise)
    return _Steps(power, start, step, tuple((b, a) for b, a in reversed(fractions)), to_density)


def _fill_one_and_odds(x: Array, steps: _Steps, odds: Array, u: Array) -> None:
    """``odds = 1 + Phi(-x) / Phi(x) = 1 / Phi(x)``, and ``u``."""
    np.multiply(x, x, u)
    np.multiply(u, steps.rise, u)
    (b, a), *outer = steps.fractions
    np.add(u, a, odds)
    np.divide(b, odds, odds)
    for b, a in outer:
        np.add(odds, u, odds)
        np.add(odds, a, odds)
        np.divide(b, odds, odds)
    np.add(odds, u, odds)
    np.add(odds, steps.start, odds)
    np.multiply(odds, x, odds)
    steps.power(odds, odds)
    np.add(odds, _ONE, odds)


def _gelu_odds_tile(x: Array, out: Array, odds: Array, u: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        _fill_one_and_odds(x, _steps(_FORWARD), odds, u)
        np.divide(x, odds, out)


def _gelu_odds_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, u: Array) -> None:
    steps = _steps(_BACKWARD)
    with np.errstate(over="ignore", invalid="ignore"):
        _fill_one_and_odds(x, steps, s, u)
        np.divide(_ONE, s, s)
        np.multiply(u, steps.to_density, u)
        steps.power(u, u)
        np.multiply(u, _PEAK_32, u)
        np.multiply(u, x, u)
        np.add(s, u, s)
        np.multiply(s, grad, grad_x)


# -- any dtype ---------------------------------------------------------------------------------------------------------


def _normal_tail_tile(x: Array, density: Array, tail: Array, work: Array) -> None:
    """``density = exp(-x*x/2)`` and ``tail = 2 Phi(-|x|)``."""
    np.absolute(x, density)
    np.multiply(density, math.sqrt(0.5), density)
    scaled_complement_tile(density, tail, work)
    np.multiply(x, x, density)
    np.multiply(density, _DECAY, density)
    np.exp(density, density)
    np.multiply(tail, density, tail)


def gelu_tile(x: Array, out: Array, s: Array, tail: Array, work: Array) -> None:
    """A tile of `gelu`."""
    if x.dtype == FLOAT32:
        _gelu_odds_tile(x, out, s, tail)
        return
    # x Phi(x) = max(x, 0) - |x| Phi(-|x|), and 2 max(x, 0) = x + |x|: no cancellation on either side.
    with np.errstate(over="ignore", invalid="ignore"):
        _normal_tail_tile(x, s, tail, work)
        np.absolute(x, s)
        s.clip(0, _FAR, s)  # infinity times a tail of zero would be NaN
        np.multiply(tail, s, tail)
        np.absolute(x, s)
        np.add(s, x, s)
        np.subtract(s, tail, s)
        np.multiply(s, 0.5, out)


def gelu_backward_tile(
    grad: Array, x: Array, grad_x: Array, density: Array, tail: Array, work: Array, positive: Array
) -> None:
    """A tile of `gelu_backward`."""
    if x.dtype == FLOAT32:
        _gelu_odds_backward_tile(grad, x, grad_x, tail, density)
        return
    # The derivative Phi(x) + x phi(x) is r = Phi(-|x|) - |x| phi(x) left of 0 and 1 - r right of it.
    with np.errstate(over="ignore", invalid="ignore"):
        _normal_tail_tile(x, density, tail, work)
        np.absolute(x, work)
        np.multiply(work, -2 * _PEAK, work)
        np.multiply(work, density, work)
        np.add(tail, work, tail)  # 2 r
        np.greater(x, 0, positive)
        np.multiply(tail, 0.5, tail)
        np.multiply(tail, -2, density)
        np.add(density, 1, density)
        np.multiply(density, positive, density)
        np.add(tail, density, tail)
        np.multiply(tail, grad, grad_x)


# -- the form with a hyperbolic tangent --------------------------------------------------------------------------------


@functools.cache
def _tanh_numbers(dtype: DType) -> tuple[Array, ...]:
    """Arrays without dimensions: see `in_float32`."""
    numbers = (_TANH_CUBIC, _TANH_SLOPE, 1.5 * _TANH_CUBIC, 0.5 * _TANH_SLOPE, 0.5, 1.0, 2.0)
    return tuple([np.array(number, dtype) for number in numbers])


def gelu_tanh_tile(x: Array, out: Array, s: Array) -> None:
    """A tile of `gelu` in the form with a hyperbolic tangent."""
    # With u = x (a + b x^2) it is x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)).
    cubic, slope, _, _, _, one, _ = _tanh_numbers(x.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(x, x, s)
        np.multiply(s, cubic, s)
        np.add(s, slope, s)
        np.multiply(s, x, s)
        exp_of_product(s, -2.0, s)
        np.add(s, one, s)
        np.divide(x, s, out)


def gelu_tanh_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, t: Array) -> None:
    """A tile of `gelu_backward` in the form with a hyperbolic tangent."""
    # With u = x (a + b x^2) and t = tanh(u) the derivative is (1 + t) (1/2 + (1 - t) x u' / 2).
    cubic, slope, rise, start, half, one, two = _tanh_numbers(x.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(x, x, s)
        s.clip(0, _FLAT, s)  # from there on the slope is constant, and nothing must be infinite that is times zero
        np.multiply(s, cubic, t)
        np.add(t, slope, t)
        np.multiply(t, x, t)
        np.tanh(t, t)
        np.multiply(s, rise, s)
        np.add(s, start, s)
        np.multiply(s, x, s)  # x u' / 2
        np.subtract(one, t, t)
        np.multiply(s, t, s)
    np.add(s, half, s)
    np.subtract(two, t, t)  # 1 + tanh(u)
    np.multiply(s, t, s)
    np.multiply(s, grad, grad_x)
