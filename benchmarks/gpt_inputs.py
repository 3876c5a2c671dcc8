"""The GPT step that all three programs run: its size, its first weights and its batches. NumPy only.

Weights and tokens come from seeded generators, so every program starts from the same bytes and losses can be compared.
Parameters carry the names and shapes of the PyTorch module's `state_dict`; a linear weight is (out, in).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of one batch, and AdamW's settings."""

    layers: int = 6
    width: int = 384
    heads: int = 6
    batch: int = 8
    context: int = 256
    vocabulary: int = 8192
    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01
    layer_norm_eps: float = 1e-5

    @property
    def rows(self) -> int:
        """Tokens in a batch."""
        return self.batch * self.context


FULL = Config()
TINY = Config(layers=2, width=64, heads=2, batch=2, context=64, vocabulary=256)  # to try a script, not to time it


def parameter_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every parameter's name and shape, in a fixed order."""
    c = config.width
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (config.vocabulary, c), "wpe.weight": (config.context, c)}
    for i in range(config.layers):
        block: dict[str, tuple[int, ...]] = {
            "ln_1.weight": (c,), "ln_1.bias": (c,), "qkv.weight": (3 * c, c), "qkv.bias": (3 * c,),
            "proj.weight": (c, c), "proj.bias": (c,), "ln_2.weight": (c,), "ln_2.bias": (c,),
            "fc.weight": (4 * c, c), "fc.bias": (4 * c,), "fc_proj.weight": (c, 4 * c), "fc_proj.bias": (c,),
        }  # fmt: skip
        shapes |= {f"blocks.{i}.{name}": shape for name, shape in block.items()}
    return shapes | {"ln_f.weight": (c,), "ln_f.bias": (c,), "lm_head.weight": (config.vocabulary, c)}


def initial_weights(config: Config, seed: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """(name, float32 array) one at a time, so that nobody holds a second copy of the model.

    Biases and LayerNorm vectors are a little off their usual 0 and 1, so that a wrong use of them shows.
    """
    rng = np.random.default_rng(seed)
    for name, shape in parameter_shapes(config).items():
        value = rng.standard_normal(shape, dtype=np.float32)
        value *= 0.02
        if ".ln_" in f".{name}" and name.endswith("weight"):
            value += 1.0
        yield name, value


def batches(config: Config, seed: int = 1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Endless (inputs, targets), int64 (batch, context); tokens follow roughly Zipf's law, as words do."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, config.vocabulary + 1)
    frequency /= frequency.sum()
    while True:
        tokens = rng.choice(config.vocabulary, size=(config.batch, config.context + 1), p=frequency)
        yield np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
