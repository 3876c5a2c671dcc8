"""Losses: the functions of `functional`, which say what they compute, with their settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .linear import Linear
from .module import Module


class Loss(Module):
    """What all losses have.

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


class WeightedLoss(Loss):
    """A loss with a buffer of weights."""

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)


class L1Loss(Loss):
    """Mean absolute error: `functional.l1_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(Loss):
    """Mean squared error: `functional.mse_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ValueError: for another reduction.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """Absolute error, squared near 0: `functional.smooth_l1_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        beta: where the one becomes the other.
    """

    beta: float

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """Squared error, absolute far from 0: `functional.huber_loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        delta: where the one becomes the other.
    """

    delta: float

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, int | float):
            raise TypeError(f"delta must be a float or int, got: {type(delta).__name__}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# -- of probabilities --------------------------------------------------------------------------------------------------


class CrossEntropyLoss(WeightedLoss):
    """Cross-entropy of logits and classes: `functional.cross_entropy`.

    Args:
        weight: of each class.
        ignore_index: targets with this value add nothing to loss and gradient.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: how much of the probability is spread over all classes.

    Raises:
        ValueError: for another reduction.
    """

    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(WeightedLoss):
    """`CrossEntropyLoss` behind a `Linear`, whose results, the logits, never exist at once.

    Args:
        in_features: size of the input's last dimension.
        num_classes: the number of classes.
        out_features: further dimensions of the target.
        bias: whether the `Linear` has one.
        device, dtype: of its parameters.
        reduction, weight, label_smoothing: as of `CrossEntropyLoss`.
        ignore_index: the same; None for -100 where the target holds class numbers.
        options: taken for PyTorch's sake.

    Raises:
        RuntimeError: for a weight of another length, or a smoothing that is no part.
        ValueError: for another reduction.
    """

    linear: Linear
    num_classes: int
    out_features: tuple[int, ...]
    ignore_index: int | None
    label_smoothing: float

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(*shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features},"
            f" bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index},"
            f" label_smoothing={self.label_smoothing}, options={self.options}"
        )


class NLLLoss(WeightedLoss):
    """Minus the logarithm of the target's probability: `functional.nll_loss`.

    Args:
        weight: of each class.
        ignore_index: targets with this value add nothing to loss and gradient.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    ignore_index: int

    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction=reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class PoissonNLLLoss(Loss):
    """Minus the logarithm of a Poisson probability: `functional.poisson_nll_loss`.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: whether Stirling's term is added.
        eps: added to a rate before its logarithm.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(Loss):
    """Minus the logarithm of a normal density: `functional.gaussian_nll_loss`.

    Args:
        full: whether the constant is added.
        eps: the least variance.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class KLDivLoss(Loss):
    """The Kullback-Leibler divergence: `functional.kl_div`.

    Args:
        reduction: ``"mean"``, ``"batchmean"``, ``"sum"`` or ``"none"``.
        log_target: whether the target is a logarithm too.
    """

    log_target: bool

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction="sum" if reduction == "batchmean" else reduction)
        self.reduction = reduction
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(WeightedLoss):
    """Cross-entropy of two classes, from a probability: `functional.binary_cross_entropy`.

    Args:
        weight: factors of the elements.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """`BCELoss` behind a sigmoid: `functional.binary_cross_entropy_with_logits`.

    Args:
        weight: factors of the elements.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: factors of the positive terms.
    """

    pos_weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class CTCLoss(Loss):
    """Minus the logarithm of the probability of a sequence, however it is aligned: `functional.ctc_loss`.

    Args:
        blank: the class that stands for nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        zero_infinity: whether impossible sequences add nothing.
    """

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        settings = self.blank, self.reduction, self.zero_infinity
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, *settings)
