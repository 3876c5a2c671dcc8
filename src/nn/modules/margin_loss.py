"""Losses that ask for a margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...autograd.tensor import Tensor
from .. import functional as F
from .distance import PairwiseDistance
from .loss import Loss, WeightedLoss

Distance: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class _MarginLoss(Loss):
    margin: float
    _default = 0.0

    def __init__(self, margin: float | None = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.margin = self._default if margin is None else margin


class HingeEmbeddingLoss(_MarginLoss):
    """A distance for what is alike, the lack of a margin for what is not: `functional.hinge_embedding_loss`.

    Args:
        margin: 1 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    _default = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """How much one of two inputs lacks to be above the other by a margin: `functional.margin_ranking_loss`.

    Args:
        margin: 0 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """By the angle between two inputs: `functional.cosine_embedding_loss`.

    Args:
        margin: 0 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(Loss):
    """``log(1 + exp(-target * input))``: `functional.soft_margin_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(WeightedLoss):
    """How much the right class lacks to be above each other one by a margin: `functional.multi_margin_loss`.

    Args:
        p: the power, 1 or 2.
        margin: the margin.
        weight: of each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for another power, or a weight that is no vector.
    """

    p: int
    margin: float

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, *, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction=reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(Loss):
    """`MultiMarginLoss` with several right classes: `functional.multilabel_margin_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """The mean of the cross-entropies of all classes: `functional.multilabel_soft_margin_loss`.

    Args:
        weight: of each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


def _check_positive(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(Loss):
    """How much something lacks to be nearer to its like than to another by a margin: `functional.triplet_margin_loss`.

    Args:
        margin: the margin.
        p: the exponent of the distance's norm.
        eps: added to the differences.
        swap: whether the distance between like and other counts, if it is the smaller one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for a margin that is not positive.
    """

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        _check_positive("TripletMarginLoss", margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Loss):
    """`TripletMarginLoss` with a distance of one's own: `functional.triplet_margin_with_distance_loss`.

    Args:
        distance_function: the distance of two tensors, `PairwiseDistance` by default.
        margin: the margin.
        swap: whether the distance between like and other counts, if it is the smaller one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for a margin that is not positive.
    """

    margin: float
    swap: bool

    def __init__(
        self,
        *,
        distance_function: Distance | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_positive("TripletMarginWithDistanceLoss", margin)
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
