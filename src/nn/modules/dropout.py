"""Dropout: of elements, of whole channels, and the forms for selu."""

from __future__ import annotations

from ...autograd.tensor import Tensor
from .. import functional as F
from .module import Module


class _DropoutNd(Module):
    """In training, something is dropped with a probability.

    Args:
        p: the probability.
        inplace: whether the result is written over the input.

    Raises:
        ValueError: if ``p`` is not between 0 and 1.
    """

    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        F.check_probability(p)
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        p: the probability.
        inplace: whether the result is written over the input.

    Raises:
        ValueError: if ``p`` is not between 0 and 1.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of ``(N, C, L)`` or ``(C, L)``."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of ``(N, C, H, W)``."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """`Dropout` that keeps mean and variance behind `SELU`: what is dropped becomes what selu tends to on the left."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
