"""The negative log-likelihood of classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...memory import SMALL_BYTES
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from .loss import check_class_weight, check_targets, class_weight, reduced_rows, with_sum


class NllLoss(FewOp):
    """Minus the input at the right class of each row, times the weight of the class, or ``scale`` times their sum.

    Called with the input, (C,), (N, C) or (N, C, *places), class numbers, weights of the classes (or None), the number
    of rows to leave out, and ``scale``, None for the losses of the rows.
    """

    name = "nll_loss"
    inputs = 3
    auxiliary = 1
    saves = (Slot("target", 1, needed_for=(0,)), Slot("weight", 2, needed_for=(0,)))
    flat = True

    def __call__(
        self, x: Any, targets: Any, weight: Any = None, ignore_index: int = -100, scale: float | None = None
    ) -> Any:
        return apply_together(self, x, targets, class_weight(self.name, weight, x), ignore_index, scale)

    def infer(self, x: Any, targets: Any, weight: Any, ignore_index: int, scale: float | None) -> tuple[Spec, ...]:
        classes = x.shape[min(x.ndim - 1, 1)]
        check_targets(self.name, targets.size, classes, targets, ignore_index)
        check_class_weight(self.name, classes, weight)
        rows = targets.shape, x.dtype
        return (rows,) if scale is None else (((), x.dtype), rows)

    def kernel(self, k: Any, x: Any, targets: Any, weight: Any, *rest: Any) -> None:
        if self.fills((x, targets, weight, *rest[:2]), rest[2:]):
            return
        ignore_index, scale, *outs = rest
        k.nll_loss(x, targets, outs[-1], weight=weight, ignore_index=ignore_index)
        if scale is not None:
            reduced_rows(k, outs[1], scale, outs[0])

    def small_marked(
        self, x: Any, targets: Any, weight: Any, ignore_index: int, scale: float | None
    ) -> tuple[Any, ...] | None:
        if not _is_plain(targets, weight, ignore_index):
            return None
        losses = x[np.arange(len(targets)), targets]
        return with_sum(np.negative(losses, losses), scale)

    def attrs(self, x: Any, targets: Any, weight: Any, *rest: Any) -> Any:
        return x.shape, *rest

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(nll_loss_backward, grads[0], *saved, *node.op_attrs), None, None


def _is_plain(targets: Any, weight: Any, ignore_index: int) -> bool:
    """Whether there is nothing but rows and their targets."""
    return weight is None and targets.ndim == 1 and not np.count_nonzero(targets == ignore_index)


class NllLossBackward(FewOp):
    """Zeros with minus the gradient of each row at its right class.

    Called with the gradients of the rows, or of their reduced sum, then as `NllLoss` from the class numbers on, with
    the shape of its input before the number of rows to leave out.
    """

    name = "nll_loss_backward"
    inputs = 3
    auxiliary = 1
    saves = (Slot("target", 1, needed_for=(0,)), Slot("weight", 2, needed_for=(0,)))

    def infer(self, grad: Any, targets: Any, weight: Any, shape: tuple[int, ...], *rest: Any) -> tuple[Spec, ...]:
        whole = shape, grad.dtype
        return (whole,) if rest[1] is None else (whole, (targets.shape, grad.dtype))

    def kernel(self, k: Any, grad: Any, targets: Any, weight: Any, *rest: Any) -> None:
        if self.fills((grad, targets, weight, *rest[:3]), rest[3:]):
            return
        _, ignore_index, scale, *outs = rest
        if scale is not None:
            k.multiply(grad, scale, outs[1])
            grad = outs[1]
        k.nll_loss_backward(grad, targets, outs[0], weight=weight, ignore_index=ignore_index)

    def takes_few(self, args: Sequence[Any]) -> bool:
        grad, size = args[0], math.prod(args[3])
        return type(grad) is np.ndarray and grad.dtype.itemsize >= 4 and 0 < size * grad.dtype.itemsize < SMALL_BYTES

    def small_marked(
        self, grad: Any, targets: Any, weight: Any, shape: tuple[int, ...], ignore_index: int, scale: float | None
    ) -> tuple[Any, ...] | None:
        if not _is_plain(targets, weight, ignore_index):
            return None
        out = np.zeros(shape, grad.dtype)
        out[np.arange(len(targets)), targets] = -grad if scale is None else grad * -scale
        return (out,) if scale is None else (out, None)

    def attrs(self, grad: Any, targets: Any, weight: Any, shape: tuple[int, ...], *rest: Any) -> Any:
        return rest

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(nll_loss, grads[0], *saved, *node.op_attrs), None, None


nll_loss = NllLoss()
nll_loss_backward = NllLossBackward()
