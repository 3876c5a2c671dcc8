"""An activation times a gate, and an activation of a sum with a bias: in one go, tile by tile.

Nothing is kept in between: backward computes the activation again from the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..executor import Array
from . import activation as tiles
from . import smooth
from .exponentials import exp_of_product
from .gelu import gelu_backward_tile, gelu_tanh_backward_tile, gelu_tanh_tile, gelu_tile
from .tiling import BOOL, DType, map_tiles

__all__ = ["bias_activation", "bias_activation_backward", "gated", "gated_backward"]


class _Activation(NamedTuple):
    """An activation as tiles: ``forward(x, out, *scratch)`` and ``backward(grad, x, grad_x, *scratch, flags)``.

    ``both(grad, x, gate, grad_x, grad_gate, y, s)`` makes the gradients of the gated form in one go: to the last bit
    what the others make one by one. ``times_gate(x, gate, out)`` is the gated form itself where that takes a step less.
    """

    forward: Callable[..., None]
    forward_scratch: int
    backward: Callable[..., None]
    backward_scratch: int
    needs_flags: bool = False  # whether backward takes a scratch tile of booleans at the end
    both: Callable[..., None] | None = None
    times_gate: Callable[..., None] | None = None

    def scratch(self, dtype: DType) -> list[DType]:
        return [dtype] * self.backward_scratch + [BOOL] * self.needs_flags


def _sigmoid_times_gate(x: Array, gate: Array, out: Array) -> None:
    with np.errstate(over="ignore"):
        exp_of_product(x, -1.0, out)
        np.add(out, 1, out)
    np.divide(gate, out, out)


def _sigmoid_slope(grad: Array, x: Array, grad_x: Array, y: Array, s: Array) -> None:
    tiles.sigmoid_tile(x, y)
    np.subtract(1, y, s)
    np.multiply(y, grad, y)
    np.multiply(s, y, grad_x)


def _sigmoid_both(grad: Array, x: Array, gate: Array, grad_x: Array, grad_gate: Array, y: Array, s: Array) -> None:
    tiles.sigmoid_tile(x, y)
    np.subtract(1, y, s)
    np.multiply(y, grad, grad_gate)
    np.multiply(s, grad_gate, s)
    np.multiply(s, gate, grad_x)  # the outs are halves of rows: each is written once


def _silu_both(grad: Array, x: Array, gate: Array, grad_x: Array, grad_gate: Array, y: Array, s: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        exp_of_product(x, -1.0, y)
        np.add(y, 1, y)
        np.divide(x, y, grad_gate)
    np.multiply(grad_gate, grad, grad_gate)
    np.divide(1, y, y)
    np.subtract(1, y, s)
    np.multiply(s, x, s)
    np.add(s, 1, s)
    np.multiply(s, y, s)
    np.multiply(s, grad, s)
    np.multiply(s, gate, grad_x)


def _tanh_slope(grad: Array, x: Array, grad_x: Array, y: Array, s: Array) -> None:
    np.tanh(x, y)
    tiles.tanh_backward_tile(grad, y, grad_x, s)


def _relu(x: Array, out: Array) -> None:
    x.clip(0, np.inf, out)


def _relu_slope(grad: Array, x: Array, grad_x: Array, none: Array) -> None:
    np.less_equal(x, 0, none)
    np.copyto(grad_x, grad)
    np.copyto(grad_x, 0, where=none)


ACTIVATIONS = {
    "gelu": _Activation(gelu_tile, 3, gelu_backward_tile, 3, True),
    "gelu_tanh": _Activation(gelu_tanh_tile, 1, gelu_tanh_backward_tile, 2),
    "hardswish": _Activation(smooth._hardswish_tile, 1, smooth._hardswish_backward_tile, 1, True),
    "mish": _Activation(smooth._mish_tile, 2, smooth._mish_backward_tile, 3),
    "relu": _Activation(_relu, 0, _relu_slope, 0, True),
    "sigmoid": _Activation(
        tiles.sigmoid_tile, 0, _sigmoid_slope, 2, both=_sigmoid_both, times_gate=_sigmoid_times_gate
    ),
    "silu": _Activation(tiles.silu_tile, 1, tiles.silu_backward_tile, 2, both=_silu_both),
    "tanh": _Activation(np.tanh, 0, _tanh_slope, 2),
}


def gated(x: Array, gate: Array, out: Array, *, activation: str) -> None:
    """``out = activation(x) * gate``; ``out`` may be neither of them."""
    chosen = ACTIVATIONS[activation]

    def tile(x: Array, gate: Array, out: Array, *scratch: Array) -> None:
        chosen.forward(x, out, *scratch)
        np.multiply(out, gate, out)

    if chosen.times_gate is not None:
        map_tiles(chosen.times_gate, [x, gate, out])
    else:
        map_tiles(tile, [x, gate, out], [x.dtype] * chosen.forward_scratch)


def gated_backward(
    grad: Array, x: Array, gate: Array, grad_x: Array | None, grad_gate: Array | None, *, activation: str
) -> None:
    """The gradients of `gated` that are asked for: those that are not None."""
    chosen = ACTIVATIONS[activation]

    def by_x(grad: Array, x: Array, gate: Array, grad_x: Array, *scratch: Array) -> None:
        chosen.backward(grad, x, grad_x, *scratch)
        np.multiply(grad_x, gate, grad_x)

    def by_gate(grad: Array, x: Array, grad_gate: Array, *scratch: Array) -> None:
        chosen.forward(x, grad_gate, *scratch)
        np.multiply(grad_gate, grad, grad_gate)

    if grad_x is not None and grad_gate is not None and chosen.both is not None:
        map_tiles(chosen.both, [grad, x, gate, grad_x, grad_gate], [x.dtype] * 2)
        return
    if grad_x is not None:
        map_tiles(by_x, [grad, x, gate, grad_x], chosen.scratch(x.dtype))
    if grad_gate is not None:
        map_tiles(by_gate, [grad, x, grad_gate], [x.dtype] * chosen.forward_scratch)


def bias_activation(x: Array, bias: Array, out: Array, *, activation: str) -> None:
    """``out = activation(x + bias)``; the bias broadcasts, ``out`` may be ``x``."""
    chosen = ACTIVATIONS[activation]

    def tile(x: Array, bias: Array, out: Array, *scratch: Array) -> None:
        np.add(x, bias, out)
        chosen.forward(out, out, *scratch)

    map_tiles(tile, [x, np.broadcast_to(bias, out.shape), out], [x.dtype] * chosen.forward_scratch)


def bias_activation_backward(grad: Array, x: Array, bias: Array, grad_x: Array, *, activation: str) -> None:
    """The gradient of `bias_activation` at ``x``; that of the bias is its sum. ``grad_x`` may be ``x``."""
    chosen = ACTIVATIONS[activation]

    def tile(grad: Array, x: Array, bias: Array, grad_x: Array, total: Array, *scratch: Array) -> None:
        np.add(x, bias, total)
        chosen.backward(grad, total, grad_x, *scratch)

    map_tiles(tile, [grad, x, np.broadcast_to(bias, x.shape), grad_x], [x.dtype, *chosen.scratch(x.dtype)])
