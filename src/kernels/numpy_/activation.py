"""Activation functions, forward and backward: each tile is taken through all steps while it is in the cache.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array, parallel_slices
from .bits import map_bits, pack_tile, select_tile
from .error_function import horner, in_float32, scaled_complement_tile
from .tiling import BOOL, FLOAT32, contiguous_in, map_tiles, map_tiles_in_out, tile_size

__all__ = [
    "gelu",
    "gelu_backward",
    "relu",
    "relu_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "tanh_backward",
]

_TANH_SLOPE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715 * _TANH_SLOPE
# log2(Phi(-x) / Phi(x)) = x * P(x * x) for float32, our own fit: x * Phi(x) is right to 1e-7 of 1 + abs(x), and to 3e-5
# of itself down to -5. Beyond 5.6, where Phi(-x) is below the last place of 1, the polynomial just falls on. To base 2:
# with AVX-512 NumPy's exp2 takes 0.17 ns an element, its exp 0.35.
_LOG_ODDS = in_float32(
    -2.3022173786375952,
    -0.10480886092013691,
    6.853819347726768e-05,
    0.00017004647093517826,
    -1.3512359291919911e-05,
    5.890642302311343e-07,
    -1.5347402390886816e-08,
    2.2278972415301418e-10,
    -1.3854178318029516e-12,
)
# Phi(x) = (1 + tanh(x * P(x * x))) / 2 for float32, our own fit: right to 1e-7, and so good enough for a slope.
_HALF_LOG_ODDS = in_float32(
    0.7978849414598218,
    0.03633308457647239,
    -3.259497862064328e-05,
    -5.530619230541787e-05,
    3.964744136595535e-06,
    -1.3226331531259428e-07,
    1.7561700127564138e-09,
)
_HALF, _ONE = in_float32(0.5, 1.0)
_DECAY, _PEAK = in_float32(-0.5 * math.log2(math.e), 2 / math.sqrt(2 * math.pi))


# -- gelu --------------------------------------------------------------------------------------------------------------


def gelu(x: Array, out: Array, *, approximate: str = "none") -> None:
    """``out = x * Phi(x)``: ``Phi`` is the normal distribution function ("none") or its approximation by "tanh"."""
    if approximate == "tanh":
        map_tiles_in_out(_gelu_tanh_tile, [x, out])
    elif x.dtype == FLOAT32:
        map_tiles_in_out(_gelu_odds_tile, [x, out], [x.dtype])
    else:
        map_tiles(_gelu_erf_tile, [x, out], [x.dtype] * 3)


def gelu_backward(grad: Array, x: Array, grad_x: Array, *, approximate: str = "none") -> None:
    """``grad_x = grad * gelu'(x)``."""
    if approximate == "tanh":
        map_tiles_in_out(_gelu_tanh_backward_tile, [grad, x, grad_x], [x.dtype])
    elif x.dtype == FLOAT32:
        map_tiles_in_out(_gelu_odds_backward_tile, [grad, x, grad_x], [x.dtype])
    else:
        map_tiles(_gelu_erf_backward_tile, [grad, x, grad_x], [x.dtype] * 3 + [BOOL])


def _gelu_tanh_tile(x: Array, out: Array, s: Array) -> None:
    with np.errstate(over="ignore"):
        np.multiply(x, x, s)
        np.multiply(s, _TANH_CUBIC, s)
        np.add(s, _TANH_SLOPE, s)
        np.multiply(s, x, s)
    np.tanh(s, s)
    np.add(s, 1, s)
    np.multiply(s, x, s)
    np.multiply(s, 0.5, out)


def _gelu_tanh_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, t: Array) -> None:
    # With u = x (a + b x^2) and t = tanh(u) the derivative is (1 + t) (1/2 + (1 - t) x u' / 2).
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(x, x, s)
        np.multiply(s, _TANH_CUBIC, t)
        np.add(t, _TANH_SLOPE, t)
        np.multiply(t, x, t)
        np.tanh(t, t)
        np.multiply(s, 1.5 * _TANH_CUBIC, s)
        np.add(s, 0.5 * _TANH_SLOPE, s)
        np.multiply(s, x, s)  # x u' / 2
        np.subtract(1, t, t)
        np.multiply(s, t, s)
    np.add(s, 0.5, s)
    np.subtract(2, t, t)  # 1 + tanh(u)
    np.multiply(s, t, s)
    np.multiply(s, grad, grad_x)


def _normal_tail_tile(x: Array, density: Array, tail: Array, work: Array) -> None:
    """``density = exp(-x*x/2)`` and ``tail = 2 Phi(-|x|)``."""
    np.absolute(x, density)
    np.multiply(density, math.sqrt(0.5), density)
    scaled_complement_tile(density, tail, work)
    np.multiply(x, x, density)
    np.multiply(density, -0.5, density)
    np.exp(density, density)
    np.multiply(tail, density, tail)


def _gelu_odds_tile(x: Array, out: Array, odds: Array, square: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(x, x, square)
        horner(_LOG_ODDS, square, odds)
        np.multiply(odds, x, odds)
        np.exp2(odds, odds)
        np.add(odds, _ONE, odds)
        np.divide(x, odds, out)


def _gelu_odds_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, density: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(x, x, density)
        horner(_HALF_LOG_ODDS, density, s)
        np.multiply(s, x, s)
        np.tanh(s, s)
        np.multiply(density, _DECAY, density)
        np.exp2(density, density)
        np.multiply(density, _PEAK, density)
        np.multiply(density, x, density)
        np.add(s, density, s)
        np.add(s, _ONE, s)
        np.multiply(s, _HALF, s)
        np.multiply(s, grad, grad_x)


def _gelu_erf_tile(x: Array, out: Array, s: Array, tail: Array, work: Array) -> None:
    if x.dtype == FLOAT32:
        _gelu_odds_tile(x, out, s, tail)
        return
    # x Phi(x) = max(x, 0) - |x| Phi(-|x|), and 2 max(x, 0) = x + |x|: no cancellation on either side.
    with np.errstate(over="ignore", invalid="ignore"):
        _normal_tail_tile(x, s, tail, work)
        np.absolute(x, s)
        np.multiply(tail, s, tail)
        np.add(s, x, s)
        np.subtract(s, tail, s)
        np.multiply(s, 0.5, out)


def _gelu_erf_backward_tile(
    grad: Array, x: Array, grad_x: Array, density: Array, tail: Array, work: Array, positive: Array
) -> None:
    if x.dtype == FLOAT32:
        _gelu_odds_backward_tile(grad, x, grad_x, tail, density)
        return
    # The derivative Phi(x) + x phi(x) is r = Phi(-|x|) - |x| phi(x) left of 0 and 1 - r right of it.
    with np.errstate(over="ignore", invalid="ignore"):
        _normal_tail_tile(x, density, tail, work)
        np.absolute(x, work)
        np.multiply(work, -2 / math.sqrt(2 * math.pi), work)
        np.multiply(work, density, work)
        np.add(tail, work, tail)  # 2 r
        np.greater(x, 0, positive)
        np.multiply(tail, 0.5, tail)
        np.multiply(tail, -2, density)
        np.add(density, 1, density)
        np.multiply(density, positive, density)
        np.add(tail, density, tail)
        np.multiply(tail, grad, grad_x)


# -- sigmoid and its like ----------------------------------------------------------------------------------------------


def sigmoid(x: Array, out: Array) -> None:
    """``out = 1 / (1 + exp(-x))``."""
    map_tiles(_sigmoid_tile, [x, out])


def _sigmoid_tile(x: Array, out: Array) -> None:
    with np.errstate(over="ignore"):  # far left exp(-x) is infinite and its reciprocal the right 0
        np.negative(x, out)
        np.exp(out, out)
        np.add(out, 1, out)
        np.divide(1, out, out)  # twice as fast as np.reciprocal


def sigmoid_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * y * (1 - y)`` with the forward's result ``y``."""
    map_tiles_in_out(_sigmoid_backward_tile, [grad, y, grad_x])


def _sigmoid_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    np.subtract(1, y, s)
    np.multiply(s, y, s)
    np.multiply(s, grad, grad_x)


def tanh_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * (1 - y * y)`` with the forward's result ``y``."""
    map_tiles_in_out(_tanh_backward_tile, [grad, y, grad_x])


def _tanh_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    np.multiply(y, y, s)
    np.subtract(1, s, s)
    np.multiply(s, grad, grad_x)


def silu(x: Array, out: Array) -> None:
    """``out = x * sigmoid(x)``."""
    map_tiles_in_out(_silu_tile, [x, out])


def _silu_tile(x: Array, out: Array, s: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        np.negative(x, s)
        np.exp(s, s)
        np.add(s, 1, s)
        np.divide(x, s, out)


def silu_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."""
    map_tiles_in_out(_silu_backward_tile, [grad, x, grad_x], [x.dtype])


def _silu_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, t: Array) -> None:
    _sigmoid_tile(x, s)
    np.subtract(1, s, t)
    np.multiply(t, x, t)
    np.add(t, 1, t)
    np.multiply(t, s, t)
    np.multiply(t, grad, grad_x)


# -- relu --------------------------------------------------------------------------------------------------------------


def relu(x: Array, out: Array, mask_bits: Array | None = None) -> None:
    """``out = max(x, 0)``, and one bit an element in ``mask_bits`` (uint8, `numpy.packbits`' layout) for backward.

    As in PyTorch, NaN passes through and its bit is set.
    """
    source, target = contiguous_in(x, out).reshape(-1), out.reshape(-1)
    most = np.iinfo(out.dtype).max if out.dtype.kind in "iu" else np.inf

    def tile(where: slice, *scratch: Array) -> None:
        part = target[where]
        np.clip(source[where], 0, most, out=part)  # np.maximum takes four times as long with a scalar
        if mask_bits is not None:
            keep = scratch[0][: part.size]
            np.not_equal(part, 0, keep)
            pack_tile(keep, mask_bits, where)

    step = tile_size(out.size, out.dtype)
    parallel_slices(tile, out.size, step, () if mask_bits is None else [((step,), BOOL)])


def relu_backward(grad: Array, mask_bits: Array, grad_x: Array) -> None:
    """``grad_x = grad`` where the bit is set, else 0."""
    map_bits(lambda grad, out, where: select_tile(grad, mask_bits[where], out), grad, grad_x)
