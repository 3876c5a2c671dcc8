"""Products beyond the matrix product: contractions over any axes, and what is added to them."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from ..executor import Array, scratch
from .linalg import matmul
from .tiling import copy_tiled, map_tiles

__all__ = [
    "contract",
    "cross",
    "scale_add",
]

Labels: TypeAlias = tuple[int, ...]


def contract(x: Array, y: Array, out: Array, *, left: Labels, right: Labels, result: Labels) -> None:
    """``out[result] = sum of x[left] * y[right]`` over the labels that ``result`` lacks.

    A label stands once at most in each of the three, and in two of them at least.
    """
    summed = [label for label in left if label in right and label not in result]
    if not summed:
        views = [_in_order(operand, labels, result) for operand, labels in ((x, left), (y, right))]
        map_tiles(_multiply, [np.broadcast_to(view, out.shape) for view in views] + [out])
        return
    shared = [label for label in result if label in left and label in right]
    rows = [label for label in result if label not in right]
    columns = [label for label in result if label not in left]
    if [*shared, *columns, *rows] == [*result]:  # the transposed product lies in C order
        x, y, left, right, rows, columns = y, x, right, left, columns, rows
    sizes = dict(zip((*left, *right), (*x.shape, *y.shape), strict=True))
    batch, m, n, k = (math.prod(sizes[label] for label in labels) for labels in (shared, rows, columns, summed))
    lead = (batch,) if shared else ()
    a = _merged(x.transpose([left.index(label) for label in (*shared, *rows, *summed)]), (*lead, m, k))
    b = _merged(y.transpose([right.index(label) for label in (*shared, *summed, *columns)]), (*lead, k, n))
    order = [*shared, *rows, *columns]
    if order == [*result]:
        matmul(a, b, out.reshape((*lead, m, n)))
        return
    product = scratch((*lead, m, n), out.dtype)
    matmul(a, b, product)
    made = product.reshape([sizes[label] for label in order])
    copy_tiled(made.transpose([order.index(label) for label in result]), out)


def _in_order(x: Array, labels: Labels, result: Labels) -> Array:
    """``x`` with its axes where ``result`` has them, and axes of size 1 for the others."""
    moved = x.transpose([labels.index(label) for label in result if label in labels])
    return moved[tuple(slice(None) if label in labels else None for label in result)]


def _merged(x: Array, shape: tuple[int, ...]) -> Array:
    """``x`` in another shape: a view, or a leased copy where strides don't allow one."""
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        copied = scratch(x.shape, x.dtype)
        copy_tiled(x, copied)
        return copied.reshape(shape)


def _multiply(x: Array, y: Array, out: Array) -> None:
    np.multiply(x, y, out=out)


def scale_add(x: Array, out: Array, *, alpha: complex, beta: complex) -> None:
    """``out = alpha * out + beta * x`` with ``x`` broadcast; it is not read where ``beta`` is 0."""

    def scale(out: Array) -> None:
        np.multiply(out, alpha, out=out, casting="unsafe")

    def add(x: Array, out: Array) -> None:
        if alpha != 1:
            scale(out)
        np.add(out, x, out=out)

    def add_scaled(x: Array, out: Array, term: Array) -> None:
        if alpha != 1:
            scale(out)
        np.multiply(x, beta, out=term, casting="unsafe")
        np.add(out, term, out=out)

    if beta == 0:
        if alpha != 1:
            map_tiles(scale, [out])
        return
    spread = np.broadcast_to(x, out.shape)
    if beta == 1:
        map_tiles(add, [spread, out])
    else:
        map_tiles(add_scaled, [spread, out], [out.dtype])


def cross(x: Array, y: Array, out: Array, *, axis: int) -> None:
    """The cross product of vectors along an axis of size 3; operands are broadcast."""
    a, b = (np.moveaxis(np.broadcast_to(array, out.shape), axis, 0) for array in (x, y))
    c = np.moveaxis(out, axis, 0)

    def component(a1: Array, b2: Array, a2: Array, b1: Array, out: Array, term: Array) -> None:
        np.multiply(a2, b1, out=term)
        np.multiply(a1, b2, out=out)
        np.subtract(out, term, out=out)

    for number in range(3):
        one, two = (number + 1) % 3, (number + 2) % 3
        map_tiles(component, [a[one], b[two], a[two], b[one], c[number]], [out.dtype])
