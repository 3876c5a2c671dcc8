"""The gradient of the mask that is added to the scores of attention, square by square.

A square of the mask belongs to one task, which adds up what all batches and heads that share it give, in order. So no
two threads write the same element, and nothing of the size of all scores exists: probabilities are computed again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..executor import Array, parallel_for
from .attention_dropout import UNIT, Dropout, drawing_workspace
from .tiling import BOOL, FLOAT32, FLOAT64

__all__ = ["attention_mask_backward"]


def attention_mask_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    out: Array,
    lse: Array,
    grad_mask: Array,
    *,
    scale: float,
    causal: bool,
    p: float = 0.0,
    key: int = 0,
    counter: int = 0,
) -> None:
    """``grad_mask`` of `attention` with a mask that is added: of the mask's shape, which broadcasts to (B, H, T, S).

    The other arguments are those of `attention_backward`.
    """
    shape = (1,) * (4 - mask.ndim) + mask.shape
    if 0 in (*lse.shape, k.shape[2], grad_mask.size):
        grad_mask.fill(0)
        return
    dropout = Dropout.of(p, key, counter, lse.shape, k.shape[2])
    work = _Work(grad, q, k, v, mask.reshape(shape), out, lse, scale, causal, dropout)
    gradient = grad_mask.reshape(shape)
    rows, keys = _pieces(lse.shape[2], shape[2]), _pieces(k.shape[2], shape[3])
    dtype = FLOAT64 if q.dtype == FLOAT64 else FLOAT32
    sizes = [q.shape[3], k.shape[3], v.shape[3], v.shape[3], v.shape[3]]
    specs = [((UNIT, size), dtype) for size in sizes] + [((UNIT, UNIT), dtype)] * 3 + [((UNIT, UNIT), BOOL)]

    def task(index: int, *buffers: Array) -> None:
        place, piece = divmod(index, len(rows) * len(keys))
        row, column = divmod(piece, len(keys))
        where = (*divmod(place, shape[1]), rows[row], keys[column])
        work.run(where, gradient, buffers)

    with drawing_workspace(dropout):
        parallel_for(task, shape[0] * shape[1] * len(rows) * len(keys), specs)


def _pieces(length: int, mask_length: int) -> list[range]:
    """What tasks take of the rows or keys: `UNIT` of them, or all where they share one element of the mask."""
    step = length if mask_length == 1 else UNIT
    return [range(start, min(start + step, length)) for start in range(0, length, step)]


class _Work(NamedTuple):
    """The arguments of the kernel, the mask with four dimensions."""

    grad: Array
    q: Array
    k: Array
    v: Array
    mask: Array
    out: Array
    lse: Array
    scale: float
    causal: bool
    dropout: Dropout | None

    def run(self, where: tuple[int, int, range, range], gradient: Array, buffers: tuple[Array, ...]) -> None:
        """Fill the piece of the mask's gradient for one batch and head of the mask."""
        batch, head, rows, keys = where
        shape = self.mask.shape
        target = gradient[batch, head, _part(rows, shape[2]), _part(keys, shape[3])]
        total = buffers[5][: target.shape[0], : target.shape[1]]
        total.fill(0)
        axes = tuple(axis for axis in (0, 1) if shape[2 + axis] == 1)
        for b in range(self.q.shape[0]) if shape[0] == 1 else [batch]:
            for h in range(self.q.shape[1]) if shape[1] == 1 else [head]:
                for row in range(rows.start, rows.stop, UNIT):
                    for first in range(keys.start, keys.stop, UNIT):
                        square = slice(row, min(row + UNIT, rows.stop)), slice(first, min(first + UNIT, keys.stop))
                        if not self.causal or square[0].stop > first:
                            scores = self._score_gradient(b, h, *square, buffers)
                            np.add(total, np.add.reduce(scores, axis=axes, keepdims=True) if axes else scores, total)
        np.copyto(target, total, casting="unsafe")

    def _score_gradient(self, b: int, h: int, rows: slice, keys: slice, buffers: tuple[Array, ...]) -> Array:
        """``P * (grad @ v.T - delta)`` of a square of the scores of one batch and head."""
        pair, kv = (b, h, rows), (b, h // (self.q.shape[1] // self.k.shape[1]), keys)
        places = (self.q[pair], self.k[kv], self.v[kv], self.grad[pair], self.out[pair])
        q, k, v, grad, out = (_copied(x, buffer) for x, buffer in zip(places, buffers, strict=False))
        p, ds = (buffer[: len(q), : len(k)] for buffer in buffers[6:8])
        np.multiply(q, self.scale, q)
        np.matmul(q, k.T, out=p)
        added = self.mask[b % len(self.mask), h % self.mask.shape[1], _part(rows, self.mask.shape[2])]
        np.add(p, added[:, _part(keys, self.mask.shape[3])], p)
        np.subtract(p, self.lse[pair][:, None], p)
        np.exp(p, p)
        if self.causal and keys.stop > rows.start + 1:
            np.copyto(p, 0, where=np.arange(keys.start, keys.stop) > np.arange(rows.start, rows.stop)[:, None])
        np.matmul(grad, v.T, out=ds)
        if self.dropout is not None:
            dropped = buffers[8][: len(q), : len(k)]
            group = dropped[None, None, None]
            self.dropout.draw(group, range(b, b + 1), h, (rows.start, keys.start))
            np.copyto(ds, 0, where=dropped)
            np.divide(ds, self.dropout.kept_share, ds)
        np.subtract(ds, np.vecdot(grad, out)[:, None], ds)
        np.multiply(ds, p, ds)
        return ds


def _part(where: range | slice, mask_length: int) -> slice:
    return slice(0, 1) if mask_length == 1 else slice(where.start, where.stop)


def _copied(x: Array, buffer: Array) -> Array:
    part = buffer[: len(x)]
    np.copyto(part, x, casting="unsafe")
    return part
