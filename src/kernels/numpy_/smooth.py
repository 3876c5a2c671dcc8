"""Smooth activation functions beside those of `activation`: each tile takes all steps while it is in the cache.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array
from .bits import SIGNED, replace_tile
from .exponentials import exp_of_product, expm1_of_negative, expm1_scratch, log1p_of_positive, log1p_scratch
from .tiling import BOOL, FLOAT32, map_tiles, map_tiles_in_out

__all__ = [
    "elu",
    "elu_backward",
    "hardswish",
    "hardswish_backward",
    "log_sigmoid",
    "log_sigmoid_backward",
    "mish",
    "mish_backward",
    "softplus",
    "softplus_backward",
    "softsign",
    "softsign_backward",
]

_FAR = 20.0  # from here on tanh(softplus(x)) is 1 in every precision
_NOTHING = 2.0**-26  # less is lost in the rounding of 1 in float32
_NEVER_INFINITE = 80.0  # its exponential is no infinity in float32


# -- exponential linear units ------------------------------------------------------------------------------------------


def elu(x: Array, out: Array, *, alpha: float, scale: float, input_scale: float) -> None:
    """``out = scale * x`` where it is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    if alpha == scale == input_scale == 1:
        map_tiles_in_out(_elu_tile, [x, out], expm1_scratch(x.dtype))
        return

    def tile(x: Array, out: Array, s: Array, *work: Array) -> None:
        np.clip(x, -np.inf, 0, out=s)
        if input_scale != 1:
            np.multiply(s, input_scale, s)
        expm1_of_negative(s, s, *work)
        if alpha * scale != 1:
            np.multiply(s, alpha * scale, s)
        np.clip(x, 0, np.inf, out=out)
        if scale != 1:
            np.multiply(out, scale, out)
        np.add(out, s, out)

    map_tiles(tile, [x, out], [x.dtype, *expm1_scratch(x.dtype)])


def _elu_tile(x: Array, out: Array, s: Array, *work: Array) -> None:
    np.clip(x, -np.inf, 0, out=s)
    expm1_of_negative(s, s, *work)
    np.maximum(x, s, out=out)  # the line is the curve's tangent


def elu_backward(grad: Array, y: Array, grad_x: Array, *, alpha: float, scale: float, input_scale: float) -> None:
    """The gradient of `elu` from its result: the slope is ``input_scale * (y + alpha * scale)`` where ``y <= 0``."""
    if alpha == scale == input_scale == 1:
        map_tiles_in_out(_elu_backward_tile, [grad, y, grad_x])
        return

    def tile(grad: Array, y: Array, grad_x: Array, s: Array, positive: Array, *mask: Array) -> None:
        np.less_equal(y, 0, positive)
        np.logical_not(positive, positive)
        np.add(y, alpha * scale, s)
        if input_scale != 1:
            np.multiply(s, input_scale, s)
        replace_tile(s, positive, scale, *mask)
        np.multiply(s, grad, grad_x)

    map_tiles(tile, [grad, y, grad_x], [y.dtype, BOOL, *[SIGNED[y.dtype.itemsize]] * 2])


def _elu_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    np.fmin(y, 0, out=s)  # the slope at NaN is that of the line, as in PyTorch
    np.add(s, 1, s)
    np.multiply(s, grad, grad_x)


# -- softplus and its like ---------------------------------------------------------------------------------------------


def softplus(x: Array, out: Array, *, beta: float, threshold: float) -> None:
    """``out = log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``."""
    if beta == 1 and _is_straight(x, threshold):
        map_tiles_in_out(_softplus_tile, [x, out], log1p_scratch(x.dtype))
        return

    def tile(x: Array, out: Array, s: Array, t: Array, straight: Array, *work: Array) -> None:
        np.multiply(x, beta, t)
        np.greater(t, threshold, straight)
        np.absolute(t, s)
        with np.errstate(over="ignore"):
            exp_of_product(s, -1.0, s)
        log1p_of_positive(s, s, *work)
        np.clip(t, 0, np.inf, out=t)
        np.add(s, t, s)
        np.multiply(s, 1 / beta, s)
        np.copyto(s, x, where=straight)
        np.copyto(out, s)

    map_tiles(tile, [x, out], [x.dtype, x.dtype, BOOL, *log1p_scratch(x.dtype)])


def _softplus_tile(x: Array, out: Array, s: Array, *work: Array) -> None:
    np.clip(x, -np.inf, _NEVER_INFINITE, out=s)
    with np.errstate(over="ignore"):
        exp_of_product(s, 1.0, s)
    log1p_of_positive(s, s, *work)
    np.maximum(x, s, out=out)


def _is_straight(x: Array, threshold: float) -> bool:
    """Whether beyond the threshold rounding alone makes softplus the straight line and its slope 1."""
    return x.dtype == FLOAT32 and math.exp(-max(threshold, 0.0)) < _NOTHING


def softplus_backward(grad: Array, x: Array, grad_x: Array, *, beta: float, threshold: float) -> None:
    """``grad_x = grad * sigmoid(beta * x)``, and ``grad`` where ``beta * x > threshold``."""
    exact = _is_straight(x, threshold)

    def tile(grad: Array, x: Array, grad_x: Array, s: Array, *straight: Array) -> None:
        if not exact:
            np.multiply(x, -beta, s)
            np.less(s, -threshold, *straight)
        with np.errstate(over="ignore"):
            exp_of_product(x, -beta, s)
        np.add(s, 1, s)
        if not exact:
            np.copyto(s, 1, where=straight[0])
        np.divide(grad, s, grad_x)

    map_tiles_in_out(tile, [grad, x, grad_x], [] if exact else [BOOL])


def log_sigmoid(x: Array, out: Array) -> None:
    """``out = log(sigmoid(x)) = -log(1 + exp(-x))``."""
    map_tiles(_log_sigmoid_tile, [x, out], [x.dtype, *log1p_scratch(x.dtype)])


def _log_sigmoid_tile(x: Array, out: Array, s: Array, *work: Array) -> None:
    np.absolute(x, s)
    with np.errstate(over="ignore"):
        exp_of_product(s, -1.0, s)
    log1p_of_positive(s, s, *work)
    np.clip(x, -np.inf, 0, out=out)
    np.subtract(out, s, out)


def log_sigmoid_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * (1 - exp(y))`` with the forward's result ``y``."""
    map_tiles_in_out(_log_sigmoid_backward_tile, [grad, y, grad_x], expm1_scratch(y.dtype))


def _log_sigmoid_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array, *work: Array) -> None:
    expm1_of_negative(y, s, *work)
    np.negative(s, s)
    np.multiply(s, grad, grad_x)


def mish(x: Array, out: Array) -> None:
    """``out = x * tanh(log(1 + exp(x)))``."""
    map_tiles_in_out(_mish_tile, [x, out], [x.dtype])


def _mish_tile(x: Array, out: Array, s: Array, t: Array) -> None:
    # With e = exp(x) and n = e (e + 2): tanh(log(1 + e)) = n / (n + 2).
    np.clip(x, -np.inf, _FAR, out=s)
    np.exp(s, s)
    np.add(s, 2, t)
    np.multiply(s, t, s)
    np.add(s, 2, t)
    np.divide(s, t, s)
    np.multiply(s, x, out)


def mish_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """The gradient of `mish`."""
    map_tiles(_mish_backward_tile, [grad, x, grad_x], [x.dtype] * 3)


def _mish_backward_tile(grad: Array, x: Array, grad_x: Array, e: Array, n: Array, t: Array) -> None:
    # The derivative is n / (n + 2) + 4 x e (1 + e) / (n + 2)^2.
    np.clip(x, -np.inf, _FAR, out=e)
    np.exp(e, e)
    np.add(e, 2, n)
    np.multiply(n, e, n)
    np.add(e, 1, t)
    np.multiply(t, e, e)
    np.clip(x, -np.inf, _FAR, out=t)
    np.multiply(e, t, e)
    np.multiply(e, 4, e)
    np.add(n, 2, t)
    np.divide(e, t, e)
    np.add(e, n, e)
    np.divide(e, t, e)
    np.multiply(e, grad, grad_x)


# -- fractions and parabolas -------------------------------------------------------------------------------------------


def softsign(x: Array, out: Array) -> None:
    """``out = x / (1 + abs(x))``."""
    map_tiles_in_out(_softsign_tile, [x, out])


def _softsign_tile(x: Array, out: Array, s: Array) -> None:
    np.absolute(x, s)
    np.add(s, 1, s)
    np.divide(x, s, out)


def softsign_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad / (1 + abs(x))**2``."""
    map_tiles(_softsign_backward_tile, [grad, x, grad_x], [x.dtype])


def _softsign_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array) -> None:
    np.absolute(x, s)
    np.add(s, 1, s)
    np.divide(grad, s, grad_x)
    np.divide(grad_x, s, grad_x)


def hardswish(x: Array, out: Array) -> None:
    """``out = x * (x + 3) / 6`` between -3 and 3, 0 left and ``x`` right of them."""
    map_tiles_in_out(_hardswish_tile, [x, out])


def _hardswish_tile(x: Array, out: Array, s: Array) -> None:
    np.clip(x, -3, 3, out=s)
    np.add(s, 3, s)
    np.multiply(s, 1 / 6, s)
    np.multiply(s, x, out)


def hardswish_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * (x / 3 + 1/2)`` between -3 and 3, 0 left and ``grad`` right of them."""
    map_tiles(_hardswish_backward_tile, [grad, x, grad_x], [x.dtype, BOOL])


def _hardswish_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, edge: Array) -> None:
    np.greater_equal(x, 3, edge)
    np.multiply(x, 1 / 3, s)
    np.add(s, 0.5, s)
    np.copyto(s, 1, where=edge)
    np.less_equal(x, -3, edge)
    np.copyto(s, 0, where=edge)
    np.multiply(s, grad, grad_x)
