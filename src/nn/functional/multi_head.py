"""Attention of several heads between projections."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...autograd.creation import zeros
from ...autograd.functions.join import cat
from ...autograd.ops.comparison import logical_and, logical_not
from ...autograd.ops.elementwise import where
from ...autograd.ops.promotion import is_floating
from ...autograd.ops.softmax import softmax
from ...autograd.tensor import Tensor
from ._checks import check_tensors
from .attention import scaled_dot_product_attention
from .dropout import dropout
from .linear import linear

__all__ = ["multi_head_attention_forward"]

_NAME = "multi_head_attention_forward"
_BOOL = np.dtype(bool)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Projections of query, key and value, `scaled_dot_product_attention` of each head, a projection of the results.

    Args:
        query: ``(L, N, E)`` or ``(L, E)``.
        key, value: ``(S, N, E)`` or ``(S, E)``.
        embed_dim_to_check: E.
        num_heads: which divides E.
        in_proj_weight, in_proj_bias: of all three projections: ``(3 * E, E)`` and ``(3 * E,)``.
        bias_k, bias_v: one more key and value, ``(1, 1, E)``.
        add_zero_attn: whether a key and a value of zeros are added.
        dropout_p, training: how much of the attention is dropped, and whether it is.
        out_proj_weight, out_proj_bias: of the last projection.
        key_padding_mask: ``(N, S)``: bool, True for keys that do not take part, or added to the scores.
        need_weights: whether the attention is returned. Unless it is False, the L x S matrix exists.
        attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``: bool, True where a query must not look, or what is added
            to the scores.
        use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight: projections of their own for each.
        static_k, static_v: ``(N * num_heads, S, E / num_heads)``: in place of the projected ones.
        average_attn_weights: whether the attention is averaged over heads.
        is_causal: a hint that ``attn_mask``, which has to be given, is the causal one.

    Returns:
        ``(L, N, E)`` or ``(L, E)``; the attention, ``(N, L, S)`` or ``(N, num_heads, L, S)``, or None.

    Raises:
        RuntimeError, AssertionError: for arguments that do not fit, as in PyTorch.
    """
    check_tensors(_NAME, query=query, key=key, value=value)
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads, embed_dim_to_check)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    projected = _projections(
        (query, key, value),
        in_proj_weight,
        in_proj_bias,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None,
    )
    if not batched:
        projected = _Three(*(x.unsqueeze(1) for x in projected))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    is_causal = is_causal and key_padding_mask is None and not need_weights
    masks = _Masks(None if is_causal else attn_mask, key_padding_mask)
    heads = _heads(projected, num_heads, bias_k, bias_v, static_k, static_v)
    heads = _with_zeros(heads) if add_zero_attn else heads
    mask = masks.merged(heads, num_heads, src_len=key.shape[0])
    dropout_p = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        result, weights = _with_weights(heads, mask, dropout_p)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        result = scaled_dot_product_attention(*heads, mask, dropout_p, is_causal)
    length, batch = query.shape[0], heads.q.shape[0]
    joined = result.permute(2, 0, 1, 3).reshape(length, batch, embed_dim_to_check)
    out = linear(joined, out_proj_weight, out_proj_bias)
    if not batched:
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights


class _Three(NamedTuple):
    """Query, key and value."""

    q: Tensor
    k: Tensor
    v: Tensor


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
    embed_dim: int,
) -> bool:
    """Raise what PyTorch raises for shapes that do not fit; whether there is a dimension of batches."""
    dims = query.dim()
    if dims not in (2, 3) or not dims == key.dim() == value.dim():
        raise AssertionError(
            f"{_NAME}: query should be unbatched 2D or batched 3D, and key and value alike, but received"
            f" {dims}-D, {key.dim()}-D and {value.dim()}-D tensors"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"For a {dims}-D query, expected key_padding_mask to be None or {dims - 1}-D but found"
            f" {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
    if query.shape[-1] != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}")
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if tuple(key.shape[:-1]) != tuple(value.shape[:-1]):
        raise AssertionError(f"key shape {list(key.shape)} does not match value shape {list(value.shape)}")
    return dims == 3


def _projections(
    inputs: tuple[Tensor, Tensor, Tensor],
    weight: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, Tensor | None, Tensor | None] | None,
) -> _Three:
    biases = (None, None, None) if bias is None else tuple(bias.chunk(3))
    if separate is not None:
        if None in [None if w is None else 0 for w in separate]:
            raise AssertionError("use_separate_proj_weight is True but a projection's weight is None")
        return _Three(*(linear(x, w, b) for x, w, b in zip(inputs, separate, biases, strict=True) if w is not None))
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    query, key, value = inputs
    if query is key and key is value:  # one product
        return _Three(*linear(query, weight, bias).chunk(3, -1))
    return _Three(*(linear(x, w, b) for x, w, b in zip(inputs, weight.chunk(3), biases, strict=True)))


def _heads(
    projected: _Three,
    num_heads: int,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
) -> _Three:
    """Query, key and value as (N, heads, length, size)."""
    q, k, v = projected
    batch = q.shape[1]
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v go together: one of them is None")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k, v = (cat([x, bias.expand(1, batch, bias.shape[-1])]) for x, bias in ((k, bias_k), (v, bias_v)))

    def split(x: Tensor, static: Tensor | None) -> Tensor:
        size = q.shape[-1] // num_heads
        result: Tensor
        if static is None:
            result = x.reshape(x.shape[0], batch, num_heads, size).permute(1, 2, 0, 3)
            return result
        if static.shape[0] != batch * num_heads or static.shape[2] != size:
            raise AssertionError(
                f"expecting static key and value of ({batch * num_heads}, S, {size}), but got {list(static.shape)}"
            )
        result = static.reshape(batch, num_heads, static.shape[1], size)
        return result

    return _Three(split(q, None), split(k, static_k), split(v, static_v))


def _with_zeros(heads: _Three) -> _Three:
    q, k, v = heads
    more = [zeros(*x.shape[:2], 1, x.shape[3], dtype=x.dtype, device=x.device) for x in (k, v)]
    return _Three(q, cat([k, more[0]], 2), cat([v, more[1]], 2))


class _Masks(NamedTuple):
    """What is given: True says where not to look, numbers are added."""

    attention: Tensor | None
    padding: Tensor | None

    def merged(self, heads: _Three, num_heads: int, src_len: int) -> Tensor | None:
        """One mask for `scaled_dot_product_attention`, as small as it can be: True says where to look."""
        q, k, _ = heads
        batch, _, length, _ = q.shape
        attention, padding = self
        for name, mask in (("attn_mask", attention), ("key_padding_mask", padding)):
            if mask is not None and mask.dtype != _BOOL and not is_floating(mask.dtype):
                raise AssertionError(f"only bool and floating types of {name} are supported")
        if attention is not None:
            wanted = (length, src_len) if attention.dim() == 2 else (batch * num_heads, length, src_len)
            if tuple(attention.shape) != wanted:
                raise RuntimeError(
                    f"The shape of the {attention.dim()}D attn_mask is {list(attention.shape)}, but should be {wanted}."
                )
            if attention.dim() == 3:
                attention = attention.reshape(batch, num_heads, length, src_len)
            attention = _widened(attention, k.shape[2])
        if padding is not None:
            if tuple(padding.shape) != (batch, src_len):
                raise AssertionError(
                    f"Expected key_padded_mask of the shape {(batch, src_len)}, but got {list(padding.shape)}"
                )
            padding = _widened(padding, k.shape[2]).reshape(batch, 1, 1, k.shape[2])
        if attention is None or padding is None:
            only = padding if attention is None else attention
            if only is not None and only.dtype == _BOOL:
                only = _inverted(only)
            return only
        if attention.dtype == padding.dtype == _BOOL:
            both: Tensor = logical_and(_inverted(attention), _inverted(padding))
            return both
        total: Tensor = _added(attention, q) + _added(padding, q)
        return total


def _inverted(mask: Tensor) -> Tensor:
    result: Tensor = logical_not(mask)
    return result


def _widened(mask: Tensor, columns: int) -> Tensor:
    """A mask with columns more, of keys that everybody sees."""
    lacking = columns - mask.shape[-1]
    if not lacking:
        return mask
    result: Tensor = cat([mask, zeros(*mask.shape[:-1], lacking, dtype=mask.dtype, device=mask.device)], -1)
    return result


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as numbers to add."""
    if mask.dtype != _BOOL:
        return mask
    nothing = zeros(1, dtype=like.dtype, device=like.device)
    return where(mask, -math.inf, nothing)  # type: ignore[no-any-return]


def _with_weights(heads: _Three, mask: Tensor | None, dropout_p: float) -> tuple[Tensor, Tensor]:
    """The result, and the attention of which it is made: after dropout, as in PyTorch."""
    q, k, v = heads
    scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-1, -2)
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype == _BOOL else scores + mask
    weights: Tensor = softmax(scores, -1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return weights @ v, weights
