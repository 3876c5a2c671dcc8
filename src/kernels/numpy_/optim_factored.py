"""Adafactor's step: the mean square of a matrix of gradients is kept as means of its rows and of its columns.

Blocks of the gradient are whole matrices, or rows of one; each pass over them needs a few tiles of scratch. The update
is computed twice, for its norm and for the parameter, which costs less memory than to keep it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ..executor import Array, scratch
from .tiling import FLOAT32, tile_size

__all__ = ["adafactor_step"]

_Block = tuple[slice, slice]


def adafactor_step(
    param: Array,
    grad: Array,
    row_var: Array | None,
    col_var: Array | None,
    variance: Array | None,
    *,
    lr: float,
    weight: float,
    rho: float,
    eps1: float,
    eps2: float,
    d: float,
    weight_decay: float,
    maximize: bool = False,
) -> None:
    """One step of Adafactor (Shazeer and Stern, 2018).

    Args:
        param: the parameter.
        grad: its gradient.
        row_var: mean squares of the rows, 1 in place of the last size; None for vectors.
        col_var: mean squares of the columns, 1 in place of the last size but one.
        variance: the mean squares of a vector.
        lr: the learning rate, for the decay.
        weight: of the new squares.
        rho: the relative size of the step.
        eps1: the least mean square's root.
        eps2: the least size of a parameter that the step is relative to.
        d: how large the update may be at the root of its mean square.
        weight_decay: how strongly parameters are pulled to zero, apart from the gradient.
        maximize: whether the objective is maximized.
    """
    if param.size == 0:
        return
    shape = (-1, *param.shape[-2:]) if param.ndim > 1 else (1, 1, param.size)
    p, g = _matrices(param, shape), _matrices(grad, shape)
    blocks = list(_blocks(p.shape, p.dtype))
    dtype = FLOAT32 if p.dtype.itemsize == 2 else p.dtype
    most = max((len(range(*b.indices(p.shape[0]))) * len(range(*r.indices(p.shape[1]))) for b, r in blocks), default=0)
    t, s = (scratch((most * p.shape[2],), dtype) for _ in range(2))
    size = max(eps2, math.sqrt(sum(_sum_of_squares(_copied(p[block], t)) for block in blocks)) / math.sqrt(param.size))
    if row_var is not None and col_var is not None:
        rows, columns = row_var.reshape(-1, p.shape[1], 1), col_var.reshape(-1, 1, p.shape[2])
        _update_means(g, rows, columns, blocks, weight, t, s)
        estimate = _factored(rows, columns, eps1, dtype)
    elif variance is not None:
        mean = variance.reshape(p.shape)
        for block in blocks:
            squares = _copied(g[block], s)
            np.multiply(squares, squares, squares)
            wide = _copied(mean[block], t)
            _blend(wide, squares, weight)
            np.copyto(mean[block], wide, casting="unsafe")
        estimate = _whole(mean)
    norm = 0.0
    for block in blocks:
        norm += _sum_of_squares(_update(g, estimate, block, eps1, t, s))
    step = rho * size / max(1.0, math.sqrt(norm) / (math.sqrt(param.size) * d))
    for block in blocks:
        update = _update(g, estimate, block, eps1, t, s)
        np.multiply(update, step if maximize else -step, update)
        before = _copied(p[block], s)
        if weight_decay:
            np.multiply(before, 1 - lr * weight_decay, before)
        np.add(before, update, update)
        np.copyto(p[block], update, casting="unsafe")
    if not np.shares_memory(p, param):
        np.copyto(param, p.reshape(param.shape))


def _matrices(array: Array, shape: tuple[int, ...]) -> Array:
    """An array as a stack of matrices: a view, or a leased copy where its strides allow none."""
    try:
        return array.reshape(shape, copy=False)
    except ValueError:
        copied = scratch(array.shape, array.dtype)
        np.copyto(copied, array)
        return copied.reshape(shape)


def _blocks(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Iterator[_Block]:
    """Runs of whole matrices where several fit into a tile, else runs of the rows of one."""
    count, rows, columns = shape
    tile = tile_size(math.prod(shape), dtype)
    whole = tile // (rows * columns)
    if whole:
        for start in range(0, count, whole):
            yield slice(start, start + whole), slice(0, rows)
        return
    step = max(1, tile // columns)
    for matrix in range(count):
        for start in range(0, rows, step):
            yield slice(matrix, matrix + 1), slice(start, min(start + step, rows))


def _copied(part: Array, out: Array) -> Array:
    """A part of an array in scratch."""
    copied = out[: part.size].reshape(part.shape)
    np.copyto(copied, part)
    return copied


def _sum_of_squares(array: Array) -> float:
    flat = array.reshape(-1)
    return float(np.dot(flat, flat))


def _blend(kept: Array, new: Array, weight: float) -> None:
    """``kept += weight * (new - kept)``; what ``new`` holds is lost."""
    np.multiply(kept, 1 - weight, kept)
    np.multiply(new, weight, new)
    np.add(kept, new, kept)


def _update_means(
    g: Array, rows: Array, columns: Array, blocks: list[_Block], weight: float, t: Array, s: Array
) -> None:
    """Let the new means of squares into those that are kept."""
    new_rows, new_columns = scratch(rows.shape, t.dtype), scratch(columns.shape, t.dtype)
    new_columns.fill(0)
    for block in blocks:
        part = _copied(g[block], t)
        np.multiply(part, part, part)
        np.mean(part, axis=2, keepdims=True, out=new_rows[block])
        total = s[: part.size // part.shape[1]].reshape(part.shape[0], 1, -1)
        np.sum(part, axis=1, keepdims=True, out=total)
        np.add(new_columns[block[0]], total, new_columns[block[0]])
    np.divide(new_columns, g.shape[1], new_columns)
    for kept, new in ((rows, new_rows), (columns, new_columns)):
        wide = scratch(kept.shape, t.dtype)
        np.copyto(wide, kept)
        _blend(wide, new, weight)
        np.copyto(kept, wide, casting="unsafe")


_Estimate = Callable[[_Block, Array], Array]


def _factored(rows: Array, columns: Array, eps1: float, dtype: np.dtype[np.generic]) -> _Estimate:
    """Mean squares as the products of rows and columns, over the mean of the rows."""
    mean = np.maximum(np.mean(rows, axis=1, keepdims=True, dtype=dtype), eps1)

    def estimate(block: _Block, out: Array) -> Array:
        matrices = block[0]
        result = out[: rows[block].size * columns.shape[2]].reshape(*rows[block].shape[:2], -1)
        np.multiply(rows[block], columns[matrices], result, dtype=dtype)
        np.divide(result, mean[matrices], result)
        return result

    return estimate


def _whole(mean: Array) -> _Estimate:
    return lambda block, out: _copied(mean[block], out)


def _update(g: Array, estimate: _Estimate, block: _Block, eps1: float, t: Array, s: Array) -> Array:
    """The gradient over the root of the mean squares, in scratch."""
    root = estimate(block, t)
    np.maximum(root, eps1 * eps1, out=root)
    np.sqrt(root, root)
    return np.divide(_copied(g[block], s), root, root)
