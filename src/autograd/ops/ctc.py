"""Connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...memory import CPU
from ..dispatch import Op
from ..record import Do, Slot, Spec
from .cast import constant, copy_array_to
from .elementwise import add, exp, mul, neg, where
from .recompose import differentiated
from .scatter import gather_along
from .shape import cat, index, reshape
from .softmax import logsumexp

# In place of minus infinity where sums are differentiated: the difference of two of them is a number.
_NEVER = -1e30


class CtcLoss(Op):
    """Minus the log-probability of each sample's labels over all alignments; the inputs and the losses are saved.

    Called with log-probabilities (T, N, C) that are a log-soft-max's, labels (N, S), lengths of inputs and labels (N,),
    the number of the blank, and whether samples with an infinite loss have no gradient. The gradient includes
    the derivative of the soft-max, as PyTorch's does.

    Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
    """

    name = "ctc_loss"
    inputs = 4
    saves = (
        Slot("log_probs", 0),
        Slot("targets", 1),
        Slot("input_lengths", 2),
        Slot("target_lengths", 3),
        Slot("result", 0, output=True),
    )

    def infer(self, log_probs: Any, targets: Any, input_lengths: Any, *rest: Any) -> tuple[Spec, ...]:
        if log_probs.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise NotImplementedError(f"ctc_loss: not implemented for {log_probs.dtype}; use float32 or float64")
        return ((log_probs.shape[1:2], log_probs.dtype),)

    def kernel(self, k: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> None:
        blank, _, losses = rest
        k.ctc_loss(log_probs, targets, input_lengths, target_lengths, losses, blank=blank)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(ctc_loss_backward, grads[0], *saved, *node.op_attrs), None, None, None

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        log_probs, targets, *lengths, losses = saved
        blank, zero_infinity = node.op_attrs
        inputs, outputs = map(_on_host, lengths)
        states = _States(_on_host(targets), inputs, outputs, blank, log_probs._storage.device)
        grad = grads[0]
        if zero_infinity:
            finite = constant(np.isfinite(_on_host(losses)), log_probs._storage.device)
            grad = where(finite, grad, 0.0)
        (by_paths,) = differentiated(states.losses, (log_probs,), (True,), grad)
        counted = constant(states.counted(len(log_probs._array)).astype(log_probs._array.dtype), states.device)
        by_softmax = mul(mul(exp(log_probs), counted), reshape(grad, (1, -1, 1)))
        return add(by_paths, by_softmax), None, None, None


def _on_host(tensor: Any) -> Any:
    return copy_array_to(tensor._array, CPU, "temporary")[0]


class _States:
    """The states of samples, on the host, and the losses with plain ops (the note in the kernels)."""

    def __init__(self, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, device: Any) -> None:
        length = targets.shape[1]
        self.input_lengths, self.target_lengths, self.device = input_lengths, target_lengths, device
        self.labels = np.full((len(targets), 2 * length + 1), blank, np.int64)
        self.labels[:, 1::2] = np.where(np.arange(length) < target_lengths[:, None], targets, blank)
        self.skips = np.zeros(self.labels.shape, bool)
        self.skips[:, 3::2] = self.labels[:, 3::2] != self.labels[:, 1:-2:2]

    def counted(self, times: int) -> Any:
        """Which times count, (T, N, 1)."""
        return (np.arange(times)[:, None] < self.input_lengths)[..., None]

    def losses(self, log_probs: Any) -> Any:
        """The loss of each sample."""
        states = self.labels.shape[1]
        labels = constant(self.labels, self.device)
        skips = constant(self.skips, self.device)
        nowhere = constant(np.full((len(self.labels), min(states, 2)), _NEVER, log_probs._array.dtype), self.device)
        start = constant(np.broadcast_to(np.arange(states) < 2, self.labels.shape).copy(), self.device)
        alpha = where(start, gather_along(index(log_probs, (0,)), labels, 1), _NEVER)
        for time in range(1, len(log_probs._array)):
            one = cat([index(nowhere, (slice(None), slice(0, 1))), index(alpha, (slice(None), slice(0, -1)))], 1)
            ways = [alpha, one]
            if states > 2:
                two = cat([nowhere, index(alpha, (slice(None), slice(0, -2)))], 1)
                ways.append(where(skips, two, _NEVER))
            total = add(_log_sum(ways), gather_along(index(log_probs, (time,)), labels, 1))
            goes_on = constant((self.input_lengths > time)[:, None], self.device)
            alpha = where(goes_on, total, alpha)
        ends = 2 * self.target_lengths[:, None]
        last = gather_along(alpha, constant(ends.astype(np.int64), self.device), 1)
        before = gather_along(alpha, constant(np.maximum(ends - 1, 0).astype(np.int64), self.device), 1)
        total = _log_sum([last, where(constant(ends > 0, self.device), before, _NEVER)])
        losses = neg(reshape(total, (len(ends),)))
        return where(constant(self.input_lengths > 0, self.device), losses, 0.0)


def _log_sum(terms: list[Any]) -> Any:
    """The logarithm of the sum of exponentials of matrices."""
    shape = (*terms[0]._array.shape, 1)
    return logsumexp(cat([reshape(term, shape) for term in terms], 2), (2,), False)


class CtcLossBackward(Op):
    """The fused gradient of the log-probabilities."""

    name = "ctc_loss_backward"
    inputs = 6

    def infer(self, grad: Any, log_probs: Any, *rest: Any) -> tuple[Spec, ...]:
        return ((log_probs.shape, log_probs.dtype),)

    def kernel(self, k: Any, grad: Any, log_probs: Any, *rest: Any) -> None:
        targets, input_lengths, target_lengths, losses, blank, zero_infinity, out = rest
        arrays = (grad, log_probs, targets, input_lengths, target_lengths, losses, out)
        k.ctc_loss_backward(*arrays, blank=blank, zero_infinity=zero_infinity)


ctc_loss = CtcLoss()
ctc_loss_backward = CtcLossBackward()
