"""Losses."""

from __future__ import annotations

from ...autograd.tensor import Tensor
from .. import functional as F
from .module import Module


class CrossEntropyLoss(Module):
    """Cross-entropy of logits and class indices: `functional.cross_entropy`.

    Args:
        ignore_index: targets with this value add nothing to loss and gradient.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for another reduction.
    """

    ignore_index: int
    reduction: str

    def __init__(self, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        F.check_reduction(reduction)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(input, target, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(Module):
    """Mean squared error: `functional.mse_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for another reduction.
    """

    reduction: str

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        F.check_reduction(reduction)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)
