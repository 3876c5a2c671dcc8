"""A small GPT: a decoder of pre-norm blocks, its embedding tied to its output."""

from __future__ import annotations

import math
from dataclasses import dataclass

import stowgrad
from stowgrad import Tensor, nn
from stowgrad.checkpoint import checkpoint
from stowgrad.nn import functional as F


@dataclass(frozen=True)
class Config:
    """The sizes of a `GPT`; ``context`` is the most tokens that it sees at a time."""

    vocabulary: int
    context: int = 128
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} can't be shared out equally over {self.heads} heads")


class Attention(nn.Module):
    """Causal self-attention: ``(B, T, width)`` to the same shape."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        B, T, width = x.shape
        qkv = self.qkv(x).reshape(B, T, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (B, heads, T, width of a head) each
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(B, T, width))
        return out


class Block(nn.Module):
    """Attention and a two-layer network, each added to what comes in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        x = x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))
        return x


class GPT(nn.Module):
    """Token numbers in, the loss or the logits of the next ones out.

    Attributes:
        checkpointed: whether training drops what a block computed and computes it again in backward.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.checkpointed = False
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self._initialise()

    def _initialise(self) -> None:
        """Layers keep the scale of what goes in, about; those that end in the sum over all blocks add little to it."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                std = self.config.width**-0.5
                if name.startswith("blocks."):
                    std /= 2
                if name.endswith(("attention.out.weight", "down.weight")):
                    std /= math.sqrt(2 * self.config.layers)
                nn.init.normal_(parameter, 0.0, std)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        """One pass.

        Args:
            tokens: integers, ``(B, T)`` with T at most the context.
            targets: the tokens that should come next, ``(B, T)``.

        Returns:
            The mean cross-entropy in nats a token; without targets the logits of the last position,
            ``(B, vocabulary)``.

        Raises:
            ValueError: if T is larger than the context.
        """
        T = tokens.shape[1]
        if self.config.context < T:
            raise ValueError(f"{T} tokens are more than the context, {self.config.context}")
        x = self.dropout(self.tokens(tokens) + self.positions(stowgrad.arange(T, device=tokens.device)))
        for block in self.blocks:
            if self.checkpointed and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        if targets is None:
            return F.linear(self.norm(x[:, -1]), self.tokens.weight)
        return F.linear_cross_entropy(self.norm(x), self.tokens.weight, targets)


def generate(
    model: GPT, prompt: list[int], length: int, *, temperature: float, generator: stowgrad.Generator
) -> list[int]:
    """Draw ``length`` tokens, one after the other, and return them without the prompt.

    Args:
        model: is used in evaluation mode, and left in the mode that it had.
        prompt: at least one token.
        length: how many to draw.
        temperature: below 1 the likely ones become likelier still.
        generator: where the random numbers come from; the default generator is not touched.
    """
    device = model.tokens.weight.device
    was_training = model.training
    tokens = list(prompt)
    model.eval()
    with stowgrad.no_grad():
        for _ in range(length):
            window = stowgrad.tensor([tokens[-model.config.context :]], device=device)
            # the largest of logits plus Gumbel noise is a draw from their softmax
            noise = stowgrad.rand(1, model.config.vocabulary, generator=generator, device=device)
            gumbel = -(-(noise * (1 - 2e-7) + 1e-7).log()).log()
            tokens.append(int((model(window) / temperature + gumbel).argmax().item()))
    model.train(was_training)
    return tokens[len(prompt) :]
