"""Negative log-likelihoods of distributions.

What all of them share: ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; another one raises ``ValueError``.
"""

from __future__ import annotations

import math

from ...autograd.creation import ones_like
from ...autograd.ops.elementwise import where
from ...autograd.tensor import Tensor
from ._checks import check_reduction, check_tensors
from .distance import held_above
from .loss import reduced

__all__ = ["gaussian_nll_loss", "poisson_nll_loss"]


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The loss of a target that is Poisson distributed.

    Args:
        input: the expectation, or its logarithm if ``log_input``.
        target: what was counted.
        log_input: whether the loss is ``exp(input) - target * input``; else ``input - target * log(input + eps)``.
        full: whether Stirling's approximation of ``log(target!)`` is added where the target is above 1.
        eps: see ``log_input``.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
    """
    check_tensors("poisson_nll_loss", input=input, target=target)
    check_reduction(reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        above = target > 1
        safe: Tensor = where(above, target, 2.0)
        stirling = safe * safe.log() - safe + 0.5 * (safe * (2 * math.pi)).log()
        loss = loss + where(above, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The loss of a target that is normally distributed: ``0.5 * (log(var) + (input - target)**2 / var)``.

    Args:
        input: the expectation.
        target: a sample, of a shape that broadcasts.
        var: the variance: of the shape of the input, or with one dimension of size 1, or without the last one; or a
            number.
        full: whether the constant ``0.5 * log(2 * pi)`` is added.
        eps: the least that the variance counts as; its gradient is as if it were not held there.
        reduction: see above.

    Raises:
        ValueError: for another reduction, for a negative variance or one of another shape.
    """
    check_tensors("gaussian_nll_loss", input=input, target=target)
    spread: Tensor = var if isinstance(var, Tensor) else ones_like(input) * float(var)
    negative: Tensor = spread < 0
    if spread.device.type != "meta" and bool(negative.any()):
        raise ValueError("var has negative entry/entries")
    own, shape = tuple(spread.shape), tuple(input.shape)
    if own != shape:
        if shape[:-1] == own:
            spread = spread.unsqueeze(-1)
        elif len(own) != len(shape) or sum(b for a, b in zip(shape, own, strict=True) if a != b) != 1:
            raise ValueError(f"var is of incorrect size: {list(own)} for an input of size {list(shape)}")
    check_reduction(reduction)
    spread = held_above(spread, eps)
    loss = 0.5 * (spread.log() + (input - target) ** 2 / spread)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
