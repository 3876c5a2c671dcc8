"""Activation functions, forward and backward: each tile is taken through all steps while it is in the cache.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices
from .bits import map_bits, pack_tile, select_tile
from .exponentials import exp_of_product
from .tiling import BOOL, contiguous_in, map_tiles, map_tiles_in_out, tile_size

__all__ = [
    "relu",
    "relu_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "tanh_backward",
]

# -- sigmoid and its like ----------------------------------------------------------------------------------------------


def sigmoid(x: Array, out: Array) -> None:
    """``out = 1 / (1 + exp(-x))``."""
    map_tiles(sigmoid_tile, [x, out])


def sigmoid_tile(x: Array, out: Array) -> None:
    """A tile of `sigmoid`."""
    with np.errstate(over="ignore"):  # far left exp(-x) is infinite and its reciprocal the right 0
        exp_of_product(x, -1.0, out)
        np.add(out, 1, out)
        np.divide(1, out, out)  # twice as fast as np.reciprocal


def sigmoid_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * y * (1 - y)`` with the forward's result ``y``."""
    map_tiles_in_out(sigmoid_backward_tile, [grad, y, grad_x])


def sigmoid_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    """A tile of `sigmoid_backward`."""
    np.subtract(1, y, s)
    np.multiply(s, y, s)
    np.multiply(s, grad, grad_x)


def tanh_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * (1 - y * y)`` with the forward's result ``y``."""
    map_tiles_in_out(tanh_backward_tile, [grad, y, grad_x])


def tanh_backward_tile(grad: Array, y: Array, grad_x: Array, s: Array) -> None:
    """A tile of `tanh_backward`."""
    np.multiply(y, y, s)
    np.subtract(1, s, s)
    np.multiply(s, grad, grad_x)


def silu(x: Array, out: Array) -> None:
    """``out = x * sigmoid(x)``."""
    map_tiles_in_out(silu_tile, [x, out])


def silu_tile(x: Array, out: Array, s: Array) -> None:
    """A tile of `silu`."""
    with np.errstate(over="ignore", invalid="ignore"):
        exp_of_product(x, -1.0, s)
        np.add(s, 1, s)
        np.divide(x, s, out)


def silu_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."""
    map_tiles_in_out(silu_backward_tile, [grad, x, grad_x], [x.dtype])


def silu_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array, t: Array) -> None:
    """A tile of `silu_backward`."""
    sigmoid_tile(x, s)
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
        source[where].clip(0, most, part)  # np.maximum takes four times as long with a scalar
        if mask_bits is not None:
            keep = scratch[0][: part.size]
            np.not_equal(part, 0, keep)
            pack_tile(keep, mask_bits, where)

    step = tile_size(out.size, out.dtype)
    parallel_slices(tile, out.size, step, () if mask_bits is None else [((step,), BOOL)])


def relu_backward(grad: Array, mask_bits: Array, grad_x: Array) -> None:
    """``grad_x = grad`` where the bit is set, else 0."""
    map_bits(lambda grad, out, where: select_tile(grad, mask_bits[where], out), grad, grad_x)
