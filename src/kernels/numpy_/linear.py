"""The linear layer: a product of matrices with the bias added while the rows are in the cache, and its gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..executor import Array, get_num_threads, parallel_for, scratch
from .linalg import MOST_ROWS, is_faster_transposed, rows_per_task, transposed_product
from .rows import sum_of_columns
from .tiling import unit_rows

__all__ = [
    "linear",
    "linear_backward",
]

# Below this many multiplications a product is left to one BLAS call: splitting would cost more than it gains.
_SPLIT_WORK = 1 << 23


def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """``out = x @ weight.T + bias`` for a matrix ``x``."""

    def rows(part: slice) -> None:
        _rows(x[part], weight, bias, out[part])

    threads = get_num_threads()  # BLAS follows our setting from the first product on
    if len(x) * weight.size < _SPLIT_WORK or (threads == 1 and len(x) <= MOST_ROWS):
        _rows(x, weight, bias, out)
    else:
        _run(_parts(rows, len(x), len(x) * weight.size))


def _rows(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    if is_faster_transposed(x, weight):
        product = transposed_product(x, weight).T
        if bias is None:
            np.copyto(out, product)
        else:
            np.add(product, bias, out)
        return
    np.matmul(x, weight.T, out)
    if bias is not None:
        np.add(out, bias, out)


def linear_backward(
    grad: Array, x: Array | None, weight: Array | None, grad_x: Array | None, grad_w: Array | None, grad_b: Array | None
) -> None:
    """The gradients of `linear` that are asked for: those that are not None. All in one go, so that no thread waits.

    Args:
        grad: (rows, out_features).
        x: (rows, in_features), read for ``grad_w``.
        weight: (out_features, in_features), read for ``grad_x``.
        grad_x, grad_w, grad_b: outs, of the shapes of input, weight and bias.
    """
    grad = unit_rows(grad)
    features = grad.shape[1]
    inputs = x.shape[1] if x is not None else weight.shape[1] if weight is not None else 1
    threads = get_num_threads()
    if 0 < grad.size * inputs < _SPLIT_WORK:
        _one_by_one(grad, x, weight, grad_x, grad_w, grad_b, sum_of_columns)
        return
    if threads == 1:
        _one_by_one(grad, x, weight, grad_x, grad_w, grad_b, _product_with_ones)
        return
    tasks: list[Callable[[], None]] = []
    if x is not None and grad_w is not None:
        tasks += _parts(functools.partial(_weight_part, grad, x, grad_w), features, grad.size * x.shape[1])
    if grad_b is not None:
        tasks += _parts(functools.partial(_bias_part, grad, grad_b), features, grad.size)
    if weight is not None and grad_x is not None:
        tasks += _parts(functools.partial(_input_part, grad, weight, grad_x), len(grad), grad.size * weight.shape[1])
    _run(tasks)


def _one_by_one(
    grad: Array,
    x: Array | None,
    weight: Array | None,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
    add_up: Callable[[Array, Array], None],
) -> None:
    """`linear_backward` where handing work to threads would take longer than the work, or there is but one."""
    if x is not None and grad_w is not None:
        np.matmul(grad.T, x, grad_w)
    if grad_b is not None:
        add_up(grad, grad_b)
    if weight is not None and grad_x is not None:
        np.matmul(grad, weight, grad_x)


def _weight_part(grad: Array, x: Array, grad_w: Array, part: slice) -> None:
    np.matmul(grad[:, part].T, x, out=grad_w[part])


def _bias_part(grad: Array, grad_b: Array, part: slice) -> None:
    _product_with_ones(grad[:, part], grad_b[part])


def _product_with_ones(x: Array, out: Array) -> None:
    """A sum of columns, at BLAS's speed."""
    ones = scratch((len(x),), x.dtype)
    ones.fill(1)
    np.matmul(ones, x, out=out)


def _input_part(grad: Array, weight: Array, grad_x: Array, part: slice) -> None:
    np.matmul(grad[part], weight, out=grad_x[part])


def _parts(function: Callable[[slice], None], length: int, work: int) -> list[Callable[[], None]]:
    """Calls of a function for the parts of a range: one if there is little work."""
    step = rows_per_task(length) if work >= _SPLIT_WORK else max(length, 1)
    parts = [slice(start, min(start + step, length)) for start in range(0, max(length, 1), step)]
    return [functools.partial(function, part) for part in parts]


def _run(tasks: list[Callable[[], None]]) -> None:
    get_num_threads()  # BLAS follows our setting from the first product on
    parallel_for(lambda number: tasks[number](), len(tasks))
