"""Scaled dot-product attention without the matrix of all scores, forward and backward.

NOTE [ Attention in blocks ]
1. Forward takes blocks of query rows against the keys that they may see; backward takes blocks of keys against the
   query rows that may see them, so that only the gradient of the queries is accumulated over blocks. With ``causal``,
   what lies wholly beyond the diagonal is never computed.
2. Only the log-sum-exp of each row is kept: backward recomputes ``P = exp(scores - lse)``. A row that may see no key
   has the result 0 and the log-sum-exp +infinity, which makes its P, and so its gradients, 0.
3. A tile is a few (batch, head) pairs, so that each call is long enough for threads (the note in tiling.py). BLAS loops
   over the pairs inside one call, on one thread. Few scores in all are one tile: threads that share out calls of 10 us
   wait for the interpreter's lock for longer than they compute.
4. Heads are those of k and v; a head has a group of one or more heads of q. Arrays are (batch, head, group, row, size).
5. Dropout draws which probabilities count from a counter, again in backward (the note in attention_dropout.py); what
   is saved is as without it. The log-sum-exp is that of all probabilities.
6. Half precision is computed in float32, one batch after the other, so that the copies are of one batch.
7. What backward subtracts from each row of a product is a term of the product: the rows of q end in -lse where those of
   k end in 1, and the rows of the gradient in ``-scale * delta``. This takes a copy of each, and saves two passes over
   a block of scores; copied into columns, keys are faster to multiply with, too: 8 heads of 128 x 32 take 56 us in
   place of 85.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..executor import Array, ScratchSpec, blas_single_threaded, parallel_for, runs_alone, scratch
from .attention_dropout import UNIT, Dropout, drawing_workspace
from .rows import INTP, max_of_rows, sum_of_rows
from .tiling import BOOL, FLOAT32, DType, copy_tiled, in_rows, tile_size, unit_rows

__all__ = [
    "attention",
    "attention_backward",
]

_BLOCK = 128  # query rows (forward) or keys (backward) of a block, if they are not too long
_LEAST_BLOCK = 64
_LEAST_TILES = 8
_FEW_SCORES = 1 << 17  # in all: one tile


class _Cut(NamedTuple):
    """How work is cut, which follows from sizes alone."""

    block: int
    batches: int  # of a tile
    heads: int  # of a tile
    tiles: int
    blas_alone: bool  # whether the one tile that there is needs a word to BLAS to run on one thread


class _Plan(NamedTuple):
    """The inputs in the shapes of rule 4, and how the work is cut."""

    q: Array
    k: Array
    v: Array
    mask: Array | None
    scale: float
    causal: bool
    cut: _Cut
    beyond_diagonal: Array | None  # (block, block): -infinity above the diagonal, else 0
    dropout: Dropout | None
    first_batch: int  # the number of the first one in the draw of dropout

    def batch_numbers(self, b: slice) -> range:
        """The batches of a tile, as dropout counts them."""
        return range(self.first_batch + b.start, self.first_batch + min(b.stop, int(self.k.shape[0])))

    @property
    def pairs(self) -> int:
        """The heads of q in a tile."""
        return self.cut.batches * self.cut.heads * int(self.q.shape[2])

    def part(self, index: int) -> tuple[slice, slice]:
        """The batches and heads of a tile."""
        batch, head = divmod(index, -(-self.k.shape[1] // self.cut.heads))
        return _run(batch, self.cut.batches), _run(head, self.cut.heads)

    def blocks(self, length: int) -> Iterator[tuple[int, int]]:
        for start in range(0, length, self.cut.block):
            yield start, min(start + self.cut.block, length)

    def run(self, tile: Callable[..., None], specs: list[ScratchSpec]) -> None:
        """Compute all tiles."""
        with drawing_workspace(self.dropout):
            if self.cut.blas_alone:
                with blas_single_threaded():
                    parallel_for(tile, 1, specs)
            else:
                parallel_for(tile, self.cut.tiles, specs)


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
    rows, keys = plan.pairs * plan.cut.block, k.shape[2]
    specs: list[ScratchSpec] = [
        ((rows * q.shape[3],), q.dtype),
        ((rows * keys,), q.dtype),
        ((rows * v.shape[3],), q.dtype),
        ((2 if dropout is None else 3, rows), q.dtype),
        ((rows * keys if _is_bool(mask) or dropout else 0,), BOOL),
        ((rows,), INTP),
    ]

    def tile(index: int, *buffers: Array) -> None:
        b, h = plan.part(index)
        for start, stop in plan.blocks(q.shape[2]):
            where = (b, h, slice(None), slice(start, stop))
            _forward_block(plan, b, h, start, stop, outs[where], sums[where], buffers)

    plan.run(tile, specs)


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
    max_of_rows(flat, most, buffers[5][: lse.size])
    if plan.mask is not None:
        np.maximum(most, np.finfo(most.dtype).min, out=most)  # a row of -infinities: no NaN
    with in_rows(end, flat.size):
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
    given, result, sums = _split(grad, heads), _split(out, heads), _split(lse, heads)
    grads_q, grads_k, grads_v = _split(grad_q, heads), _split(grad_k, heads), _split(grad_v, heads)
    rows, block, (size, wide) = plan.pairs * q.shape[2], plan.cut.block, (q.shape[3], v.shape[3])
    specs: list[ScratchSpec] = [
        ((rows * (size + 1),), q.dtype),
        ((rows * (wide + 1),), q.dtype),
        ((plan.cut.batches * plan.cut.heads * block * (max(size, wide) + 1),), q.dtype),
        ((max(rows * size, plan.pairs * block * max(size, wide)),), q.dtype),
        ((rows * block,), q.dtype),
        ((rows * block,), q.dtype),
        ((rows * block if _is_bool(mask) or dropout else 0,), BOOL),
        ((rows * block if dropout else 0,), q.dtype),
    ]

    def tile(index: int, *buffers: Array) -> None:
        where = b, h = plan.part(index)
        queries, upstream = _with_one_more(plan.q[where], buffers[0]), _with_one_more(given[where], buffers[1])
        np.negative(sums[where], queries[..., -1])
        if mask is not None:  # of a row that sees no key: BLAS may multiply an infinity with its zeros
            np.maximum(queries[..., -1], np.finfo(lse.dtype).min, out=queries[..., -1])
        delta = upstream[..., -1]
        np.vecdot(upstream[..., :-1], result[where], out=delta)
        np.multiply(delta, -scale, delta)
        work = _BackwardTile(plan, b, h, queries, upstream, buffers)
        for start, stop in plan.blocks(k.shape[2]):
            work.run(start, stop, grads_q[where], grads_k[where], grads_v[where])

    plan.run(tile, specs)


def _with_one_more(rows: Array, buffer: Array) -> Array:
    """A copy of rows with one more element each, which is still to be filled."""
    longer = _carve(buffer, (*rows.shape[:-1], rows.shape[-1] + 1))
    np.copyto(longer[..., :-1], rows)
    return longer


class _BackwardTile(NamedTuple):
    """Some pairs of batch and head: ``q | -lse`` and ``grad | -scale * delta``, and scratch for blocks."""

    plan: _Plan
    b: slice
    h: slice
    queries: Array
    upstream: Array
    buffers: tuple[Array, ...]

    def run(self, start: int, stop: int, grad_q: Array, grad_k: Array, grad_v: Array) -> None:
        """What the keys ``start`` ... ``stop`` give: their gradients, and a part of those of all queries."""
        keys = slice(start, stop)
        first = start if self.plan.causal else 0
        if first >= self.queries.shape[3]:  # no row sees these keys
            grad_k[..., keys, :] = 0
            grad_v[..., keys, :] = 0
            return
        k, v = self.plan.k[self.b, self.h, :, keys], self.plan.v[self.b, self.h, :, keys]
        queries, upstream = self.queries[..., first:, :], self.upstream[..., first:, :]
        shape = (*queries.shape[:-1], stop - start)
        p, ds = _carve(self.buffers[4], shape), _carve(self.buffers[5], shape)
        self._probabilities(queries, k, first, start, p)
        kept = self._score_gradient(upstream, v, first, start, p, ds)
        self._sum_over_group(kept, upstream[..., :-1], grad_v[..., keys, :])
        self._sum_over_group(ds, queries[..., :-1], grad_k[..., keys, :])
        if start == 0:
            np.matmul(ds, k, out=grad_q)
        else:
            more = _carve(self.buffers[3], (*shape[:-1], k.shape[-1]))
            np.matmul(ds, k, out=more)
            np.add(grad_q[..., first:, :], more, grad_q[..., first:, :])

    def _probabilities(self, queries: Array, k: Array, first: int, start: int, p: Array) -> None:
        plan, keys = self.plan, k.shape[-2]
        np.matmul(queries, self._in_columns(k, 1), out=p)
        if plan.beyond_diagonal is not None:
            diagonal = p[..., :keys, :]
            np.add(diagonal, plan.beyond_diagonal[: diagonal.shape[-2], :keys], diagonal)
        if plan.mask is not None:
            _apply_mask(p, plan.mask[self.b, self.h, :, first:, start : start + keys], self.buffers[6])
        np.exp(p, p)

    def _score_gradient(self, upstream: Array, v: Array, first: int, start: int, p: Array, ds: Array) -> Array:
        """Fill ``ds``, times the scale; returns the probabilities that count, divided by their share."""
        dropout, kept = self.plan.dropout, p
        if dropout is None:
            np.matmul(upstream, self._in_columns(v, 1), out=ds)
        else:  # what is subtracted is not divided
            np.matmul(upstream[..., :-1], self._in_columns(v, 0), out=ds)
            dropped, kept = _carve(self.buffers[6], p.shape), _carve(self.buffers[7], p.shape)
            dropout.draw(dropped, self.plan.batch_numbers(self.b), self.h.start, (first, start))
            np.divide(p, dropout.kept_share, kept)
            for array in (kept, ds):
                np.copyto(array, 0, where=dropped)
            np.divide(ds, dropout.kept_share, ds)
            np.add(ds, upstream[..., -1:], ds)
        np.multiply(ds, p, ds)
        return kept

    def _in_columns(self, x: Array, ones: int) -> Array:
        """A copy of rows as columns, times the scale, with so many rows of ones below."""
        *lead, rows, size = x.shape
        columns = _carve(self.buffers[2], (*lead, size + ones, rows))
        np.multiply(x.swapaxes(-1, -2), self.plan.scale, columns[..., :size, :])
        columns[..., size:, :] = 1
        return columns

    def _sum_over_group(self, left: Array, right: Array, out: Array) -> None:
        """``out = left.T @ right``, added up over the heads of q that share a head of k and v."""
        if left.shape[2] == 1:
            np.matmul(left.swapaxes(-1, -2), right, out=out)
            return
        each = _carve(self.buffers[3], (*left.shape[:3], left.shape[4], right.shape[4]))
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
    """The inputs as heads in groups, and the cut of their sizes."""
    heads = k.shape[1]
    cut = _cut(q.shape, k.shape, v.shape[3], q.dtype, other_length, dropout is not None)
    shaped_mask = None
    if mask is not None:
        shaped_mask = _split(np.broadcast_to(mask, (*q.shape[:3], k.shape[2])), heads)
    beyond = scratch((cut.block, cut.block), q.dtype) if causal else None
    if beyond is not None:
        beyond.fill(-np.inf)
        np.copyto(beyond, 0, where=_lower_triangle(cut.block))
    shaped = _split(q, heads), unit_rows(k)[:, :, None], unit_rows(v)[:, :, None]
    return _Plan(*shaped, shaped_mask, scale, causal, cut, beyond, dropout, first_batch)


@functools.lru_cache(maxsize=64)
def _cut(
    q_shape: tuple[int, ...],
    k_shape: tuple[int, ...],
    v_size: int,
    dtype: DType,
    other_length: int,
    drops: bool,
) -> _Cut:
    """Blocks of `_BLOCK` by ``other_length``, and as many pairs as make a tile."""
    batch, heads, keys, size = k_shape
    group, rows = q_shape[1] // heads, q_shape[2]
    scores = rows * keys
    tile = tile_size(1 << 30, dtype)
    block = UNIT if drops else max(_LEAST_BLOCK, min(_BLOCK, tile // other_length))
    block = min(block, max(1, scores // other_length))
    pairs, widest = batch * heads * group, max(size, v_size)
    is_few = pairs * scores <= _FEW_SCORES and pairs * max(rows, keys) * widest <= tile
    most = min(tile // (block * other_length * group), -(-batch * heads // _LEAST_TILES))
    if is_few:
        most = batch * heads
    batches, runs = max(1, most // heads), -(-heads // min(heads, max(1, most)))
    alone = is_few and not runs_alone(rows, keys, widest)
    return _Cut(block, batches, -(-heads // runs), -(-batch // batches) * runs, alone)


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
