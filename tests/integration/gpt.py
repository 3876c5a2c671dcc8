"""A GPT with the architecture of the benchmarks, written once for stowgrad and PyTorch: only the library differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model and of one batch; ``dropout`` is after each branch of a block."""

    layers: int = 2
    width: int = 32
    heads: int = 2
    batch: int = 2
    context: int = 37
    vocabulary: int = 131
    dropout: float = 0.0


def build(lib: Any, sizes: Sizes, region: Callable[..., Any] | None = None) -> Any:
    """The model in one library, float32, with its first weights from a seed that both share.

    Args:
        lib: `stowgrad`, or `torch`.
        sizes: of the model.
        region: called as ``region(block, x)`` for each block: `checkpoint`.
    """
    nn, F = lib.nn, lib.nn.functional
    width, heads = sizes.width, sizes.heads

    class Block(nn.Module):  # type: ignore[name-defined,misc]  # the class of whichever library it is
        """Pre-LayerNorm GPT-2 block."""

        def __init__(self) -> None:
            super().__init__()
            self.ln_1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.proj = nn.Linear(width, width)
            self.ln_2 = nn.LayerNorm(width)
            self.fc = nn.Linear(width, 4 * width)
            self.fc_proj = nn.Linear(4 * width, width)
            self.drop = nn.Dropout(sizes.dropout)

        def attend(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).split(width, dim=2)
            q, k, v = (z.view(batch, length, heads, width // heads).transpose(1, 2) for z in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(y.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x: Any) -> Any:
            x = x + self.drop(self.attend(self.ln_1(x)))
            return x + self.drop(self.fc_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh")))

    class GPT(nn.Module):  # type: ignore[name-defined,misc]
        """Returns the mean cross-entropy of the next token."""

        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(sizes.vocabulary, width)
            self.wpe = nn.Embedding(sizes.context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.layers)])
            self.ln_f = nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, sizes.vocabulary, bias=False)

        def forward(self, tokens: Any, targets: Any) -> Any:
            x = self.wte(tokens) + self.wpe(lib.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x) if region is None else region(block, x)
            x = self.ln_f(x)
            if lib.__name__ == "stowgrad":
                return F.linear_cross_entropy(x, self.lm_head.weight, targets)
            logits = self.lm_head(x)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))

    model = GPT()
    _load_weights(lib, model)
    return model


def _load_weights(lib: Any, model: Any) -> None:
    """Fill the model with numbers a little off their usual first values, so that a wrong use of any of them shows."""
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for name, parameter in model.named_parameters():
            value = rng.standard_normal(tuple(parameter.shape), dtype=np.float32) * np.float32(0.05)
            norm_weight = name.endswith("weight") and parameter.ndim == 1
            parameter.copy_(lib.from_numpy(value + np.float32(norm_weight)))


def batch(sizes: Sizes, seed: int = 1) -> tuple[Array, Array]:
    """Tokens and targets, int64 (batch, context)."""
    tokens = np.random.default_rng(seed).integers(0, sizes.vocabulary, (sizes.batch, sizes.context + 1))
    return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])


def gradients(model: Any) -> dict[str, Array]:
    """Copies of the gradients of all parameters, on the host."""
    return {name: np.array(p.grad.cpu().detach().numpy()) for name, p in model.named_parameters()}
