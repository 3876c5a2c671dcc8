"""Activations."""

from __future__ import annotations

from ...autograd.tensor import Tensor
from .. import functional as F
from .module import Module


class GELU(Module):
    """``x * Phi(x)``, Phi the normal distribution function.

    Args:
        approximate: ``"none"``, or ``"tanh"`` for the approximation by tanh.
    """

    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class ReLU(Module):
    """``max(x, 0)``; keeps one bit an element for backward."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input)
