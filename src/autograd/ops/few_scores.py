"""Attention whose scores all fit into less than two kibibytes, by a few calls of NumPy.

The results lie as `Attention.infer` says: (batch, row, head, size). Each function gives None where there is more.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...memory import SMALL_BYTES


def _are_few(q: Any, k: Any, v: Any) -> bool:
    """Whether that is so, and each head of q has one of k."""
    if q.shape[1] != k.shape[1] or not 0 < k.nbytes < SMALL_BYTES or not 0 < v.nbytes < SMALL_BYTES:
        return False
    return bool(q.size // q.shape[3] * k.shape[2] * q.itemsize <= SMALL_BYTES)


@functools.lru_cache(maxsize=16)
def _beyond_diagonal(rows: int, keys: int) -> Any:
    return ~np.tri(rows, keys, dtype=bool)


def _scores(queries: Any, k: Any, causal: bool) -> Any:
    scores = np.matmul(queries, k.swapaxes(2, 3))
    if causal:
        np.copyto(scores, -np.inf, where=_beyond_diagonal(*scores.shape[2:]))
    return scores


def _result(left: Any, right: Any) -> tuple[Any, Any]:
    """A product as (batch, row, head, size), and the same as (batch, head, row, size)."""
    batch, heads, rows = left.shape[:3]
    lying = np.empty((batch, rows, heads, right.shape[3]), left.dtype)
    return lying, np.matmul(left, right, out=lying.swapaxes(1, 2))


def attention(q: Any, k: Any, v: Any, causal: bool, scale: float) -> tuple[Any, ...] | None:
    """The result and the log-sum-exp of each row."""
    if not _are_few(q, k, v):
        return None
    scores = _scores(np.multiply(q, scale), k, causal)
    most = np.maximum.reduce(scores, axis=3, keepdims=True)
    np.subtract(scores, most, scores)
    np.exp(scores, scores)
    total = np.add.reduce(scores, axis=3, keepdims=True)
    lying, out = _result(scores, v)
    np.divide(out, total, out)
    np.add(most, np.log(total, total), most)
    return lying, most.reshape(most.shape[:3])


def attention_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, causal: bool, scale: float
) -> tuple[Any, ...] | None:
    """The gradients of query, key and value."""
    if not _are_few(q, k, v):
        return None
    queries = np.multiply(q, scale)
    p = _scores(queries, k, causal)
    np.subtract(p, lse[..., None], p)
    np.exp(p, p)
    by_v, _ = _result(p.swapaxes(2, 3), grad)
    ds = np.matmul(grad, v.swapaxes(2, 3))
    np.subtract(ds, np.vecdot(grad, out)[..., None], ds)
    np.multiply(ds, p, ds)
    by_k, _ = _result(ds.swapaxes(2, 3), queries)
    by_q, _ = _result(ds, k)
    np.multiply(by_q, scale, by_q)
    return by_q, by_k, by_v
