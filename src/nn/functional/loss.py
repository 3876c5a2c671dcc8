"""Losses of input and target, element by element.

What all of them share: ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; another one raises ``ValueError``. Input
and target stay as they are for backward, and nothing else is kept.
"""

from __future__ import annotations

import warnings

from ...autograd.frames import user_level
from ...autograd.ops import pointwise_loss
from ...autograd.ops.pointwise_loss import PointwiseLoss
from ...autograd.ops.sum_to import expand
from ...autograd.record import broadcast_shapes
from ...autograd.tensor import Tensor
from ._checks import check_reduction, check_tensors

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "smooth_l1_loss",
]


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Squared differences: their mean, their sum, or (``"none"``) all of them.

    Args:
        input, target: of one shape; others broadcast, with a warning.
        reduction: see above.
        weight: of the shape of the input: factors of the elements. The mean is divided by their sum.

    Raises:
        ValueError: for another reduction, or a weight of another shape.
        RuntimeError: if the shapes do not broadcast.

    Keeps input and target.
    """
    return _of_difference(pointwise_loss.mse_loss, input, target, reduction, 0.0, weight, weighted_mean=True)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Absolute differences; arguments, errors and what is kept are those of `mse_loss`."""
    check_tensors("l1_loss", input=input, target=target)
    if "c" in (input.dtype.kind, target.dtype.kind):
        check_reduction(reduction)
        return reduced((input - target).abs(), reduction)
    return _of_difference(pointwise_loss.l1_loss, input, target, reduction, 0.0, weight, weighted_mean=True)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """``0.5 * d**2 / beta`` for differences ``d`` below ``beta``, else ``|d| - 0.5 * beta``.

    Args:
        input, target: of one shape; others broadcast, with a warning.
        reduction: see above.
        beta: 0 makes it `l1_loss`.

    Raises:
        ValueError: for another reduction.
        RuntimeError: for a negative ``beta``, or if the shapes do not broadcast.

    Keeps input and target.
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    op = pointwise_loss.smooth_l1_loss if beta else pointwise_loss.l1_loss
    return _of_difference(op, input, target, reduction, beta, None)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """``0.5 * d**2`` for differences ``d`` up to ``delta``, else ``delta * (|d| - 0.5 * delta)``.

    Args:
        input, target: of one shape; others broadcast, with a warning.
        reduction: see above.
        delta: where the parabola becomes a line.
        weight: of the shape of the input: factors of the elements.

    Raises:
        ValueError: for another reduction, or a weight of another shape.
        RuntimeError: if ``delta`` is not positive, or the shapes do not broadcast.

    Keeps input and target.
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _of_difference(pointwise_loss.huber_loss, input, target, reduction, delta, weight)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))`` of probabilities; logarithms are at least -100.

    Args:
        input: probabilities.
        target: of the same shape.
        weight: factors of the elements, which broadcast.
        reduction: see above.

    Raises:
        ValueError: for another reduction or shape.
        RuntimeError: if an input is not between 0 and 1, or the dtypes differ; if ``weight`` requires grad.

    Keeps the arguments.
    """
    check_tensors("binary_cross_entropy", input=input, target=target)
    check_reduction(reduction)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}) is"
            " deprecated. Please ensure they have the same size."
        )
    if input.dtype != target.dtype:
        raise RuntimeError(f"binary_cross_entropy: Found dtype {target.dtype} but expected {input.dtype}")
    result: Tensor = pointwise_loss.binary_cross_entropy(input, target, weight, None, 0.0, reduction)
    return result


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of ``sigmoid(input)``, without overflow.

    Args:
        input: of any shape.
        target: of the same shape.
        weight: factors of the elements, which broadcast.
        reduction: see above.
        pos_weight: factors of the part of positive targets, which broadcast.

    Raises:
        ValueError: for another reduction or shape.
        RuntimeError: if ``weight`` or ``pos_weight`` requires grad.

    Keeps the arguments.
    """
    check_tensors("binary_cross_entropy_with_logits", input=input, target=target)
    check_reduction(reduction)
    if input._array.shape != target._array.shape:
        raise ValueError(f"Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})")
    op = pointwise_loss.binary_cross_entropy_with_logits
    result: Tensor = op(input, target, weight, pos_weight, 0.0, reduction)
    return result


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target * (log(target) - input)``, the divergence of ``exp(input)`` from ``target``.

    Args:
        input: logarithms of probabilities.
        target: probabilities, or their logarithms if ``log_target``; of a shape that broadcasts with the input's.
        reduction: see above, or ``"batchmean"``: the sum divided by the length of the first dimension.
        log_target: see ``target``.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if the shapes do not broadcast.

    Warns for ``"mean"``, which is not what the name says. Keeps input and target.
    """
    check_tensors("kl_div", input=input, target=target)
    if reduction != "batchmean":
        check_reduction(reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides"
            " only by the batch size, and aligns with the KL div math definition.",
            stacklevel=user_level(),
        )
    met = _broadcast("kl_div", input, target)
    by_batch = reduction == "batchmean"
    result: Tensor = pointwise_loss.kl_div(*met, None, None, float(log_target), "sum" if by_batch else reduction)
    return result / input.shape[0] if by_batch and input.dim() else result


def _of_difference(
    op: PointwiseLoss,
    input: Tensor,
    target: Tensor,
    reduction: str,
    parameter: float,
    weight: Tensor | None,
    weighted_mean: bool = False,
) -> Tensor:
    """A loss of broadcast operands; weights are factors that may require grad."""
    check_tensors(op.name, input=input, target=target)
    check_reduction(reduction)
    if input._array.shape != target._array.shape:
        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}):"
            " the two are broadcast, which is rarely meant. Give them the same size.",
            stacklevel=user_level(),
        )
    met = _broadcast(op.name, input, target)
    if weight is None:
        return op(*met, None, None, parameter, reduction)  # type: ignore[no-any-return]
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError("Weights and input must have the same size.")
    losses: Tensor = op(*met, None, None, parameter, "none") * weight
    if reduction == "mean" and weighted_mean:
        losses = losses.sum() / weight.sum()
        return losses
    return reduced(losses, reduction)


def _broadcast(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if input._array.shape == target._array.shape:
        return input, target
    shape = broadcast_shapes(name, tuple(input.shape), tuple(target.shape))
    first, second = (x if tuple(x.shape) == shape else expand(x, shape) for x in (input, target))
    return first, second


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Losses of elements, reduced."""
    if reduction == "mean":
        losses = losses.mean()
    elif reduction == "sum":
        losses = losses.sum()
    return losses
