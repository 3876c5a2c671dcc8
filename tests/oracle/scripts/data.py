"""Data and first weights of the scripts, made with NumPy so that both libraries begin with the same."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 20


def numbers(*sizes: int, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal float64 numbers."""
    return np.random.default_rng(seed).standard_normal(sizes) * scale


def set_weights(torch: Any, module: Any, seed: int = 0) -> None:
    """Give a module's parameters the same small numbers in both libraries."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            values = numbers(*parameter.shape, seed=seed + place, scale=0.3)
            parameter.copy_(torch.from_numpy(values))
