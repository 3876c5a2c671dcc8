"""Products beyond the matrix product: contractions over any axes, and what is added to them."""

from __future__ import annotations

import math
from typing import TypeAlias

import cupy

from .launch import Array, kernel
from .linalg import matmul

__all__ = [
    "contract",
    "cross",
    "scale_add",
]

Labels: TypeAlias = tuple[int, ...]


@kernel
def contract(x: Array, y: Array, out: Array, *, left: Labels, right: Labels, result: Labels) -> None:
    """``out[result] = sum of x[left] * y[right]`` over the labels that ``result`` lacks."""
    summed = [label for label in left if label in right and label not in result]
    if not summed:
        cupy.multiply(_in_order(x, left, result), _in_order(y, right, result), out=out)
        return
    shared = [label for label in result if label in left and label in right]
    rows = [label for label in result if label not in right]
    columns = [label for label in result if label not in left]
    sizes = dict(zip((*left, *right), (*x.shape, *y.shape), strict=True))
    batch, m, n, k = (math.prod(sizes[label] for label in labels) for labels in (shared, rows, columns, summed))
    lead = (batch,) if shared else ()
    a = x.transpose([left.index(label) for label in (*shared, *rows, *summed)]).reshape((*lead, m, k))
    b = y.transpose([right.index(label) for label in (*shared, *summed, *columns)]).reshape((*lead, k, n))
    order = [*shared, *rows, *columns]
    if order == [*result]:
        matmul(a, b, out.reshape((*lead, m, n)))
        return
    product = cupy.empty((*lead, m, n), out.dtype)
    matmul(a, b, product)
    made = product.reshape([sizes[label] for label in order])
    cupy.copyto(out, made.transpose([order.index(label) for label in result]))


def _in_order(x: Array, labels: Labels, result: Labels) -> Array:
    """``x`` with its axes where ``result`` has them, and axes of size 1 for the others."""
    moved = x.transpose([labels.index(label) for label in result if label in labels])
    return moved[tuple(slice(None) if label in labels else None for label in result)]


@kernel
def scale_add(x: Array, out: Array, *, alpha: complex, beta: complex) -> None:
    """``out = alpha * out + beta * x`` with ``x`` broadcast; it is not read where ``beta`` is 0."""
    if alpha != 1:
        cupy.multiply(out, out.dtype.type(alpha), out=out)
    if beta != 0:
        cupy.add(out, x if beta == 1 else cupy.multiply(x, x.dtype.type(beta)), out=out)


@kernel
def cross(x: Array, y: Array, out: Array, *, axis: int) -> None:
    """The cross product of vectors along an axis of size 3; operands are broadcast."""
    last = (*[number for number in range(out.ndim) if number != axis], axis)
    a, b = (cupy.broadcast_to(array, out.shape).transpose(last) for array in (x, y))
    c = out.transpose(last)
    for number in range(3):
        one, two = (number + 1) % 3, (number + 2) % 3
        target = c[..., number]
        cupy.multiply(a[..., one], b[..., two], out=target)
        cupy.subtract(target, cupy.multiply(a[..., two], b[..., one]), out=target)
