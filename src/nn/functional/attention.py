"""Attention."""

from __future__ import annotations

import math
from typing import Any

from ...autograd.ops.attention import attention
from ...autograd.random import Generator
from ...autograd.record import broadcast_shapes
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = ["scaled_dot_product_attention"]

_NAME = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` in blocks of rows: the T x S matrix never exists.

    Args:
        query: ``(*, T, D)``; the leading dimensions of all three broadcast.
        key: ``(*, S, D)``.
        value: ``(*, S, E)``.
        attn_mask: of a shape that broadcasts to ``(*, T, S)``: added if it is floating point, or bool, True where a
            position takes part. A row that sees nothing gives 0. A floating-point mask may require grad.
        dropout_p: the probability with which a weight is dropped. Which ones are is drawn again in backward.
        is_causal: whether position ``t`` sees only the positions up to ``t``.
        scale: by default ``1 / sqrt(D)``.
        enable_gqa: whether heads of ``key`` and ``value`` (dimension -3) serve several of ``query``: as many as their
            number divides. They are not repeated in memory.
        generator: where dropout's numbers come from; the default generator if None.

    Returns:
        ``(*, T, E)``.

    Raises:
        RuntimeError: if the shapes do not fit, for both a mask and ``is_causal``, or a probability out of range.

    Keeps the three inputs, the mask, the result and one number a row.
    """
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        check_tensors(_NAME, query=query, key=key, value=value)
    if attn_mask is not None:
        check_tensors(_NAME, attn_mask=attn_mask)
        if is_causal:
            raise RuntimeError(
                f"{_NAME}: Explicit attn_mask should not be set when is_causal=True; put both into the mask"
            )
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if min(query._array.ndim, key._array.ndim, value._array.ndim) < 2:
        raise RuntimeError(
            f"{_NAME}: expected query, key and value of at least 2 dimensions,"
            f" got {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if enable_gqa:
        key, value = _shared_heads(query, key, value)
    leading = tuple(query._array.shape[:-2])
    if attn_mask is None and len(leading) == 2 and leading == key._array.shape[:-2] == value._array.shape[:-2]:
        plain: Tensor = attention(query, key, value, None, is_causal, scale, dropout_p, generator)
        return plain
    leading = _leading(query, key, value, enable_gqa)
    q = _with_two_leading(query, leading)
    k, v = (_with_two_leading(x, (*leading[:-1], x.shape[-3]) if enable_gqa else leading) for x in (key, value))
    mask = None if attn_mask is None else _mask_with_two_leading(attn_mask, leading)
    result: Tensor = attention(q, k, v, mask, is_causal, scale, float(dropout_p), generator)
    return result if len(leading) == 2 else result.reshape(*leading, *result.shape[-2:])


def _shared_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Key and value with equally many heads, which divide those of the query."""
    if min(query.dim(), key.dim(), value.dim()) < 3:
        raise RuntimeError(f"{_NAME}: enable_gqa needs tensors with heads, of at least 3 dimensions")
    heads = query.shape[-3]
    if any(not x.shape[-3] or heads % x.shape[-3] for x in (key, value)):
        raise RuntimeError(
            f"{_NAME}: Number of heads in key and value must divide the number of heads in query, got"
            f" {key.shape[-3]}, {value.shape[-3]} and {heads}"
        )
    if key.shape[-3] == value.shape[-3]:
        return key, value
    return _repeated(key, heads), _repeated(value, heads)


def _repeated(x: Tensor, heads: int) -> Tensor:
    *leading, own, rows, columns = x.shape
    wide = x.unsqueeze(-3).expand(*leading, own, heads // own, rows, columns)
    result: Tensor = wide.reshape(*leading, heads, rows, columns)
    return result


def _leading(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> tuple[int, ...]:
    """The leading dimensions of the result."""
    shapes = [tuple(x.shape[:-2]) for x in (query, key, value)]
    if enable_gqa:
        return (*broadcast_shapes(_NAME, *[shape[:-1] for shape in shapes]), query.shape[-3])
    return broadcast_shapes(_NAME, *shapes)


def _with_two_leading(x: Tensor, leading: tuple[int, ...]) -> Tensor:
    """``x``, its leading dimensions broadcast, as (B, H, rows, columns)."""
    if tuple(x.shape[:-2]) != leading:
        x = x.expand(*leading, *x.shape[-2:])
    return x if len(leading) == 2 else x.reshape(*_two(leading), *x.shape[-2:])


def _mask_with_two_leading(mask: Tensor, leading: tuple[int, ...]) -> Tensor:
    """A mask that broadcasts to (B, H, T, S), as small as it can be."""
    if len(leading) <= 2 or mask.dim() <= 3:
        return mask
    own = tuple(mask.shape[:-2])
    count = 1
    if any(size != 1 for size in own[:-1]):
        mask, count = mask.expand(*leading[:-1], *mask.shape[-3:]), math.prod(leading[:-1])
    result: Tensor = mask.reshape(count, *mask.shape[-3:])
    return result


def _two(leading: tuple[int, ...]) -> tuple[Any, Any]:
    return math.prod(leading[:-1]), leading[-1] if leading else 1
