"""Transformers (Vaswani et al., 2017): encoder, decoder, and both."""

from __future__ import annotations

import copy
import math
from typing import Any, TypeAlias

from ...autograd import functions
from ...autograd.creation import arange, full
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from .container import ModuleList
from .module import Module
from .normalization import LayerNorm
from .transformer_layers import Activation, TransformerDecoderLayer, TransformerEncoderLayer

MaybeTensor: TypeAlias = Tensor | None


def _clones(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _is_causal(mask: MaybeTensor, given: bool | None, layers: ModuleList, x: Tensor) -> bool:
    """Whether a mask is the causal one: then attention needs none."""
    if given is not None or mask is None:
        return bool(given)
    length = x.shape[1 if x.dim() == 3 and layers[0].self_attn.batch_first else 0]
    if tuple(mask.shape) != (length, length):
        return False
    if mask.dtype == bool:
        places = arange(length, device=mask.device)
        causal = places > places.unsqueeze(1)
    else:
        causal = square_subsequent_mask(length, mask.device, mask.dtype)
    return bool((mask == causal).all().item())


def square_subsequent_mask(size: int, device: DeviceLike | None = None, dtype: Any = None) -> Tensor:
    """``(size, size)``: minus infinity above the diagonal, 0 elsewhere."""
    whole = full((size, size), -math.inf, device=device, dtype=dtype)
    result: Tensor = functions.triu(whole, 1)
    return result


class TransformerEncoder(Module):
    """Several encoder layers above each other.

    Args:
        encoder_layer: of which each layer is a copy.
        num_layers: their number.
        norm: what comes last, if anything.
        enable_nested_tensor, mask_check: taken for PyTorch's sake.
    """

    layers: ModuleList
    num_layers: int
    norm: Module | None

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: MaybeTensor = None,
        src_key_padding_mask: MaybeTensor = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        causal = _is_causal(mask, is_causal, self.layers, src)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Several decoder layers above each other.

    Args:
        decoder_layer: of which each layer is a copy.
        num_layers: their number.
        norm: what comes last, if anything.
    """

    layers: ModuleList
    num_layers: int
    norm: Module | None

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: MaybeTensor = None,
        memory_mask: MaybeTensor = None,
        tgt_key_padding_mask: MaybeTensor = None,
        memory_key_padding_mask: MaybeTensor = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _is_causal(tgt_mask, tgt_is_causal, self.layers, tgt)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that looks at its results.

    Args:
        d_model: size of the inputs' last dimension.
        nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: those of
            `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: how many layers each has.
        custom_encoder, custom_decoder: modules in their place.
        device, dtype: of the parameters.

    Shapes: source ``(S, N, d_model)``, target and result ``(T, N, d_model)``; with ``batch_first`` N comes first.
    """

    d_model: int
    nhead: int
    batch_first: bool

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        settings = dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(d_model, nhead, *settings)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(d_model, nhead, *settings)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: MaybeTensor = None,
        tgt_mask: MaybeTensor = None,
        memory_mask: MaybeTensor = None,
        src_key_padding_mask: MaybeTensor = None,
        tgt_key_padding_mask: MaybeTensor = None,
        memory_key_padding_mask: MaybeTensor = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, got {src.shape[batch]} and {tgt.shape[batch]}"
            )
        for name, x in (("src", src), ("tgt", tgt)):
            if x.shape[-1] != self.d_model:
                raise RuntimeError(
                    f"the feature number of src and tgt must be equal to d_model = {self.d_model}, {name} has"
                    f" {x.shape[-1]}"
                )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        result: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return result

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike | None = None, dtype: Any = None) -> Tensor:
        """The causal mask: minus infinity above the diagonal, 0 elsewhere."""
        return square_subsequent_mask(sz, device, dtype)
