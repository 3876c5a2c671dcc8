"""The layers of a transformer: attention and two linear maps, each around a shortcut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm

Activation: TypeAlias = Callable[[Tensor], Tensor]


def _named_activation(activation: str | Activation) -> Activation:
    if not isinstance(activation, str):
        return activation
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


class _Layer(Module):
    """What both kinds of layers share."""

    norm_first: bool
    activation: Activation

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        count = len(self._attentions) + 1
        for number in range(1, count + 1):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
            self.add_module(f"norm{number}", norm)
        for number in range(1, count + 1):
            self.add_module(f"dropout{number}", Dropout(dropout))
        self.activation = _named_activation(activation)

    _attentions: tuple[str, ...] = ("self_attn",)

    def _around(self, x: Tensor, norm: Any, block: Callable[[Tensor], Tensor]) -> Tensor:
        """A block beside a shortcut, with the norm before it or behind."""
        result: Tensor = x + block(norm(x)) if self.norm_first else norm(x + block(x))
        return result

    def _sa_block(self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        result, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(result)  # type: ignore[no-any-return]

    def _forward_net(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then two linear maps with an activation between, each around a shortcut.

    Args:
        d_model: size of the input's last dimension.
        nhead: the number of heads, which divides it.
        dim_feedforward: size between the linear maps.
        dropout: how much is dropped in training: of the attention, between the maps, and behind both blocks.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: of the norms.
        batch_first: whether the batch comes before the sequence.
        norm_first: whether the norms come before the blocks rather than behind the sums.
        bias: whether linear maps and norms have biases.
        device, dtype: of the parameters.

    Shapes: input and result ``(S, N, d_model)``, or ``(N, S, d_model)`` with ``batch_first``, or ``(S, d_model)``. The
    attention never exists as a whole.
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = self._around(
            src, self.norm1, lambda y: self._sa_block(y, src_mask, src_key_padding_mask, is_causal=is_causal)
        )
        return self._around(x, self.norm2, self._ff_block)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._forward_net(x))  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, attention to another, two linear maps: each around a shortcut.

    Arguments are those of `TransformerEncoderLayer`.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = self._around(
            tgt, self.norm1, lambda y: self._sa_block(y, tgt_mask, tgt_key_padding_mask, is_causal=tgt_is_causal)
        )
        x = self._around(
            x,
            self.norm2,
            lambda y: self._mha_block(y, memory, memory_mask, memory_key_padding_mask, memory_is_causal),
        )
        return self._around(x, self.norm3, self._ff_block)

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        result, _ = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout2(result)  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._forward_net(x))  # type: ignore[no-any-return]
