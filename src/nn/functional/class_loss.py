"""Losses of classes.

What all of them share: ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; another one raises ``ValueError``.
"""

from __future__ import annotations

import math
from typing import Any

from ...autograd.ops import loss, loss_linear, loss_nll, loss_soft
from ...autograd.ops.promotion import is_floating
from ...autograd.tensor import Tensor
from ._checks import check_reduction, check_tensors
from .linear import linear
from .loss import reduced

__all__ = ["cross_entropy", "linear_cross_entropy", "nll_loss"]

# From this many places a sample on, samples are taken one after the other, so that their logits need not be copied.
_MANY_PLACES = 256


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Minus the log-probability that logits give to the right class.

    Args:
        input: logits, ``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)``.
        target: class numbers: integers of the shape of ``input`` without ``C``; or the probabilities of the classes:
            floats of the shape of ``input``.
        weight: ``(C,)``, factors of the classes. With class numbers the mean is divided by the sum of those that occur.
        ignore_index: targets with this value add nothing to loss and gradient, and are not counted in the mean.
        reduction: see above.
        label_smoothing: what share of each target is spread evenly over all classes.

    Returns:
        A number, or for ``"none"`` the loss of each target.

    Raises:
        ValueError: for another reduction, or if the numbers of rows differ.
        IndexError: if a target is no class.
        RuntimeError: if targets are of the wrong type or shapes do not fit; for a smoothing that is not between 0 and
            1; if ``weight`` requires grad.

    Keeps the logits and one number a row; for probabilities these, too. With a large number of classes,
    `linear_cross_entropy` keeps far less.
    """
    check_tensors("cross_entropy", input=input, target=target)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.dim() and tuple(input.shape) == tuple(target.shape):
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    _check_shapes("cross_entropy", input, target)
    logits, rows = _as_rows(input, target)
    scale = _scale("cross_entropy", input, target, weight, ignore_index, reduction)
    losses: Tensor = loss.cross_entropy(logits, rows, weight, ignore_index, label_smoothing, scale)
    return losses if scale is not None or input.dim() == 2 else losses.reshape(tuple(target.shape))


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    if not is_floating(target.dtype):
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype}")
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    logits, probabilities = (_as_logits(x) for x in (input, target))
    losses: Tensor = loss_soft.soft_cross_entropy(logits, probabilities, weight, label_smoothing)
    if reduction == "mean" and losses.numel() == 0:
        losses = losses.sum() * math.nan
        return losses
    shape = (input.shape[0], *input.shape[2:]) if input.dim() > 1 else ()
    return reduced(losses.reshape(shape) if reduction == "none" else losses, reduction)


def _check_shapes(name: str, input: Tensor, target: Tensor) -> None:
    """Raise unless a target has the input's shape without classes."""
    shape = input._array.shape
    if len(shape) > 1 and target._array.shape == (shape[0], *shape[2:]):
        return
    if input.dim() > 1 and input.shape[0] != (target.shape[0] if target.dim() else 1):
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size"
            f" ({target.shape[0] if target.dim() else 1})."
        )
    expected = tuple(input.shape[:1]) + tuple(input.shape[2:]) if input.dim() > 1 else ()
    if input.dim() == 0 or tuple(target.shape) != expected:
        raise RuntimeError(
            f"{name}: expected the target to have the input's shape {list(input.shape)} without the class"
            f" dimension, got {list(target.shape)}"
        )


def _as_rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and targets as the op has them: (N, C) and (N,), or (N, C, L) and (N, L)."""
    if input.dim() == 2:
        return input, target
    logits = _as_logits(input)
    return logits, target.reshape(-1) if logits.dim() == 2 else target.reshape(logits.shape[0], logits.shape[2])


def _as_logits(input: Tensor) -> Tensor:
    """(C,) or (N, C, d1, ...) as (N, C) or (N, C, L)."""
    result: Tensor
    if input.dim() <= 2:
        return input if input.dim() == 2 else input.unsqueeze(0)
    places = math.prod(input.shape[2:])
    if places >= _MANY_PLACES:
        result = input.reshape(*input.shape[:2], places)
        return result
    classes_last = input.permute(0, *range(2, input.dim()), 1)
    result = classes_last.reshape(input.shape[0] * places, input.shape[1])
    return result


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probabilities of the right classes: `cross_entropy` without its soft-max.

    Args:
        input: log-probabilities, ``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)``.
        target: class numbers: integers of the shape of ``input`` without ``C``.
        weight, ignore_index, reduction: as for `cross_entropy`.

    Raises:
        ValueError, IndexError, RuntimeError: as `cross_entropy`.

    Keeps the targets, and the weights of the classes if there are some.
    """
    check_tensors("nll_loss", input=input, target=target)
    check_reduction(reduction)
    _check_shapes("nll_loss", input, target)
    scale = _scale("nll_loss", input, target, weight, ignore_index, reduction)
    result: Tensor = loss_nll.nll_loss(input, target, weight, ignore_index, scale)
    return result


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    options: Any = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)`` in chunks: all logits never exist at once.

    Args:
        input: ``(*, in_features)``.
        linear_weight: ``(C, in_features)``; or ``(C, d1, ..., in_features)`` for logits ``(N, C, d1, ...)``, which do
            exist at once.
        target: class numbers: integers of the shape ``(*)``. For ``(*, C)`` probabilities the logits exist at once.
        linear_bias: of the shape of ``linear_weight`` without its last dimension, or None.
        weight, reduction, label_smoothing: as for `cross_entropy`.
        ignore_index: as for `cross_entropy`, where None stands for -100; only for class numbers.
        z_loss: times the square of the log-sum-exp of each row's logits is added to its loss.
        options: taken for PyTorch's sake; the chunks are chosen here.

    Raises:
        ValueError, IndexError, RuntimeError: as `cross_entropy` and `linear`.

    Keeps the input and the gradients of input, weight and bias, which are computed while the logits are there; with
    ``reduction="none"`` input, weight and one number a row, and backward computes the logits again.

    >>> import stowgrad
    >>> from stowgrad.nn import functional as F
    >>> x, table = stowgrad.ones(4, 3), stowgrad.zeros(10, 3, requires_grad=True)
    >>> F.linear_cross_entropy(x, table, stowgrad.tensor([0, 1, 2, 3])).item()  # ln(10)
    2.3025...
    """
    check_tensors("linear_cross_entropy", input=input, linear_weight=linear_weight, target=target)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    _check_linear(input, linear_weight, linear_bias)
    leading, classes, places = tuple(input.shape[:-1]), linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if tuple(target.shape) == (*leading, classes, *places) and is_floating(target.dtype):
        if ignore_index is not None:
            raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
        return _by_logits(input, linear_weight, target, linear_bias, weight, reduction, -100, label_smoothing, z_loss)
    number = -100 if ignore_index is None else ignore_index
    if places:
        return _by_logits(input, linear_weight, target, linear_bias, weight, reduction, number, label_smoothing, z_loss)
    if leading != tuple(target.shape):
        raise ValueError(
            f"linear_cross_entropy: expected a target of the shape {list(leading)} for the input"
            f" {list(input.shape)}, got {list(target.shape)}"
        )
    rows = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
    arguments = (rows, linear_weight, linear_bias, target.reshape(-1), weight)
    terms = (number, label_smoothing, z_loss)
    counted = loss.counted_weight(target, weight, number)
    if reduction == "none" or counted == 0:
        losses = loss_linear.linear_cross_entropy(*arguments, *terms)
        return _reduced_rows(losses, target, weight, number, reduction)
    scale = 1.0 / counted if reduction == "mean" else 1.0
    return loss_linear.linear_cross_entropy_loss(*arguments, scale, *terms)  # type: ignore[no-any-return]


def _check_linear(input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None) -> None:
    if input.dim() < 1 or linear_weight.dim() < 2 or input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "linear_cross_entropy: expected equal input and linear_weight last dimensions (in_features), got"
            f" {list(input.shape)} and {list(linear_weight.shape)}"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != tuple(linear_weight.shape[:-1]):
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_bias shape {list(linear_weight.shape[:-1])}, got"
            f" {list(linear_bias.shape)}"
        )
    if linear_weight.dim() > 2 and input.dim() != 2:
        raise RuntimeError(
            f"linear_cross_entropy: K-dimensional loss defined by linear_weight shape {list(linear_weight.shape)}"
            f" requires batched input, (N, in_features), got {list(input.shape)}"
        )


def _by_logits(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    z_loss: float,
) -> Tensor:
    """The loss of all logits."""
    if z_loss:
        raise NotImplementedError("linear_cross_entropy: z_loss is for class numbers and a weight of two dimensions")
    outs = tuple(linear_weight.shape[:-1])
    flat = linear_weight.reshape(-1, input.shape[-1])
    logits = linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1))
    logits = logits.reshape(*input.shape[:-1], *outs)
    if len(outs) == 1 and logits.dim() > 2:  # the classes come last here
        logits, target = logits.reshape(-1, outs[0]), target.reshape(-1, outs[0])
    options: dict[str, Any] = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    losses = cross_entropy(logits, target, weight, reduction=reduction, **options)
    return losses.reshape(*input.shape[:-1]) if reduction == "none" and len(outs) == 1 else losses


def _scale(
    name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str
) -> float | None:
    """By how much the sum of the losses of the rows is scaled, None where it is not taken (see `_reduced_rows`)."""
    if reduction != "mean":
        return None if reduction == "none" else 1.0
    if weight is not None:  # it is read by class, before the op looks at it
        classes = input.shape[min(input.dim() - 1, 1)]
        loss.check_class_weight(name, classes, weight._array)
        loss.check_targets(name, target.numel(), classes, target._array, ignore_index)
    counted = loss.counted_weight(target, weight, ignore_index)
    return 1.0 / counted if counted else math.nan


def _reduced_rows(losses: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """The losses of the rows, reduced; the mean is over those that count (none at all: nan, as in PyTorch)."""
    result: Tensor = losses.reshape(tuple(target.shape)) if reduction == "none" else losses.sum()
    if reduction == "mean":
        counted = loss.counted_weight(target, weight, ignore_index)
        result = result / counted if counted else result * math.nan
    return result
