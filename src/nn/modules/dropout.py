"""Dropout."""

from __future__ import annotations

from ...autograd.tensor import Tensor
from .. import functional as F
from .module import Module


class Dropout(Module):
    """In training, zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        p: the probability.

    Raises:
        ValueError: if ``p`` is not between 0 and 1.
    """

    p: float

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        F.check_probability(p)
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
