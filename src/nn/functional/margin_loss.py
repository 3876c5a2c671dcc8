"""Losses with a margin.

What all of them share: ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; another one raises ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.creation import arange
from ...autograd.ops.cast import constant, copy_array_to
from ...autograd.ops.elementwise import where
from ...autograd.ops.extremes import minimum
from ...autograd.ops.scatter import gather_along
from ...autograd.tensor import Tensor
from ...memory import CPU
from ._checks import check_reduction, check_tensors
from .activation import logsigmoid, relu
from .distance import pairwise_distance
from .loss import reduced

__all__ = [
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        input: distances.
        target: 1 or -1, of a shape that broadcasts.
        margin: from which distance on there is no loss.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
    """
    check_tensors("hinge_embedding_loss", input=input, target=target)
    check_reduction(reduction)
    apart: Tensor = where(target != 1, (margin - input).clamp_min(0), 0.0)
    return reduced(apart + where(target != -1, input, 0.0), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``.

    Args:
        input1, input2: what is ranked.
        target: 1 where the first is to be larger, -1 where the second is.
        margin: by how much.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if the numbers of dimensions differ.
    """
    check_tensors("margin_ranking_loss", input1=input1, input2=input2, target=target)
    check_reduction(reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss: All input tensors should have same dimension but got sizes:"
            f" input1: {list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)}"
        )
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """``log(1 + exp(-target * input))``, without overflow.

    Args:
        input: of any shape.
        target: 1 or -1, of the same shape.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if the shapes do not broadcast.
    """
    check_tensors("soft_margin_loss", input=input, target=target)
    check_reduction(reduction)
    return reduced(-logsigmoid(target * input), reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes but the right one of ``max(0, margin - input[target] + input) ** p``.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: class numbers, ``(N,)`` or ``()``.
        p: 1 or 2.
        margin: by how much the right class is to be larger.
        weight: ``(C,)``, factors of the right classes.
        reduction: see above.

    Raises:
        ValueError: for another reduction or ``p``, or a weight of another number of dimensions.
        RuntimeError: if the shapes do not fit.
        IndexError: if a target is no class.
    """
    check_tensors("multi_margin_loss", input=input, target=target)
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if input.dim() > 2 or tuple(target.reshape(-1).shape) != tuple(input.shape[:-1] or (1,)):
        raise RuntimeError(
            f"multi_margin_loss: expected an input (N, C) or (C,) and a target for each row, got {list(input.shape)}"
            f" and {list(target.shape)}"
        )
    rows, numbers = input.reshape(-1, input.shape[-1] if input.dim() else 1), target.reshape(-1, 1)
    classes = rows.shape[1]
    if target.dtype != np.int64:
        raise RuntimeError(f"multi_margin_loss: expected a target of int64, got {target.dtype}")
    if weight is not None and weight.shape[0] != classes:
        raise RuntimeError(f"multi_margin_loss: inconsistent weight size, expected {classes}, got {weight.shape[0]}")
    if numbers.numel() and input.device.type != "meta" and bool(((numbers < 0) | (numbers >= classes)).any()):
        raise IndexError(f"multi_margin_loss: target out of range: there are {classes} classes")
    found: Tensor = relu(margin - gather_along(rows, numbers, 1) + rows)
    if p == 2:
        found = found * found
    if weight is not None:
        found = found * weight[numbers]
    others = arange(classes, device=input.device) != numbers
    losses: Tensor = where(others, found, 0.0).sum(1) / classes
    return reduced(losses.reshape(tuple(target.shape)) if input.dim() < 2 else losses, reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """The sum of ``max(0, 1 - (input[t] - input[i]))`` over right classes t and others i, divided by all.

    Args:
        input: ``(N, C)`` or ``(C,)``.
        target: class numbers in the shape of the input; those from the first -1 on do not count.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if the shapes do not fit.

    Keeps ``C * C`` numbers a row.
    """
    check_tensors("multilabel_margin_loss", input=input, target=target)
    check_reduction(reduction)
    if input.dim() > 2 or tuple(input.shape) != tuple(target.shape):
        raise RuntimeError(
            f"multilabel_margin_loss: expected input and target (N, C) or (C,), got {list(input.shape)} and"
            f" {list(target.shape)}"
        )
    classes = input.shape[-1] if input.dim() else 1
    rows = input.reshape(-1, classes)
    given = copy_array_to(target.reshape(-1, classes)._array, CPU, "temporary")[0]
    if ((given < -1) | (given >= classes)).any():
        raise RuntimeError(f"multilabel_margin_loss: expected targets from -1 to {classes - 1}")
    counted = np.logical_and.accumulate(given >= 0, axis=1)
    numbers = np.where(counted, given, 0)
    right = np.zeros(given.shape, bool)
    np.logical_or.at(right, (np.arange(len(given))[:, None], numbers), counted)
    pairs = constant(counted[:, :, None] & ~right[:, None, :], input.device)
    picked: Tensor = gather_along(rows, constant(numbers.astype(np.int64), input.device), 1)
    losses: Tensor = where(pairs, relu(1 - picked.unsqueeze(2) + rows.unsqueeze(1)), 0.0).sum((1, 2)) / classes
    return reduced(losses if input.dim() == 2 else losses.reshape(()), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (the last dimension) of the binary cross-entropy of logits.

    Args:
        input: ``(*, C)``.
        target: 0 or 1, of the same shape.
        weight: factors of the elements, which broadcast.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
    """
    check_tensors("multilabel_soft_margin_loss", input=input, target=target)
    check_reduction(reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_with_distance_loss` with the distance `pairwise_distance` of ``p`` and ``eps``."""

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    options: dict[str, Any] = {"margin": margin, "swap": swap, "reduction": reduction}
    return triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=distance, **options)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + distance(anchor, positive) - distance(anchor, negative))``.

    Args:
        anchor, positive, negative: of the same number of dimensions.
        distance_function: `pairwise_distance` if None.
        margin: by how much the negative is to be further away.
        swap: whether the distance of positive and negative counts for the second one if it is smaller.
        reduction: see above.

    Raises:
        ValueError: for another reduction, or a margin that is not positive.
        RuntimeError: if the numbers of dimensions differ.
    """
    check_tensors("triplet_margin_with_distance_loss", anchor=anchor, positive=positive, negative=negative)
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got:"
            f" anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """``1 - cos`` of two vectors where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1, input2: ``(N, D)`` or ``(D,)``.
        target: 1 or -1, ``(N,)`` or ``()``.
        margin: up to which cosine there is no loss.
        reduction: see above.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if the numbers of dimensions do not fit.
    """
    check_tensors("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    check_reduction(reduction)
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.dim() == input2.dim() == target.dim() + 1:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found"
            f" inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    dim = target.dim()
    squares = [(x * x).sum(dim) + 1e-12 for x in (input1, input2)]
    cosine = (input1 * input2).sum(dim) / (squares[0] * squares[1]).sqrt()
    alike: Tensor = where(target == 1, 1 - cosine, 0.0)
    return reduced(alike + where(target == -1, (cosine - margin).clamp_min(0), 0.0), reduction)
