"""The GPT training step in PyTorch on the CPU, with its fused attention, loss and optimizer."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from gpt_inputs import Config, initial_weights
from harness import Step, arguments, emit, time_steps
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Pre-LayerNorm GPT-2 block."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.fc_proj = nn.Linear(4 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (z.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.ln_1(x))
        return x + self.fc_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Returns the mean cross-entropy of the next token."""

    def __init__(self, config: Config, chunked_loss: bool = False) -> None:
        super().__init__()
        self.chunked_loss = chunked_loss
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        if self.chunked_loss:  # PyTorch 2.13 and later
            rows, options = x.view(-1, x.shape[-1]), nn.LinearCrossEntropyOptions()
            return F.linear_cross_entropy(rows, self.lm_head.weight, targets.reshape(-1), options=options)
        logits = self.lm_head(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def load_weights(model: nn.Module, config: Config) -> None:
    """Copy the shared first weights into the model."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in initial_weights(config):
            parameters.pop(name).copy_(torch.from_numpy(value))
    if parameters:
        raise RuntimeError(f"no first weights for {sorted(parameters)}")


def build(config: Config, chunked_loss: bool = False) -> Step:
    """The step function of a new model with its optimizer."""
    model = GPT(config, chunked_loss)
    load_weights(model, config)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.lr, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay,
        fused=True,  # faster on the CPU than foreach and than the plain loop
    )  # fmt: skip

    def step(inputs: np.ndarray, targets: np.ndarray) -> float:
        optimizer.zero_grad()
        loss = model(torch.from_numpy(inputs), torch.from_numpy(targets))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def main() -> None:
    """Run and print one JSON line."""
    options = arguments(__doc__.splitlines()[0])
    row = time_steps(partial(build, chunked_loss=options.chunked_loss), options)
    emit({"torch": torch.__version__, "threads": torch.get_num_threads(), **row})


if __name__ == "__main__":
    main()
