"""Scaled dot-product attention without the matrix of all scores, forward and backward.

NOTE [ Attention in blocks of rows ]
1. The work is cut into blocks of query rows, against all keys that one of them may see, whose scores take
   `_SCORE_BYTES` at most; with ``causal``, what lies wholly beyond the last row of a block is never computed.
2. Only the log-sum-exp of each row is kept: backward recomputes ``P = exp(scores - lse)``. A row that may see no key
   has the result 0 and the log-sum-exp +infinity, which makes its P, and so its gradients, 0.
3. Heads are those of k and v; a head has a group of one or more heads of q, whose rows are one after another, so every
   product is one batched call: (pairs of batch and head, rows of the group, size).
4. Dropout draws which probabilities count from a counter, again in backward; what is saved is as without it. The
   log-sum-exp is that of all probabilities.
5. Half precision is computed in float32, some batches after the other, so that the copies are of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cupy
import numpy as np

from .attention_dropout import drop_scores
from .launch import WIDE, Array, kernel
from .linalg import product

__all__ = [
    "attention",
    "attention_backward",
    "attention_mask_backward",
]

_SCORE_BYTES = 64 << 20
_ROUND_ROWS = 64

_HIDE_LATER = cupy.ElementwiseKernel(
    "int64 columns, int64 rows, float64 hidden",
    "T score",
    "if ((long long)i % columns > (long long)i / columns % rows) score = (T)hidden",
    "stowgrad_hide_later",
)
_HIDE_MASKED = cupy.ElementwiseKernel(
    "bool seen, float64 hidden", "T score", "if (!seen) score = (T)hidden", "stowgrad_hide_masked"
)
_EXPONENTIAL = cupy.ElementwiseKernel(
    "T x, T most", "T y", "y = (T)exp((W)x - (W)most)", "stowgrad_attention_exponential", preamble=WIDE
)
_RESULT = cupy.ElementwiseKernel(
    "T x, T total",
    "T y",
    "W t = (W)total; y = t == (W)0 ? (T)0.0f : (T)((W)x / t)",
    "stowgrad_attention_result",
    preamble=WIDE,
)
_LSE = cupy.ElementwiseKernel(
    "T most, T total, float64 unseen",
    "T y",
    "W t = (W)total; y = t == (W)0 ? (T)unseen : (T)((W)most + log(t))",
    "stowgrad_attention_lse",
    preamble=WIDE,
)
_DELTA = cupy.ReductionKernel(
    "T grad, T result",
    "T y",
    "(W)grad * (W)result",
    "a + b",
    "y = (T)a",
    "0",
    "stowgrad_attention_delta",
    reduce_type="W",
    preamble=WIDE,
)
_SCORE_GRADIENT = cupy.ElementwiseKernel(
    "T grad, T delta, T p",
    "T y",
    "y = (T)(((W)grad - (W)delta) * (W)p)",
    "stowgrad_attention_score_gradient",
    preamble=WIDE,
)


class Draw(NamedTuple):
    """What dropout draws from."""

    p: float
    key: int
    counter: int

    @property
    def kept_share(self) -> float:
        """What the kept probabilities are divided by."""
        return 1 - self.p if self.p < 1 else 1.0


class _Block(NamedTuple):
    """Rows ``rows`` of q in the batches ``batch``, which see ``keys`` keys."""

    batch: slice
    rows: slice
    keys: int


class _Inputs(NamedTuple):
    """What every block reads."""

    q: Array
    heads: int
    keys: int
    scale: float
    causal: bool
    mask: Array | None
    draw: Draw | None
    first_batch: int  # the number of the first one in the draw of dropout

    def folded(self, x: Array, block: _Block) -> Array:
        """Rows of (B, H, T, D) as (pairs, rows of the group, D), in C order."""
        part = x[block.batch, :, block.rows]
        out = cupy.empty(part.shape, part.dtype)
        cupy.copyto(out, part)
        return out.reshape(part.shape[0] * self.heads, -1, part.shape[3])

    def queries(self, block: _Block) -> Array:
        """The scaled queries of a block, folded."""
        queries = self.folded(self.q, block)
        cupy.multiply(queries, self.scale, out=queries)
        return queries

    def scores(self, queries: Array, keys_t: Array, block: _Block) -> Array:
        """The scores of a block, -infinity where a row may not look: (pairs, rows of the group, keys)."""
        scores = product(queries, keys_t[:, :, : block.keys])
        start, stop = block.rows.start, block.rows.stop
        if self.causal and start < block.keys:
            corner = scores[:, :, start:]
            _HIDE_LATER(corner.shape[-1], stop - start, -np.inf, corner)
        if self.mask is not None:
            mask = self.mask[block.batch, :, block.rows, : block.keys]
            whole = scores.reshape(mask.shape)
            if mask.dtype == bool:
                _HIDE_MASKED(mask, -np.inf, whole)
            else:
                cupy.add(whole, mask, out=whole)
        return scores

    def drop(self, x: Array, block: _Block) -> None:
        """Put 0 where the elements of a block's (pairs, rows of the group, keys) are dropped."""
        if self.draw is not None:
            drop_scores(
                x,
                keys=self.keys,
                rows=block.rows.stop - block.rows.start,
                all_rows=self.q.shape[2],
                first_row=block.rows.start,
                group=self.q.shape[1] // self.heads,
                heads=self.heads,
                first_pair=(self.first_batch + block.batch.start) * self.heads,
                p=self.draw.p,
                key=self.draw.key,
                counter=self.draw.counter,
            )


def _inputs(
    q: Array, k: Array, scale: float, causal: bool, mask: Array | None, draw: Draw | None, first_batch: int
) -> _Inputs:
    if mask is not None:
        mask = cupy.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    return _Inputs(q, k.shape[1], k.shape[2], scale, causal, mask, draw, first_batch)


def _draw(p: float, key: int, counter: int) -> Draw | None:
    return Draw(p, key, counter) if p > 0 else None


def _wide(x: Array, batch: slice) -> Array:
    """Some batches in float32."""
    return x[batch].astype(np.float32)


def _part(mask: Array | None, batch: slice) -> Array | None:
    """What of a mask is for some batches."""
    return mask if mask is None or mask.ndim < 4 or len(mask) == 1 else mask[batch]


def _batches(q: Array, k: Array) -> Iterator[slice]:
    """Runs of batches, so many that `_ROUND_ROWS` rows of all their heads fit into a block."""
    row_bytes = q.shape[1] * k.shape[2] * q.dtype.itemsize
    step = max(1, _SCORE_BYTES // (row_bytes * min(q.shape[2], _ROUND_ROWS)))
    for start in range(0, q.shape[0], step):
        yield slice(start, min(start + step, q.shape[0]))


def _blocks(q: Array, k: Array, batch: slice, causal: bool) -> Iterator[_Block]:
    row_bytes = (batch.stop - batch.start) * q.shape[1] * k.shape[2] * q.dtype.itemsize
    step = max(1, _SCORE_BYTES // row_bytes)
    if step > _ROUND_ROWS:
        step -= step % _ROUND_ROWS
    for start in range(0, q.shape[2], step):
        stop = min(start + step, q.shape[2])
        yield _Block(batch, slice(start, stop), min(stop, k.shape[2]) if causal else k.shape[2])


def _pairs(x: Array, batch: slice, *, turned: bool = False) -> Array:
    """(B, K, S, D) as (pairs, S, D), or (pairs, D, S) if ``turned``, in C order."""
    part = x[batch].swapaxes(2, 3) if turned else x[batch]
    return cupy.ascontiguousarray(part).reshape(part.shape[0] * part.shape[1], *part.shape[2:])


@kernel
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
    draw = _draw(p, key, counter)
    if lse.dtype == q.dtype:
        _attention(_inputs(q, k, scale, causal, mask, draw, 0), k, v, out, lse)
        return
    for batch in _batches(q, k):
        queries, keys, values = (_wide(x, batch) for x in (q, k, v))
        result = cupy.empty(out[batch].shape, np.float32)
        inputs = _inputs(queries, keys, scale, causal, _part(mask, batch), draw, batch.start)
        _attention(inputs, keys, values, result, lse[batch])
        cupy.copyto(out[batch], result, casting="unsafe")


def _attention(inputs: _Inputs, k: Array, v: Array, out: Array, lse: Array) -> None:
    for batch in _batches(inputs.q, k):
        keys_t, values = _pairs(k, batch, turned=True), _pairs(v, batch)
        for block in _blocks(inputs.q, k, batch, inputs.causal):
            _forward_block(inputs, block, keys_t, values, out[batch, :, block.rows], lse[batch, :, block.rows])


def _forward_block(inputs: _Inputs, block: _Block, keys_t: Array, values: Array, out: Array, lse: Array) -> None:
    scores = inputs.scores(inputs.queries(block), keys_t, block)
    most = cupy.amax(scores, axis=2, keepdims=True)
    if inputs.mask is not None:
        cupy.maximum(most, float(np.finfo(most.dtype).min), out=most)  # a row of -infinities: no NaN
    _EXPONENTIAL(scores, most, scores)
    total = cupy.sum(scores, axis=2, keepdims=True)
    kept = total
    if inputs.draw is not None:
        inputs.drop(scores, block)
        kept = total * inputs.draw.kept_share
    result = product(scores, values[:, : block.keys])
    _RESULT(result.reshape(out.shape), kept.reshape(*lse.shape, 1), out)
    _LSE(most.reshape(lse.shape), total.reshape(lse.shape), np.inf, lse)


@kernel
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
    targets = (grad_q, grad_k, grad_v)
    if q.size == 0 or k.size == 0 or grad.size == 0:
        for gradient in targets:
            gradient.fill(0)
        return
    draw = _draw(p, key, counter)
    if lse.dtype == q.dtype:
        _attention_backward(_inputs(q, k, scale, causal, mask, draw, 0), grad, k, v, out, lse, *targets)
        return
    for batch in _batches(q, k):
        upstream, queries, keys, values, result = (_wide(x, batch) for x in (grad, q, k, v, out))
        results = [cupy.empty(x.shape, np.float32) for x in (queries, keys, values)]
        inputs = _inputs(queries, keys, scale, causal, _part(mask, batch), draw, batch.start)
        _attention_backward(inputs, upstream, keys, values, result, lse[batch], *results)
        for found, target in zip(results, targets, strict=True):
            cupy.copyto(target[batch], found, casting="unsafe")


def _attention_backward(
    inputs: _Inputs,
    grad: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
) -> None:
    for batch in _batches(inputs.q, k):
        keys, keys_t, values_t = _pairs(k, batch), _pairs(k, batch, turned=True), _pairs(v, batch, turned=True)
        sums = cupy.zeros(keys.shape, k.dtype), cupy.zeros((values_t.shape[0], *v.shape[2:]), v.dtype)
        for block in _blocks(inputs.q, k, batch, inputs.causal):
            where = (batch, slice(None), block.rows)
            gradient = _BlockGradient.of(inputs, block, grad, out, lse, keys_t, values_t)
            _add(sums[1], product(gradient.kept.swapaxes(1, 2), gradient.upstream), block)
            ds = gradient.of_scores()
            _add(sums[0], product(ds.swapaxes(1, 2), gradient.queries), block)
            more = product(ds, keys[:, : block.keys])
            cupy.multiply(more.reshape(grad_q[where].shape), inputs.scale, out=grad_q[where])
        cupy.copyto(grad_k[batch], sums[0].reshape(k[batch].shape))
        cupy.copyto(grad_v[batch], sums[1].reshape(v[batch].shape))


class _BlockGradient(NamedTuple):
    """What the gradients of a block of rows are made of.

    ``p`` are the probabilities, ``kept`` what dropout made of them, ``by_kept`` the gradient of that.
    """

    queries: Array
    upstream: Array
    delta: Array
    p: Array
    kept: Array
    by_kept: Array

    @classmethod
    def of(
        cls, inputs: _Inputs, block: _Block, grad: Array, out: Array, lse: Array, keys_t: Array, values_t: Array
    ) -> _BlockGradient:
        where = (block.batch, slice(None), block.rows)
        queries, upstream = inputs.queries(block), inputs.folded(grad, block)
        delta = _DELTA(grad[where], out[where], axis=3)
        p = inputs.scores(queries, keys_t, block)
        _EXPONENTIAL(p, lse[where].reshape(*p.shape[:2], 1), p)
        by_kept = product(upstream, values_t[:, :, : block.keys])
        kept = p
        if inputs.draw is not None:
            kept = p / inputs.draw.kept_share
            inputs.drop(kept, block)
            inputs.drop(by_kept, block)
            cupy.divide(by_kept, inputs.draw.kept_share, out=by_kept)
        return cls(queries, upstream, delta, p, kept, by_kept)

    def of_scores(self) -> Array:
        """The gradient of the scores, in the place of ``by_kept``."""
        _SCORE_GRADIENT(self.by_kept, self.delta.reshape(*self.p.shape[:2], 1), self.p, self.by_kept)
        return self.by_kept


def _add(total: Array, part: Array, block: _Block) -> None:
    """Add to the sums of the keys that a block saw."""
    seen = total[:, : block.keys]
    cupy.add(seen, part, out=seen)


@kernel
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
    grad_mask.fill(0)
    if 0 in (*lse.shape, k.shape[2], grad_mask.size):
        return
    draw, half = _draw(p, key, counter), lse.dtype != q.dtype
    shape = (1,) * (4 - mask.ndim) + mask.shape
    axes = tuple(axis for axis in range(4) if shape[axis] == 1)
    total = cupy.zeros(shape, lse.dtype)
    for batch in _batches(q, k):
        arrays = [_wide(x, batch) if half else x[batch] for x in (grad, q, k, v, out)]
        upstream, queries, keys, values, result = arrays
        inputs = _inputs(queries, keys, scale, causal, _part(mask, batch), draw, batch.start)
        whole = slice(0, batch.stop - batch.start)
        keys_t, values_t = _pairs(keys, whole, turned=True), _pairs(values, whole, turned=True)
        for block in _blocks(queries, keys, whole, causal):
            ds = _BlockGradient.of(inputs, block, upstream, result, lse[batch], keys_t, values_t).of_scores()
            ds = ds.reshape(queries.shape[0], queries.shape[1], -1, block.keys)
            places = (batch, slice(None), block.rows, slice(block.keys))
            target = total[tuple(slice(None) if axis in axes else place for axis, place in enumerate(places))]
            cupy.add(target, cupy.sum(ds, axis=axes, keepdims=True) if axes else ds, out=target)
    cupy.copyto(grad_mask.reshape(shape), total, casting="unsafe")
