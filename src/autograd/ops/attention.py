"""Attention in blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import META
from ..dispatch import Op
from ..random import Generator, chosen
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from . import few_scores
from .cast import constant
from .elementwise import add, mul, where
from .linalg import matmul
from .promotion import check_floating
from .recompose import differentiated
from .shape import reshape, transpose
from .softmax import softmax

_FLOAT32 = np.dtype(np.float32)


class Attention(FewOp):
    """``softmax(q @ k.T * scale + mask) @ v`` by blocks of rows; one number a row is saved, never the T x S matrix.

    Shapes: ``q`` (B, H, T, D), ``k`` (B, K, S, D) and ``v`` (B, K, S, E), where K divides H: each head of k and v
    serves H / K heads of q. The mask is added to the scores (float) or says which scores count (bool). Of dropout only
    the place in the stream of random numbers is kept.

    Source: Dao et al., FlashAttention, 2022 (the saved log-sum-exp and the recomputation in backward).
    """

    name = "scaled_dot_product_attention"
    inputs = 4
    auxiliary = 1
    saves = (
        Slot("query", 0),
        Slot("key", 1),
        Slot("value", 2),
        Slot("attn_mask", 3),
        Slot("output", 0, output=True),
        Slot("logsumexp", 1, output=True),
    )

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        mask: Any = None,
        causal: bool = False,
        scale: float | None = None,
        p: float = 0.0,
        generator: Generator | None = None,
    ) -> Any:
        key = counter = 0
        if p > 0.0 and q._array.ndim == k._array.ndim == 4:
            source = chosen(generator)
            key, counter = source.take(backend("cpu").attention_counter_steps(*q._array.shape[:3], k._array.shape[2]))
        return apply_together(self, q, k, v, mask, causal, scale, float(p), key, counter)

    def small_marked(self, q: Any, k: Any, v: Any, mask: Any, *attrs: Any) -> tuple[Any, ...] | None:
        causal, scale, p = attrs[:3]
        return None if mask is not None or p > 0.0 else few_scores.attention(q, k, v, causal, _scale(q, scale))

    def infer(self, q: Any, k: Any, v: Any, mask: Any, *attrs: Any) -> tuple[Spec, ...]:
        fits = q.ndim == k.ndim == v.ndim == 4 and q.shape[0] == k.shape[0] and k.shape[:3] == v.shape[:3]
        if not fits or q.shape[3] != k.shape[3] or (q.shape[1] != k.shape[1] and q.shape[1] % max(k.shape[1], 1)):
            raise RuntimeError(
                "scaled_dot_product_attention: expected query (B, H, T, D), key (B, K, S, D) and value (B, K, S, E),"
                f" where K divides H, got {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
            )
        if len({q.dtype, k.dtype, v.dtype}) > 1:
            raise RuntimeError(
                "scaled_dot_product_attention: Expected query, key, and value to have the same dtype, but got"
                f" {q.dtype}, {k.dtype} and {v.dtype}"
            )
        check_floating(self.name, q.dtype)
        batch, heads, length = q.shape[:3]
        if mask is not None:
            _check_mask(q, mask, (batch, heads, length, k.shape[2]))
        exact = _FLOAT32 if q.dtype.itemsize < 4 else q.dtype
        return ((batch, length, heads, v.shape[3]), q.dtype), (q.shape[:3], exact)

    def arranged(self, arrays: list[Any]) -> list[Any]:
        """Heads lie side by side in a row, as the layers around want them: joining them needs no copy."""
        return [arrays[0].swapaxes(1, 2), arrays[1]]

    def kernel(self, k: Any, query: Any, key: Any, value: Any, mask: Any, *rest: Any) -> None:
        if self.fills((query, key, value, mask, *rest[:5]), rest[5:]):
            return
        causal, scale, p, draw_key, counter, out, lse = rest
        draw = {"p": p, "key": draw_key, "counter": counter}
        k.attention(query, key, value, out, lse, scale=_scale(query, scale), causal=causal, mask=mask, **draw)

    def attrs(self, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None, *draw: Any) -> Any:
        return causal, _scale(q, scale), *draw

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(attention_backward, grads[0], *saved, *node.op_attrs, node.needs_grad)
        return tuple(g if needed else None for g, needed in zip(results, node.needs_grad, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        q, k, v, mask = saved[:4]
        compose = _composed(node.op_attrs, _unseen(saved[5]) if mask is not None else None, q._storage.device)
        if not node.needs_grad[3]:
            found = differentiated(lambda q, k, v: compose(q, k, v, mask), (q, k, v), node.needs_grad[:3], grads[0])
            return (*found, None)
        return differentiated(compose, (q, k, v, mask), node.needs_grad, grads[0])


def _check_mask(q: Any, mask: Any, shape: tuple[int, ...]) -> None:
    if mask.dtype not in (np.dtype(bool), _FLOAT32, q.dtype):
        raise RuntimeError(
            "scaled_dot_product_attention: Expected attn_mask dtype to be bool or float or to match query dtype, but"
            f" got attn_mask.dtype: {mask.dtype} and query.dtype: {q.dtype}"
        )
    lacking = len(shape) - mask.ndim
    if lacking < 0 or any(size not in (1, full) for size, full in zip(mask.shape, shape[lacking:], strict=True)):
        raise RuntimeError(
            f"scaled_dot_product_attention: attn_mask of shape {list(mask.shape)} does not broadcast to the scores"
            f" {list(shape)}"
        )


def _scale(q: Any, scale: float | None) -> float:
    if scale is not None:
        return float(scale)
    return 1.0 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0


def _unseen(lse: Any) -> Any:
    """Which rows see no key, as (B, H, T, 1); None if there are none."""
    if lse._storage.device is META:
        return None
    array = lse._array if isinstance(lse._array, np.ndarray) else lse._array.get()
    unseen = array == np.inf
    return constant(unseen[..., None], lse._storage.device) if unseen.any() else None


def _composed(attrs: tuple[Any, ...], unseen: Any, device: Any) -> Any:
    """Attention with plain ops, of the same draw of dropout."""
    causal, scale, p, key, counter = attrs

    def compose(q: Any, k: Any, v: Any, mask: Any) -> Any:
        (batch, heads, rows), shared, keys = q._array.shape[:3], k._array.shape[1], k._array.shape[2]
        grouped = (batch, shared, heads // max(shared, 1))
        scores = matmul(reshape(q, (*grouped, *q._array.shape[2:])), transpose(_of_group(k), -1, -2))
        scores = mul(reshape(scores, (batch, heads, rows, keys)), scale)
        if causal:
            scores = where(constant(np.tri(rows, keys, dtype=bool), device), scores, -math.inf)
        if mask is not None:
            scores = where(mask, scores, -math.inf) if mask._array.dtype == bool else add(scores, mask)
        if unseen is not None:  # as the kernel has it: no NaN
            scores = where(unseen, 0.0, scores)
        weights = softmax(scores, -1)
        if unseen is not None:
            weights = where(unseen, 0.0, weights)
        if p > 0.0:
            dropped = attention_dropped(q, keys, p, key, counter)
            weights = where(dropped, 0.0, mul(weights, 1.0 / (1.0 - p) if p < 1.0 else 1.0))
        result = matmul(reshape(weights, (*grouped, rows, keys)), _of_group(v))
        return reshape(result, (batch, heads, rows, v._array.shape[3]))

    return compose


def _of_group(x: Any) -> Any:
    """(B, K, S, D) as (B, K, 1, S, D)."""
    batch, heads, *sizes = x._array.shape
    return reshape(x, (batch, heads, 1, *sizes))


class AttentionBackward(FewOp):
    """The fused gradients of query, key, value and mask: the last in the mask's shape, and empty if nobody needs it."""

    name = "scaled_dot_product_attention_backward"
    inputs = 7
    outputs = 4

    def small_marked(self, *args: Any) -> tuple[Any, ...] | None:
        grad, q, k, v, mask, out, lse, causal, scale, p, *_ = args
        found = None
        if mask is None and p <= 0.0:
            found = few_scores.attention_backward(grad, q, k, v, out, lse, causal, scale)
        return None if found is None else (*found, None)

    def infer(self, grad: Any, q: Any, k: Any, v: Any, mask: Any, *rest: Any) -> tuple[Spec, ...]:
        by_mask = (mask.shape, mask.dtype) if rest[-1][3] else ((0,), q.dtype)
        return (*(((b, t, h, d), q.dtype) for b, h, t, d in (q.shape, k.shape, v.shape)), by_mask)

    def arranged(self, arrays: list[Any]) -> list[Any]:
        return [*[array.swapaxes(1, 2) for array in arrays[:3]], arrays[3]]

    def kernel(self, k: Any, grad: Any, query: Any, key: Any, value: Any, mask: Any, *rest: Any) -> None:
        if self.fills((grad, query, key, value, mask, *rest[:8]), rest[8:]):
            return
        out, lse, causal, scale, p, draw_key, counter, needs, *grads, by_mask = rest
        inputs = (grad, query, key, value)
        options = {"scale": scale, "causal": causal, "p": p, "key": draw_key, "counter": counter}
        if True in needs[:3]:
            k.attention_backward(*inputs, out, lse, *grads, mask=mask, **options)
        if needs[3]:
            k.attention_mask_backward(*inputs, mask, out, lse, by_mask, **options)


class AttentionDropped(Op):
    """Which probabilities a draw of dropout takes away, for second derivatives: the T x S matrix of bools."""

    name = "scaled_dot_product_attention_dropped"
    differentiable = False

    def infer(self, q: Any, keys: int, *draw: Any) -> tuple[Spec, ...]:
        return (((*q.shape[:3], keys), np.dtype(bool)),)

    def kernel(self, k: Any, q: Any, keys: int, p: float, key: int, counter: int, out: Any) -> None:
        k.attention_dropped(out, p=p, key=key, counter=counter)


attention = Attention()
attention_backward = AttentionBackward()
attention_dropped = AttentionDropped()
