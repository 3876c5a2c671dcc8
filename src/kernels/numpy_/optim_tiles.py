"""What the optimizers' steps share: tiles of parameter, gradient and state, and the first lines of every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..executor import Array
from .tiling import FLOAT32, DType, map_tiles


def update_tiles(
    body: Callable[..., Any], grad: Array, written: Sequence[Array], work: int = 2, extra: Sequence[DType] = ()
) -> None:
    """Call ``body(gradient, *written, *scratch)`` on tiles; float16 and bfloat16 come, and are computed, as float32.

    Args:
        body: may write into all tiles but that of the gradient.
        grad: the gradient.
        written: the parameter and its state, of the gradient's shape.
        work: the number of scratch tiles of the parameter's dtype.
        extra: dtypes of more of them.
    """
    arrays = [grad, *written]
    if all(array.dtype.itemsize > 2 for array in arrays):
        map_tiles(body, arrays, [*[written[0].dtype] * work, *extra])
        return
    count = len(arrays)

    def wide(*tiles: Array) -> None:
        for narrow, copy in zip(tiles[:count], tiles[count:]):
            np.copyto(copy, narrow)
        body(*tiles[count:])
        for narrow, copy in zip(tiles[1:count], tiles[count + 1 :]):
            np.copyto(narrow, copy, casting="unsafe")

    map_tiles(wide, arrays, [*[FLOAT32] * (count + work), *extra])


def effective_gradient(
    grad: Array, param: Array, result: Array, work: Array, weight_decay: float, maximize: bool
) -> Array:
    """The gradient with its sign turned and weight decay added, in ``result`` if that changes it."""
    if maximize:
        grad = np.negative(grad, result)
    if weight_decay:
        np.multiply(param, weight_decay, work)
        grad = np.add(grad, work, result)
    return grad


def lerp(start: Array, end: Array, weight: float, work: Array) -> None:
    """``start += weight * (end - start)``, from the nearer side as in PyTorch."""
    np.subtract(end, start, work)
    if weight < 0.5:
        np.multiply(work, weight, work)
        np.add(start, work, start)
    else:
        np.multiply(work, 1 - weight, work)
        np.subtract(end, work, start)


def add_square(mean: Array, value: Array, kept: float, weight: float, work: Array) -> None:
    """``mean = kept * mean + weight * value**2``, in PyTorch's order."""
    np.multiply(mean, kept, mean)
    np.multiply(value, weight, work)
    np.multiply(work, value, work)
    np.add(mean, work, mean)
