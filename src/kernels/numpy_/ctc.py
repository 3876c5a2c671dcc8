"""Connectionist temporal classification: the loss of label sequences without an alignment, in the log space.

NOTE [ The lattice of labels ]
1. The labels of a sample, with a blank before, between and after them, are the states: 2 * S + 1 for S labels. A path
   stays in a state, goes to the next one, or skips a blank between two different labels.
2. ``alpha[t, s]`` is the log-probability of all beginnings that are in state s at time t, ``beta[t, s]`` that of all
   endings that start there; both count the emission at t. They are computed for a run of samples at once.
3. Backward computes ``alpha`` again: nothing but the losses is kept between the passes.

Source: Graves et al., Connectionist Temporal Classification, ICML 2006.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..executor import Array, parallel_slices, scratch

__all__ = ["ctc_loss", "ctc_loss_backward"]

_SAMPLES = 16  # of a tile


def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    losses: Array,
    *,
    blank: int = 0,
) -> None:
    """``losses`` (N,): minus the log-probabilities of the targets; infinite where no path is short enough.

    Args:
        log_probs: (T, N, C).
        targets: (N, S) int64, of which the first ``target_lengths`` count.
        input_lengths, target_lengths: (N,) int64.
        blank: the number of the blank.
    """

    def tile(where: slice) -> None:
        lattice = _Lattice.of(log_probs[:, where], targets[where], input_lengths[where], target_lengths[where], blank)
        alpha = lattice.first()
        lattice.finish(0, alpha, losses[where])
        for time in range(1, len(log_probs)):
            alpha = lattice.forward(time, alpha)
            lattice.finish(time, alpha, losses[where])

    losses[...] = np.where((input_lengths == 0) & (target_lengths == 0), 0, np.inf)
    if log_probs.size:
        parallel_slices(tile, len(losses), _SAMPLES)


def ctc_loss_backward(
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    losses: Array,
    grad_log_probs: Array,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
) -> None:
    """The gradient of `ctc_loss` for ``log_probs`` that are a soft-max's: it includes the derivative of that.

    It is ``exp(log_probs)`` minus the share of the paths that emit a class at a time, times ``grad`` (N,); 0 for times
    beyond the input's length, and with ``zero_infinity`` for samples whose loss is infinite.
    """

    def tile(where: slice) -> None:
        lattice = _Lattice.of(log_probs[:, where], targets[where], input_lengths[where], target_lengths[where], blank)
        alphas = scratch((len(log_probs), *lattice.labels.shape), log_probs.dtype)
        alphas[0] = lattice.first()
        for time in range(1, len(log_probs)):
            alphas[time] = lattice.forward(time, alphas[time - 1])
        beta = np.full(lattice.labels.shape, -np.inf, log_probs.dtype)
        upstream, loss = grad[where, None], losses[where, None]
        for time in reversed(range(len(log_probs))):
            beta = lattice.backward(time, beta)
            with np.errstate(invalid="ignore"):
                shares = np.exp(alphas[time] + beta - lattice.emissions(time) + loss)
            part = np.exp(lattice.log_probs[time])
            np.subtract.at(part, (np.arange(len(part))[:, None], lattice.labels), shares)
            part *= upstream
            part[np.isinf(loss[:, 0])] = 0 if zero_infinity else np.nan
            part[lattice.input_lengths <= time] = 0
            grad_log_probs[time, where] = part

    if log_probs.size:
        parallel_slices(tile, len(losses), _SAMPLES)


class _Lattice(NamedTuple):
    """A run of samples: ``labels`` (samples, states) are what each state emits, ``skips`` where it can skip to."""

    log_probs: Array
    labels: Array
    skips: Array
    input_lengths: Array
    target_lengths: Array

    @classmethod
    def of(cls, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int) -> _Lattice:
        samples, length = targets.shape
        labels = np.full((samples, 2 * length + 1), blank, np.int64)
        labels[:, 1::2] = np.where(np.arange(length) < target_lengths[:, None], targets, blank)
        skips = np.zeros(labels.shape, bool)
        skips[:, 3::2] = labels[:, 3::2] != labels[:, 1:-2:2]
        return cls(log_probs, labels, skips, input_lengths, target_lengths)

    def emissions(self, time: int) -> Array:
        """The log-probability of what each state emits at a time."""
        return np.take_along_axis(self.log_probs[time], self.labels, 1)

    def first(self) -> Array:
        """``alpha`` at the time 0."""
        alpha = np.full(self.labels.shape, -np.inf, self.log_probs.dtype)
        alpha[:, :2] = self.emissions(0)[:, :2]
        return alpha

    def forward(self, time: int, alpha: Array) -> Array:
        """``alpha`` at a time from that one before."""
        total = alpha.copy()
        total[:, 1:] = np.logaddexp(total[:, 1:], alpha[:, :-1])
        total[:, 2:] = np.logaddexp(total[:, 2:], np.where(self.skips[:, 2:], alpha[:, :-2], -np.inf))
        return total + self.emissions(time)

    def backward(self, time: int, beta: Array) -> Array:
        """``beta`` at a time from that one after."""
        total = beta.copy()
        total[:, :-1] = np.logaddexp(total[:, :-1], beta[:, 1:])
        total[:, :-2] = np.logaddexp(total[:, :-2], np.where(self.skips[:, 2:], beta[:, 2:], -np.inf))
        last = self.input_lengths == time + 1
        ends = 2 * self.target_lengths[last]
        total[last] = -np.inf
        total[last, ends] = 0
        total[last, np.maximum(ends - 1, 0)] = 0
        return total + self.emissions(time)

    def finish(self, time: int, alpha: Array, losses: Array) -> None:
        """The losses of the samples that end at a time."""
        last = np.flatnonzero(self.input_lengths == time + 1)
        ends = 2 * self.target_lengths[last]
        before = np.where(ends > 0, alpha[last, np.maximum(ends - 1, 0)], -np.inf)
        losses[last] = -np.logaddexp(alpha[last, ends], before)
