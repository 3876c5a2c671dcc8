"""Activation functions, forward and backward: each tile is taken through all steps while it is in the cache.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array, parallel_slices
from .bits import SIGNED, pack_tile, select_tile
from .error_function import scaled_complement_tile
from .tiling import BOOL, contiguous_in, map_tiles, numpy_workspace, tile_size

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


# -- gelu --------------------------------------------------------------------------------------------------------------


def gelu(x: Array, out: Array, *, approximate: str = "none") -> None:
    """``out = x * Phi(x)``: ``Phi`` is the normal distribution function ("none") or its approximation by "tanh"."""
    if approximate == "tanh":
        map_tiles(_gelu_tanh_tile, [x, out], [x.dtype])
    else:
        map_tiles(_gelu_erf_tile, [x, out], [x.dtype] * 3)


def gelu_backward(grad: Array, x: Array, grad_x: Array, *, approximate: str = "none") -> None:
    """``grad_x = grad * gelu'(x)``."""
    if approximate == "tanh":
        map_tiles(_gelu_tanh_backward_tile, [grad, x, grad_x], [x.dtype] * 2)
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


def _gelu_erf_tile(x: Array, out: Array, s: Array, tail: Array, work: Array) -> None:
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
    # The derivative Phi(x) + x phi(x) is r = Phi(-|x|) - |x| phi(x) left of 0 and 1 - r right of it.
    with np.errstate(over="ignore", invalid="ignore"):
        _normal_tail_tile(x, density, tail, work)
        np.absolute(x, work)
        np.multiply(work, -2 / math.sqrt(2 * math.pi), work)
        np.multiply(work, density, work)
        np.add(tail, work, tail)  # 2 r
        np.greater(x, 0, positive)
        np.subtract(2, np.multiply(tail, 2, density), density)
        np.multiply(density, positive, density)
        np.add(tail, density, tail)
        np.multiply(tail, 0.5, tail)
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
        np.reciprocal(out, out)


def sigmoid_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * y * (1 - y)`` with the forward's result ``y``."""
    map_tiles(_sigmoid_backward_tile, [grad, y, grad_x], [y.dtype])


def _sigmoid_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    np.subtract(1, y, s)
    np.multiply(s, y, s)
    np.multiply(s, grad, grad_x)


def tanh_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * (1 - y * y)`` with the forward's result ``y``."""
    map_tiles(_tanh_backward_tile, [grad, y, grad_x], [y.dtype])


def _tanh_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    np.multiply(y, y, s)
    np.subtract(1, s, s)
    np.multiply(s, grad, grad_x)


def silu(x: Array, out: Array) -> None:
    """``out = x * sigmoid(x)``."""
    map_tiles(_silu_tile, [x, out], [x.dtype])


def _silu_tile(x: Array, out: Array, s: Array) -> None:
    _sigmoid_tile(x, s)
    np.multiply(x, s, out)


def silu_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."""
    map_tiles(_silu_backward_tile, [grad, x, grad_x], [x.dtype] * 2)


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

    def tile(where: slice, zero: Array, keep: Array) -> None:
        count = where.stop - where.start
        values, keep = source[where], keep[:count]
        if mask_bits is not None:
            np.less_equal(values, 0, keep)
            np.logical_not(keep, keep)
            pack_tile(keep, mask_bits, where)
        zero.fill(0)  # two arrays: with a scalar np.maximum takes four times as long
        np.maximum(values, zero[:count], out=target[where])

    step = tile_size(out.size, out.dtype)
    parallel_slices(tile, out.size, step, [((step,), out.dtype), ((step,), BOOL)])


def relu_backward(grad: Array, mask_bits: Array, grad_x: Array) -> None:
    """``grad_x = grad`` where the bit is set, else 0."""
    source, target = contiguous_in(grad, grad_x).reshape(-1), grad_x.reshape(-1)

    def tile(where: slice, mask: Array) -> None:
        select_tile(source[where], mask_bits, where, target[where], mask[: where.stop - where.start])

    size, dtype = grad_x.size, grad_x.dtype
    step = tile_size(size, dtype)
    with numpy_workspace(1, size, step):
        parallel_slices(tile, size, step, [((step,), SIGNED[dtype.itemsize])])
