"""Products beyond the matrix product: contractions over any axes, and what is added to them."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, TypeAlias

import numpy as np

from ..executor import Array, scratch
from .linalg import matmul
from .tiling import UNTILED, copy_tiled, elementwise, map_tiles

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
    plan = _plan(left, right, result)
    if plan.turned:
        x, y = y, x
    a, b = x.transpose(plan.first), y.transpose(plan.second)
    shared, rows, summed = plan.counts
    if not summed:
        a, b = a[plan.spread_first], b[plan.spread_second]
        if out.size <= UNTILED:
            elementwise(np.multiply, a, b, out)
        else:
            map_tiles(_multiply, [np.broadcast_to(a, out.shape), np.broadcast_to(b, out.shape), out])
        return
    order = (*a.shape[: shared + rows], *b.shape[shared + summed :])
    m, k = math.prod(a.shape[shared : shared + rows]), math.prod(b.shape[shared : shared + summed])
    n = math.prod(b.shape[shared + summed :])
    lead = (math.prod(a.shape[:shared]),) if shared else ()
    a, b = _merged(a, (*lead, m, k)), _merged(b, (*lead, k, n))
    if plan.back is None:
        matmul(a, b, out.reshape((*lead, m, n)))
        return
    product = scratch((*lead, m, n), out.dtype)
    matmul(a, b, product)
    copy_tiled(product.reshape(order).transpose(plan.back), out)


class _Plan(NamedTuple):
    """How a contraction is one product of matrices, or of elements.

    Attributes:
        turned: whether the second operand is the left matrix: the transposed product lies in C order then.
        first, second: the axes of the left and the right matrix: (shared, rows, summed) and (shared, summed, columns);
            where nothing is summed, those of the result.
        counts: how many of them are shared, rows, and summed.
        back: the axes of the product in the order of the result, None if it has them in order.
        spread_first, spread_second: where nothing is summed, indices that add the axes which an operand lacks.
    """

    turned: bool
    first: tuple[int, ...]
    second: tuple[int, ...]
    counts: tuple[int, int, int]
    back: tuple[int, ...] | None = None
    spread_first: tuple[slice | None, ...] = ()
    spread_second: tuple[slice | None, ...] = ()


@functools.lru_cache(maxsize=256)
def _plan(left: Labels, right: Labels, result: Labels) -> _Plan:
    summed = [label for label in left if label in right and label not in result]
    if not summed:
        a, b = (tuple(labels.index(label) for label in result if label in labels) for labels in (left, right))
        c, d = (tuple(slice(None) if label in labels else None for label in result) for labels in (left, right))
        return _Plan(False, a, b, (0, 0, 0), None, c, d)
    shared = [label for label in result if label in left and label in right]
    rows = [label for label in result if label not in right]
    columns = [label for label in result if label not in left]
    turned = [*shared, *columns, *rows] == [*result]
    if turned:
        left, right, rows, columns = right, left, columns, rows
    order = [*shared, *rows, *columns]
    return _Plan(
        turned,
        tuple(left.index(label) for label in (*shared, *rows, *summed)),
        tuple(right.index(label) for label in (*shared, *summed, *columns)),
        (len(shared), len(rows), len(summed)),
        None if order == [*result] else tuple(order.index(label) for label in result),
    )


def _merged(x: Array, shape: tuple[int, ...]) -> Array:
    """``x`` in another shape: a view, or a leased copy where strides don't allow one."""
    if x.shape == shape:
        return x
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
