"""The GPT training step in stowgrad: torch_gpt.py with other imports, and the loss without logits."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpt_inputs import Config, initial_weights
from harness import Step, arguments, emit, time_steps

import stowgrad
from stowgrad import memory, nn
from stowgrad.nn import functional as F


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

    def attend(self, x: stowgrad.Tensor) -> stowgrad.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (z.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: stowgrad.Tensor) -> stowgrad.Tensor:
        x = x + self.attend(self.ln_1(x))
        return x + self.fc_proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Returns the mean cross-entropy of the next token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: stowgrad.Tensor, targets: stowgrad.Tensor) -> stowgrad.Tensor:
        x = self.wte(tokens) + self.wpe(stowgrad.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear_cross_entropy(self.ln_f(x), self.lm_head.weight, targets)


def load_weights(model: nn.Module, config: Config) -> None:
    """Copy the shared first weights into the model."""
    parameters = dict(model.named_parameters())
    with stowgrad.no_grad():
        for name, value in initial_weights(config):
            parameters.pop(name).copy_(stowgrad.from_numpy(value))
    if parameters:
        raise RuntimeError(f"no first weights for {sorted(parameters)}")


def build(config: Config) -> Step:
    """The step function of a new model with its optimizer."""
    model = GPT(config)
    load_weights(model, config)
    optimizer = stowgrad.optim.AdamW(
        model.parameters(), lr=config.lr, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay,
    )  # fmt: skip

    def step(inputs: np.ndarray, targets: np.ndarray) -> float:
        optimizer.zero_grad()
        loss = model(stowgrad.from_numpy(inputs), stowgrad.from_numpy(targets))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def tracked() -> dict[str, Any]:
    """The pool's own figures: the most that was in use, and what it holds for reuse at the end."""
    return {"tracked_peak_bytes": memory.max_memory_allocated(), "cached_bytes": memory.pool("cpu").free_bytes()}


def main() -> None:
    """Run and print one JSON line."""
    options = arguments(__doc__.splitlines()[0])
    row = time_steps(build, options, extra=tracked)
    emit({"stowgrad": stowgrad.__version__, "threads": stowgrad.get_num_threads(), **row})


if __name__ == "__main__":
    main()
