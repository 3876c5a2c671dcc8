"""Scaled dot-product attention without the matrix of all scores, forward and backward.

NOTE [ Attention in blocks ]
1. Forward takes blocks of query rows against the keys that they may see; backward takes blocks of keys against the
   query rows that may see them, so that only the gradient of the queries is accumulated over blocks. With ``causal``,
   what lies wholly beyond the diagonal is never computed.
2. Only the log-sum-exp of each row is kept: backward recomputes ``P = exp(scores - lse)``. A row that may see no key
   has the result 0 and the log-sum-exp +infinity, which makes its P, and so its gradients, 0.
3. A tile is a few (batch, head) pairs, so that each call is long enough for threads (the note in tiling.py). BLAS loops
   over the pairs inside one call, on one thread.
4. Heads are those of k and v; a head has a group of one or more heads of q. Arrays are (batch, head, group, row, size).
5. Dropout draws which probabilities count from a counter, again in backward (the note in attention_dropout.py); what
   is saved is as without it. The log-sum-exp is that of all probabilities.
6. Half precision is computed in float32, one batch after the other, so that the copies are of one batch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..executor import Array, ScratchSpec, parallel_for, runs_alone, scratch
from .attention_dropout import UNIT, Dropout, drawing_workspace
from .rows import max_of_rows, sum_of_rows
from .tiling import BOOL, FLOAT32, copy_tiled, tile_size, unit_rows

__all__ = [
    "attention",
    "attention_backward",
]

_BLOCK = 128  # query rows (forward) or keys (backward) of a block, if they are not too long
_LEAST_BLOCK = 64
_LEAST_TILES = 8
_FEW_SCORES = 1 << 15  # in all: one tile


class _Plan(NamedTuple):
    """The inputs in the shapes of rule 4, and how the work is cut."""

    q: Array
    k: Array
    v: Array
    mask: Array | None
    scale: float
    causal: bool
    block: int
    batches: int  # of a tile
    heads: int  # of a tile
    beyond_diagonal: Array | None  # (block, block): -infinity above the diagonal, else 0
    dropout: Dropout | None

    first_batch: int  # the number of the first one in the draw of dropout

    def batch_numbers(self, b: slice) -> range:
        """The batches of a tile, as dropout counts them."""
        return range(self.first_batch + b.start, self.first_batch + min(b.stop, int(self.k.shape[0])))

    @property
    def tiles(self) -> int:
        batches: int = self.k.shape[0]
        heads: int = self.k.shape[1]
        return math.ceil(batches / self.batches) * math.ceil(heads / self.heads)

    @property
    def pairs(self) -> int:
        """The heads of q in a tile."""
        return self.batches * self.heads * int(self.q.shape[2])

    def part(self, index: int) -> tuple[slice, slice]:
        """The batches and heads of a tile."""
        batch, head = divmod(index, -(-self.k.shape[1] // self.heads))
        return _run(batch, self.batches), _run(head, self.heads)

    def blocks(self, length: int) -> Iterator[tuple[int, int]]:
        for start in range(0, length, self.block):
            yield start, min(start + self.block, length)


def attention(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    *,
    scale: float,
    causal: bool,
    mask: Array | None = None,
    p: float = 0.0,
    key: int = 0,
    counter: int = 0,
) -> None:
    """``out = softmax(scale * q @ k.T + mask) @ v`` and the rows' log-sum-exp.

    Args:
        q: (B, H, T, D), any strides.
        k, v: (B, K, S, D) and (B, K, S, E), where H is a multiple of K.
        out: (B, H, T, E), any strides.
        lse: (B, H, T); float32 for half precision.
        scale: the factor of the scores.
        causal: whether query i sees only the keys 0 ... i.
        mask: added to the scores, or bool, True where a query sees a key; broadcasts to (B, H, T, S).
        p: the probability with which a probability is dropped; the others are divided by ``1 - p``.
        key, counter: where the draw begins; it moves the counter by `attention_counter_steps`.
    """
    if out.size == 0 and lse.size == 0:
        return
    if k.shape[2] == 0:
        out.fill(0)
        lse.fill(np.inf)
        return
    dropout = Dropout.of(p, key, counter, lse.shape, k.shape[2])
    if lse.dtype != q.dtype:
        for batch in range(len(q)):
            one, part = slice(batch, batch + 1), _batch(mask, batch)
            queries, keys, values = (_float32(x[one]) for x in (q, k, v))
            result = scratch((1, *out.shape[1:]), FLOAT32)
            _attention(queries, keys, values, result, lse[one], scale, causal, part, dropout, batch)
            copy_tiled(result, out[one])
        return
    _attention(q, k, v, out, lse, scale, causal, mask, dropout, 0)


def _attention(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    scale: float,
    causal: bool,
    mask: Array | None,
    dropout: Dropout | None,
    first_batch: int,
) -> None:
    plan = _plan(q, k, v, mask, scale, causal, dropout, first_batch, other_length=k.shape[2])
    outs, sums = _split(out, k.shape[1]), _split(lse, k.shape[1])
    rows = plan.pairs * plan.block
    keys = k.shape[2]
    specs: list[ScratchSpec] = [
        ((rows * q.shape[3],), q.dtype),
        ((rows * keys,), q.dtype),
        ((rows * v.shape[3],), q.dtype),
        ((2 if dropout is None else 3, rows), q.dtype),
        ((rows * keys if _is_bool(mask) or dropout else 0,), BOOL),
    ]

    def tile(index: int, *buffers: Array) -> None:
        b, h = plan.part(index)
        for start, stop in plan.blocks(q.shape[2]):
            where = (b, h, slice(None), slice(start, stop))
            _forward_block(plan, b, h, start, stop, outs[where], sums[where], buffers)

    with drawing_workspace(dropout):
        parallel_for(tile, plan.tiles, specs)


def _forward_block(
    plan: _Plan, b: slice, h: slice, start: int, stop: int, out: Array, lse: Array, buffers: tuple[Array, ...]
) -> None:
    end = min(stop, plan.k.shape[3]) if plan.causal else plan.k.shape[3]
    queries, columns = _carve(buffers[0], (*out.shape[:-1], plan.q.shape[4])), buffers[3][:, : lse.size]
    np.multiply(plan.q[b, h, :, start:stop], plan.scale, queries)
    scores = _carve(buffers[1], (*lse.shape, end))
    np.matmul(queries, plan.k[b, h, :, :end].swapaxes(-1, -2), out=scores)
    if plan.beyond_diagonal is not None and start < end:
        diagonal = scores[..., start:]
        np.add(diagonal, plan.beyond_diagonal[: stop - start, : end - start], diagonal)
    if plan.mask is not None:
        _apply_mask(scores, plan.mask[b, h, :, start:stop, :end], buffers[4])
    flat, most, total = scores.reshape(-1, end), columns[0], columns[1]
    max_of_rows(flat, most)
    if plan.mask is not None:
        np.maximum(most, np.finfo(most.dtype).min, out=most)  # a row of -infinities: no NaN
    np.subtract(flat, most[:, None], flat)
    np.exp(flat, flat)
    sum_of_rows(flat, total)
    unseen = total == 0 if plan.mask is not None else None
    if unseen is not None:
        total[unseen] = 1
    if plan.dropout is not None:
        kept = np.multiply(total, plan.dropout.kept_share, columns[2])
        plan.dropout.drop(scores, plan.batch_numbers(b), h.start, (start, 0), buffers[4])
    result = _carve(buffers[2], out.shape)
    np.matmul(scores, plan.v[b, h, :, :end], out=result)
    np.divide(result, (total if plan.dropout is None else kept).reshape(*lse.shape, 1), out)
    np.add(most, np.log(total, total), most)
    if unseen is not None:
        most[unseen] = np.inf
    np.copyto(lse, most.reshape(lse.shape))


def attention_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
    *,
    scale: float,
    causal: bool,
    mask: Array | None = None,
    p: float = 0.0,
    key: int = 0,
    counter: int = 0,
) -> None:
    """The gradients of `attention`, from its inputs, result and log-sum-exp.

    ``grad`` and ``out`` are (B, H, T, E); the outs have their inputs' shapes and any strides.
    """
    if q.size == 0 or k.size == 0 or grad.size == 0:
        for gradient in (grad_q, grad_k, grad_v):
            gradient.fill(0)
        return
    dropout = Dropout.of(p, key, counter, lse.shape, k.shape[2])
    if lse.dtype != q.dtype:
        for batch in range(len(q)):
            one, part = slice(batch, batch + 1), _batch(mask, batch)
            given, queries, keys, values, result = (_float32(x[one]) for x in (grad, q, k, v, out))
            by_q, by_k, by_v = (scratch((1, *x.shape[1:]), FLOAT32) for x in (q, k, v))
            rest = (scale, causal, part, dropout, batch)
            _attention_backward(given, queries, keys, values, result, lse[one], by_q, by_k, by_v, *rest)
            for found, target in ((by_q, grad_q), (by_k, grad_k), (by_v, grad_v)):
                copy_tiled(found, target[one])
        return
    _attention_backward(grad, q, k, v, out, lse, grad_q, grad_k, grad_v, scale, causal, mask, dropout, 0)


def _attention_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
    scale: float,
    causal: bool,
    mask: Array | None,
    dropout: Dropout | None,
    first_batch: int,
) -> None:
    plan = _plan(q, k, v, mask, scale, causal, dropout, first_batch, other_length=q.shape[2])
    heads = k.shape[1]
    upstream, result, sums = _split(unit_rows(grad), heads), _split(out, heads), _split(lse, heads)
    grads_q, grads_k, grads_v = _split(grad_q, heads), _split(grad_k, heads), _split(grad_v, heads)
    rows, size = plan.pairs * q.shape[2], q.shape[3]
    widest = max(size, v.shape[3])
    specs: list[ScratchSpec] = [
        ((rows * size,), q.dtype),
        ((rows * size,), q.dtype),
        ((max(rows * size, plan.pairs * plan.block * widest),), q.dtype),
        ((rows * plan.block,), q.dtype),
        ((rows * plan.block,), q.dtype),
        ((rows,), q.dtype),
        ((rows * plan.block if _is_bool(mask) or dropout else 0,), BOOL),
        ((rows * plan.block if dropout else 0,), q.dtype),
    ]

    def tile(index: int, *buffers: Array) -> None:
        b, h = plan.part(index)
        source, g, o = plan.q[b, h], upstream[b, h], result[b, h]
        queries, grad_queries = _carve(buffers[0], source.shape), _carve(buffers[1], source.shape)
        np.multiply(source, plan.scale, queries)
        delta = _carve(buffers[5], source.shape[:-1])
        np.vecdot(g, o, out=delta)
        for start, stop in plan.blocks(k.shape[2]):
            block = _BackwardBlock(plan, b, h, start, stop, (*buffers[2:5], buffers[7]), buffers[6])
            block.run(queries, g, sums[b, h], delta, grad_queries, grads_k[b, h], grads_v[b, h])
        np.multiply(grad_queries, plan.scale, grads_q[b, h])

    with drawing_workspace(dropout):
        parallel_for(tile, plan.tiles, specs)


class _BackwardBlock(NamedTuple):
    """The keys ``start`` ... ``stop`` of a tile."""

    plan: _Plan
    b: slice
    h: slice
    start: int
    stop: int
    buffers: tuple[Array, ...]
    hidden: Array

    def run(
        self,
        queries: Array,
        upstream: Array,
        lse: Array,
        delta: Array,
        grad_q: Array,
        grad_k: Array,
        grad_v: Array,
    ) -> None:
        keys = slice(self.start, self.stop)
        first = self.start if self.plan.causal else 0
        if first >= queries.shape[3]:  # no row sees these keys
            grad_k[..., keys, :] = 0
            grad_v[..., keys, :] = 0
            return
        k, v = self.plan.k[self.b, self.h, :, keys], self.plan.v[self.b, self.h, :, keys]
        queries, upstream = queries[..., first:, :], upstream[..., first:, :]
        shape = (*queries.shape[:-1], self.stop - self.start)
        p, ds = _carve(self.buffers[1], shape), _carve(self.buffers[2], shape)
        self._probabilities(queries, k, lse[..., first:, None], first, p)
        np.matmul(upstream, v.swapaxes(-1, -2), out=ds)
        dropout, kept = self.plan.dropout, p
        if dropout is not None:
            self._draw(dropout, first, shape)
            kept = _carve(self.buffers[3], shape)
            np.divide(p, dropout.kept_share, kept)
            for array in (kept, ds):
                np.copyto(array, 0, where=_carve(self.hidden, shape))
            np.divide(ds, dropout.kept_share, ds)
        self._sum_over_group(kept, upstream, grad_v[..., keys, :])
        np.subtract(ds, delta[..., first:, None], ds)
        np.multiply(ds, p, ds)
        self._sum_over_group(ds, queries, grad_k[..., keys, :])
        if self.start == 0:
            np.matmul(ds, k, out=grad_q)
        else:
            more = _carve(self.buffers[0], queries.shape)
            np.matmul(ds, k, out=more)
            np.add(grad_q[..., first:, :], more, grad_q[..., first:, :])

    def _draw(self, dropout: Dropout, first: int, shape: tuple[int, ...]) -> None:
        """Draw again what forward dropped, into ``hidden``."""
        batches = self.plan.batch_numbers(self.b)
        dropout.draw(_carve(self.hidden, shape), batches, self.h.start, (first, self.start))

    def _probabilities(self, queries: Array, k: Array, lse: Array, first: int, p: Array) -> None:
        plan = self.plan
        np.matmul(queries, k.swapaxes(-1, -2), out=p)
        if plan.beyond_diagonal is not None:
            diagonal = p[..., : self.stop - self.start, :]
            np.add(diagonal, plan.beyond_diagonal[: diagonal.shape[-2], : diagonal.shape[-1]], diagonal)
        if plan.mask is not None:
            _apply_mask(p, plan.mask[self.b, self.h, :, first:, self.start : self.stop], self.hidden)
        np.subtract(p, lse, p)
        np.exp(p, p)

    def _sum_over_group(self, left: Array, right: Array, out: Array) -> None:
        """``out = left.T @ right``, added up over the heads of q that share a head of k and v."""
        if left.shape[2] == 1:
            np.matmul(left.swapaxes(-1, -2), right, out=out)
            return
        each = _carve(self.buffers[0], (*left.shape[:3], left.shape[4], right.shape[4]))
        np.matmul(left.swapaxes(-1, -2), right, out=each)
        np.add.reduce(each, axis=2, out=out, keepdims=True)


def _plan(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    scale: float,
    causal: bool,
    dropout: Dropout | None,
    first_batch: int,
    *,
    other_length: int,
) -> _Plan:
    """Cut the work into blocks of `_BLOCK` by ``other_length``, and as many pairs as make a tile."""
    batch, heads, keys = k.shape[:3]
    group = q.shape[1] // heads
    tile = tile_size(1 << 30, q.dtype)
    block = max(_LEAST_BLOCK, min(_BLOCK, tile // other_length)) if dropout is None else UNIT
    scores = q.shape[2] * keys
    if dropout is None:
        block = min(block, max(1, scores // other_length))
    most = min(tile // (block * other_length * group), -(-batch * heads // _LEAST_TILES))
    if batch * heads * group * scores <= _FEW_SCORES and all(
        runs_alone(q.shape[2], keys, size) for size in (q.shape[3], v.shape[3])
    ):
        most = batch * heads
    batches, per_tile = max(1, most // heads), min(heads, max(1, most))
    per_tile = -(-heads // -(-heads // per_tile))
    shaped_mask = None
    if mask is not None:
        shaped_mask = _split(np.broadcast_to(mask, (batch, q.shape[1], q.shape[2], keys)), heads)
    beyond = scratch((block, block), q.dtype) if causal else None
    if beyond is not None:
        beyond.fill(-np.inf)
        np.copyto(beyond, 0, where=_lower_triangle(block))
    shaped = _split(q, heads), unit_rows(k)[:, :, None], unit_rows(v)[:, :, None]
    return _Plan(*shaped, shaped_mask, scale, causal, block, batches, per_tile, beyond, dropout, first_batch)


@functools.lru_cache(maxsize=8)
def _lower_triangle(size: int) -> Array:
    """Where a query of a block sees a key of the same block."""
    return np.tri(size, dtype=bool)


def _float32(x: Array) -> Array:
    """A leased copy in float32."""
    copy = scratch(x.shape, FLOAT32)
    copy_tiled(x, copy)
    return copy


def _batch(mask: Array | None, batch: int) -> Array | None:
    """The part of a mask that is for one batch."""
    return mask if mask is None or mask.ndim < 4 or len(mask) == 1 else mask[batch : batch + 1]


def _split(x: Array, heads: int) -> Array:
    """A view of (batch, heads of q, ...) as (batch, heads of k, group, ...)."""
    return x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:])


def _run(number: int, length: int) -> slice:
    return slice(number * length, (number + 1) * length)


def _carve(buffer: Array, shape: tuple[int, ...]) -> Array:
    return buffer[: math.prod(shape)].reshape(shape)


def _is_bool(mask: Array | None) -> bool:
    return mask is not None and mask.dtype == BOOL


def _apply_mask(scores: Array, mask: Array, hidden: Array) -> None:
    if mask.dtype == BOOL:
        unseen = _carve(hidden, scores.shape)
        np.logical_not(mask, unseen)
        np.copyto(scores, -np.inf, where=unseen)
    else:
        np.add(scores, mask, scores)
