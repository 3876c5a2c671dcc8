"""Distances of every vector of one set from every vector of another, without an array of all differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..executor import Array, parallel_for
from .tiling import UNTILED

__all__ = [
    "cdist",
    "cdist_backward",
]


def cdist(x1: Array, x2: Array, out: Array, *, p: float = 2.0) -> None:
    """``out[..., i, j] = norm(x1[..., i, :] - x2[..., j, :])``, of order ``p``; batches are of one shape."""
    rows, columns, width = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    if not out.size:
        return
    if not width:
        out.fill(0)
        return
    across = max(1, min(columns, UNTILED // width))
    down = max(1, UNTILED // (across * width))
    parts, batch = -(-rows // down), out.shape[:-2]

    def block(index: int, work: Array) -> None:
        number, part = divmod(index, parts)
        where: Any = tuple(np.unravel_index(number, batch)) if batch else ()
        first, second, target = x1[where], x2[where], out[where]
        top = slice(part * down, (part + 1) * down)
        for start in range(0, columns, across):
            side = slice(start, start + across)
            a, b, place = first[top, None, :], second[None, side, :], target[top, side]
            away = work[: place.size * width].reshape(*place.shape, width)
            np.subtract(a, b, away)
            _norm(away, place, p)

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        parallel_for(block, parts * math.prod(batch), [((down * across * width,), x1.dtype)])


def cdist_backward(grad: Array, x1: Array, x2: Array, dist: Array, grad_x1: Array, *, p: float = 2.0) -> None:
    """The gradient of ``x1``, from the incoming one and the distances; where a distance is 0, so is its gradient."""
    rows, columns, width = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    if not columns or not width or p == 0:
        grad_x1.fill(0)
        return
    across = max(1, min(columns, UNTILED // width))
    down = max(1, UNTILED // (across * width))
    parts, batch = -(-rows // down), x1.shape[:-2]

    def block(index: int, away: Array, sign: Array, weight: Array) -> None:
        number, part = divmod(index, parts)
        where: Any = tuple(np.unravel_index(number, batch)) if batch else ()
        top = slice(part * down, (part + 1) * down)
        target = grad_x1[where][top]
        target.fill(0)
        for start in range(0, columns, across):
            side = slice(start, start + across)
            far, g = dist[where][top, side], grad[where][top, side]
            shape = (*far.shape, width)
            d, s = (buffer[: far.size * width].reshape(shape) for buffer in (away, sign))
            np.subtract(x1[where][top, None, :], x2[where][None, side, :], d)
            _slope(d, s, far, g, weight[: far.size].reshape(far.shape), p)
            np.add(target, np.add.reduce(d, axis=1), target)

    sizes = [((down * across * width,), x1.dtype)] * 2 + [((down * across,), x1.dtype)]
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        parallel_for(block, parts * math.prod(batch), sizes)


def _norm(away: Array, out: Array, p: float) -> None:
    """The norm of the last axis; ``away`` is overwritten."""
    if p == 2:
        np.multiply(away, away, away)
        np.add.reduce(away, axis=-1, out=out)
        np.sqrt(out, out)
        return
    if p == 0:
        np.not_equal(away, 0, out=away)
    else:
        np.absolute(away, away)
    if math.isinf(p):
        np.maximum.reduce(away, axis=-1, out=out)
        return
    if p not in (0, 1):
        np.power(away, p, out=away)
    np.add.reduce(away, axis=-1, out=out)
    if p not in (0, 1):
        np.power(out, 1 / p, out=out)


def _slope(d: Array, sign: Array, dist: Array, grad: Array, weight: Array, p: float) -> None:
    """``d``, the differences, becomes the gradients with respect to them."""
    if p == 1:
        np.sign(d, out=d)
        np.multiply(d, grad[..., None], d)
        return
    np.sign(d, out=sign)
    if math.isinf(p):
        np.absolute(d, d)
        np.equal(d, dist[..., None], out=d)
        np.multiply(d, sign, d)
        np.multiply(d, grad[..., None], d)
        return
    if p == 2:
        np.divide(grad, dist, weight)
    else:
        np.power(dist, p - 1, out=weight)
        np.divide(grad, weight, weight)
        np.absolute(d, d)
        np.power(d, p - 1, out=d)
        np.copyto(d, 0, where=sign == 0)
        np.multiply(d, sign, d)
    np.copyto(weight, 0, where=dist == 0)
    np.multiply(d, weight[..., None], d)
