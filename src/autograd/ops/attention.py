"""Attention in blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...saved_tensors.state import current
from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from ..variable import Variable
from .cast import constant
from .elementwise import add, mul, where
from .linalg import matmul
from .promotion import check_floating
from .recompose import differentiated
from .reduce import softmax
from .shape import transpose


class Attention(Op):
    """``softmax(q @ k.T * scale) @ v`` by blocks of rows; one number a row is saved, never the T x T matrix.

    Shapes: ``q`` (B, H, T, D), ``k`` and ``v`` (B, H, S, D). The mask is added to the scores (float) or says which
    scores count (bool).

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
        self, q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None
    ) -> Any:
        if isinstance(mask, Variable) and mask._requires_grad and current().grad_enabled:
            raise RuntimeError(
                "scaled_dot_product_attention: attn_mask requires grad, and its gradient is not implemented; pass"
                " attn_mask.detach(), or compose the product from ops: softmax(q @ k.mT * scale + attn_mask) @ v"
            )
        return apply(self, q, k, v, mask, causal, scale)

    def infer(self, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> tuple[Spec, ...]:
        fits = q.ndim == k.ndim == v.ndim == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]
        if not fits or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
            raise RuntimeError(
                "scaled_dot_product_attention: expected query (B, H, T, D), key (B, H, S, D) and value (B, H, S, E),"
                f" got {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
            )
        if len({q.dtype, k.dtype, v.dtype}) > 1:
            raise RuntimeError(
                "scaled_dot_product_attention: Expected query, key, and value to have the same dtype, but got"
                f" {q.dtype}, {k.dtype} and {v.dtype}"
            )
        check_floating(self.name, q.dtype)
        batch, heads, length = q.shape[:3]
        return ((batch, length, heads, v.shape[3]), q.dtype), (q.shape[:3], q.dtype)

    def arranged(self, arrays: list[Any]) -> list[Any]:
        """Heads lie side by side in a row, as the layers around want them: joining them needs no copy."""
        return [arrays[0].swapaxes(1, 2), arrays[1]]

    def kernel(self, k: Any, query: Any, key: Any, value: Any, mask: Any, *rest: Any) -> None:
        causal, scale, out, lse = rest
        k.attention(query, key, value, out, lse, scale=_scale(query, scale), causal=causal, mask=mask)

    def attrs(self, q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
        return causal, _scale(q, scale)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(attention_backward, grads[0], *saved, *node.op_attrs)
        return (*(g if needed else None for g, needed in zip(results, node.needs_grad, strict=False)), None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        q, k, v, mask = saved[:4]
        causal, scale = node.op_attrs

        def compose(q: Any, k: Any, v: Any) -> Any:
            scores = mul(matmul(q, transpose(k, -1, -2)), scale)
            if causal:
                visible = np.tri(q._array.shape[-2], k._array.shape[-2], dtype=bool)
                scores = where(constant(visible, q._storage.device), scores, -math.inf)
            if mask is not None:
                scores = where(mask, scores, -math.inf) if mask._array.dtype == bool else add(scores, mask)
            return matmul(softmax(scores, -1), v)

        return (*differentiated(compose, (q, k, v), node.needs_grad[:3], grads[0]), None)


def _scale(q: Any, scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else float(scale)


class AttentionBackward(Op):
    """The fused gradients of query, key and value."""

    name = "scaled_dot_product_attention_backward"
    inputs = 7
    outputs = 3

    def infer(self, grad: Any, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Spec, ...]:
        return tuple(((b, t, h, d), q.dtype) for b, h, t, d in (q.shape, k.shape, v.shape))

    def arranged(self, arrays: list[Any]) -> list[Any]:
        return [array.swapaxes(1, 2) for array in arrays]

    def kernel(self, k: Any, grad: Any, query: Any, key: Any, value: Any, mask: Any, *rest: Any) -> None:
        out, lse, causal, scale, *grads = rest
        k.attention_backward(grad, query, key, value, out, lse, *grads, scale=scale, causal=causal, mask=mask)


attention = Attention()
attention_backward = AttentionBackward()
