"""Attention of several heads between projections."""

from __future__ import annotations

from typing import Any

from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import Linear
from .making import new_parameter
from .module import Module


class MultiheadAttention(Module):
    """`functional.multi_head_attention_forward` with its parameters (Vaswani et al., 2017).

    Args:
        embed_dim: size E of queries and results.
        num_heads: which divides it.
        dropout: how much of the attention is dropped in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a key and a value more are learned.
        add_zero_attn: whether a key and a value of zeros are added.
        kdim, vdim: sizes of keys and values; E by default.
        batch_first: whether the batch comes before the sequence.
        device, dtype: of the parameters.

    Raises:
        ValueError: for sizes that are not positive.
        AssertionError: if the heads do not divide E.

    Shapes: query ``(L, N, E)`` or ``(L, E)``, key ``(S, N, kdim)`` and value ``(S, N, vdim)``; with ``batch_first``
    N comes first. Returns the result and the attention, ``(N, L, S)``, or None unless ``need_weights``: without it the
    attention never exists as a whole.
    """

    embed_dim: int
    kdim: int
    vdim: int
    num_heads: int
    head_dim: int
    dropout: float
    batch_first: bool
    add_zero_attn: bool
    out_proj: Linear
    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and"
                f" num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        shapes: dict[str, tuple[int, ...] | None]
        if self.kdim == self.vdim == embed_dim:
            shapes = {"in_proj_weight": (3 * embed_dim, embed_dim)}
        else:
            sizes = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
            shapes = {name: (embed_dim, size) for name, size in sizes.items()}
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        shapes["bias_k"] = shapes["bias_v"] = (1, 1, embed_dim) if add_bias_kv else None
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            shapes.setdefault(name, None)
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else new_parameter(shape, device, dtype))
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    @property
    def _qkv_same_embed_dim(self) -> bool:
        return self.in_proj_weight is not None

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        for more in (self.bias_k, self.bias_v):
            if more is not None:
                init.xavier_normal_(more)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.dim() == 3
        if turned:  # the same tensor stays the same: its projections are one product then
            views: dict[int, Any] = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = (views[id(x)] for x in (query, key, value))
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(0, 1) if turned else result), weights
