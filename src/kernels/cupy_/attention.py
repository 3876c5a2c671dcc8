"""Scaled dot-product attention without the matrix of all scores, forward and backward.

NOTE [ Attention in blocks of rows ]
1. The work is cut into blocks of query rows, against all keys that one of them may see, whose scores take
   `_SCORE_BYTES` at most; with ``causal``, what lies wholly beyond the last row of a block is never computed.
2. Only the log-sum-exp of each row is kept: backward recomputes ``P = exp(scores - lse)``. A row that may see no key
   has the result 0 and the log-sum-exp +infinity, which makes its P, and so its gradients, 0.
3. Heads are those of k and v; a head has a group of one or more heads of q, whose rows are one after another, so every
   product is one batched call: (pairs of batch and head, rows of the group, size).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cupy
import numpy as np

from .launch import WIDE, Array, is_bfloat16, kernel
from .linalg import product

__all__ = [
    "attention",
    "attention_backward",
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


class _Block(NamedTuple):
    """Rows ``rows`` of q in the batches ``batch``, which see ``keys`` keys."""

    batch: slice
    rows: slice
    keys: int


class _Inputs(NamedTuple):
    """What every block reads."""

    q: Array
    heads: int
    scale: float
    causal: bool
    mask: Array | None

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


def _inputs(q: Array, k: Array, scale: float, causal: bool, mask: Array | None) -> _Inputs:
    if mask is not None:
        mask = cupy.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    return _Inputs(q, k.shape[1], scale, causal, mask)


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
    q: Array, k: Array, v: Array, out: Array, lse: Array, *, scale: float, causal: bool, mask: Array | None = None
) -> None:
    """``out = softmax(scale * q @ k.T + mask) @ v`` and the rows' log-sum-exp.

    Args:
        q: (B, H, T, D), any strides.
        k, v: (B, K, S, D) and (B, K, S, E), where H is a multiple of K.
        out: (B, H, T, E), any strides.
        lse: (B, H, T).
        scale: the factor of the scores.
        causal: whether query i sees only the keys 0 ... i.
        mask: added to the scores, or bool, True where a query sees a key; broadcasts to (B, H, T, S).
    """
    if out.size == 0 and lse.size == 0:
        return
    if k.shape[2] == 0:
        out.fill(0)
        lse.fill(np.inf)
        return
    inputs = _inputs(q, k, scale, causal, mask)
    for batch in _batches(q, k):
        keys_t, values = _pairs(k, batch, turned=True), _pairs(v, batch)
        for block in _blocks(q, k, batch, causal):
            _forward_block(inputs, block, keys_t, values, out[batch, :, block.rows], lse[batch, :, block.rows])


def _forward_block(inputs: _Inputs, block: _Block, keys_t: Array, values: Array, out: Array, lse: Array) -> None:
    scores = inputs.scores(inputs.queries(block), keys_t, block)
    most = cupy.amax(scores, axis=2, keepdims=True)
    if inputs.mask is not None:
        cupy.maximum(most, _lowest(most), out=most)  # a row of -infinities: no NaN
    _EXPONENTIAL(scores, most, scores)
    total = cupy.sum(scores, axis=2, keepdims=True)
    result = product(scores, values[:, : block.keys])
    _RESULT(result.reshape(out.shape), total.reshape(*lse.shape, 1), out)
    _LSE(most.reshape(lse.shape), total.reshape(lse.shape), np.inf, lse)


def _lowest(x: Array) -> float:
    """A finite number below every score."""
    return -3e38 if is_bfloat16(x) else float(np.finfo(x.dtype).min)


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
) -> None:
    """The gradients of `attention`, from its inputs, result and log-sum-exp.

    ``grad`` and ``out`` are (B, H, T, E); the outs have their inputs' shapes and any strides.
    """
    if q.size == 0 or k.size == 0 or grad.size == 0:
        for gradient in (grad_q, grad_k, grad_v):
            gradient.fill(0)
        return
    inputs = _inputs(q, k, scale, causal, mask)
    for batch in _batches(q, k):
        keys, keys_t, values_t = _pairs(k, batch), _pairs(k, batch, turned=True), _pairs(v, batch, turned=True)
        sums = cupy.zeros(keys.shape, k.dtype), cupy.zeros((values_t.shape[0], *v.shape[2:]), v.dtype)
        for block in _blocks(q, k, batch, causal):
            where = (batch, slice(None), block.rows)
            upstream, delta = inputs.folded(grad, block), _DELTA(grad[where], out[where], axis=3)
            queries = inputs.queries(block)
            p = inputs.scores(queries, keys_t, block)
            _EXPONENTIAL(p, lse[where].reshape(*p.shape[:2], 1), p)
            _add(sums[1], product(p.swapaxes(1, 2), upstream), block)
            ds = product(upstream, values_t[:, :, : block.keys])
            _SCORE_GRADIENT(ds, delta.reshape(*p.shape[:2], 1), p, ds)
            del p
            _add(sums[0], product(ds.swapaxes(1, 2), queries), block)
            more = product(ds, keys[:, : block.keys])
            cupy.multiply(more.reshape(grad_q[where].shape), scale, out=grad_q[where])
        cupy.copyto(grad_k[batch], sums[0].reshape(k[batch].shape))
        cupy.copyto(grad_v[batch], sums[1].reshape(v[batch].shape))


def _add(total: Array, part: Array, block: _Block) -> None:
    """Add to the sums of the keys that a block saw."""
    seen = total[:, : block.keys]
    cupy.add(seen, part, out=seen)
