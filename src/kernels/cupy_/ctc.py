"""Connectionist temporal classification: a launch for each time, over samples and states.

The note in the twin on NumPy says what the states are; each has a thread here.
"""

from __future__ import annotations

import cupy
import numpy as np

from .launch import WIDE, Array, kernel

__all__ = ["ctc_loss", "ctc_loss_backward"]

_HELP = """
__device__ inline W log_sum(W a, W b) {
  W most = a > b ? a : b, least = a > b ? b : a;
  return least == most ? most + (W)0.69314718055994530942 : (least < -1e300 ? most : most + log1p(exp(least - most)));
}
"""
_LATTICE = (
    "raw T log_probs, raw int64 targets, raw int64 input_lengths, raw int64 target_lengths, int64 samples,"
    " int64 classes, int64 states, int64 blank, float64 never"
)
# sample, state: what the thread is for; label, skip: what it emits, whether a path skips to it.
_STATE = """
    long long state = (long long)i % states, sample = (long long)i / states, length = states / 2;
    const long long *own = &targets[0] + sample * length;
    long long filled = target_lengths[sample];
    long long label = state % 2 && state / 2 < filled ? own[state / 2] : blank;
    T emission = log_probs[(time * samples + sample) * classes + label];
"""
_FORWARD = cupy.ElementwiseKernel(
    f"{_LATTICE}, raw T before, int64 time",
    "T y",
    f"""
    {_STATE}
    W total = (W)never;
    if (time == 0) {{
      if (state < 2) total = (W)0;
    }} else {{
      total = (W)before[i];
      if (state > 0) total = log_sum(total, (W)before[(long long)i - 1]);
      if (state > 2 && state % 2) {{
        long long last = state / 2 - 1 < filled ? own[state / 2 - 1] : blank;
        if (last != label) total = log_sum(total, (W)before[(long long)i - 2]);
      }}
    }}
    y = (T)(total + (W)emission);
    """,
    "stowgrad_ctc_forward",
    preamble=WIDE + _HELP,
)
_BACKWARD = cupy.ElementwiseKernel(
    f"{_LATTICE}, raw T after, int64 time",
    "T y",
    f"""
    {_STATE}
    W total = (W)never;
    if (input_lengths[sample] == time + 1) {{
      if (state == 2 * filled || state + 1 == 2 * filled) total = (W)0;
    }} else if (input_lengths[sample] > time + 1) {{
      total = (W)after[i];
      if (state + 1 < states) total = log_sum(total, (W)after[(long long)i + 1]);
      if (state + 2 < states && state % 2) {{
        long long next = state / 2 + 1 < filled ? own[state / 2 + 1] : blank;
        if (next != label) total = log_sum(total, (W)after[(long long)i + 2]);
      }}
    }}
    y = (T)(total + (W)emission);
    """,
    "stowgrad_ctc_backward",
    preamble=WIDE + _HELP,
)
_LOSS = cupy.ElementwiseKernel(
    f"{_LATTICE}, raw T alpha, int64 time",
    "T y",
    """
    long long filled = target_lengths[i], end = (long long)i * states + 2 * filled;
    if (input_lengths[i] == time + 1) {
      W total = (W)alpha[end];
      if (filled > 0) total = log_sum(total, (W)alpha[end - 1]);
      y = (T)-total;
    }
    """,
    "stowgrad_ctc_loss",
    preamble=WIDE + _HELP,
)
_GRADIENT = cupy.ElementwiseKernel(
    f"{_LATTICE}, raw T grad, raw T losses, raw T alpha, raw T beta, int64 time, bool zero_infinity",
    "T y",
    """
    long long klass = (long long)i % classes, sample = (long long)i / classes, length = states / 2;
    long long filled = target_lengths[sample];
    W loss = (W)losses[sample], log_prob = (W)log_probs[(time * samples + sample) * classes + klass], shares = 0;
    if (input_lengths[sample] <= time || (zero_infinity && loss == -(W)never)) {
      y = (T)0.0f;
    } else if (loss == -(W)never) {
      y = (T)(loss - loss);
    } else {
      for (long long state = 0; state <= 2 * filled; ++state) {
        long long label = state % 2 ? targets[sample * length + state / 2] : blank;
        long long place = sample * states + state;
        if (label == klass) shares += exp((W)alpha[place] + (W)beta[place] - log_prob + loss);
      }
      y = (T)((W)grad[sample] * (exp(log_prob) - shares));
    }
    """,
    "stowgrad_ctc_gradient",
    preamble=WIDE,
)


def _lattice(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int) -> Array:
    _, samples, classes = log_probs.shape
    arrays = (targets.reshape(-1), input_lengths, target_lengths)
    return (log_probs.reshape(-1), *arrays, samples, classes, 2 * targets.shape[1] + 1, blank, -np.inf)


@kernel
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
    losses.fill(np.inf)
    losses[(input_lengths == 0) & (target_lengths == 0)] = 0
    if log_probs.size == 0:
        return
    lattice = _lattice(log_probs, targets, input_lengths, target_lengths, blank)
    shape = (targets.shape[0], 2 * targets.shape[1] + 1)
    alpha, other = cupy.empty(shape, log_probs.dtype), cupy.empty(shape, log_probs.dtype)
    for time in range(len(log_probs)):
        _FORWARD(*lattice, other, time, alpha)
        _LOSS(*lattice, alpha, time, losses)
        alpha, other = other, alpha


@kernel
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
    if log_probs.size == 0:
        return
    lattice = _lattice(log_probs, targets, input_lengths, target_lengths, blank)
    times, shape = len(log_probs), (targets.shape[0], 2 * targets.shape[1] + 1)
    alphas = cupy.empty((times, *shape), log_probs.dtype)
    for time in range(times):
        _FORWARD(*lattice, alphas[max(time - 1, 0)], time, alphas[time])
    beta, other = cupy.full(shape, -np.inf, log_probs.dtype), cupy.empty(shape, log_probs.dtype)
    for time in range(times - 1, -1, -1):
        _BACKWARD(*lattice, beta, time, other)
        beta, other = other, beta
        _GRADIENT(*lattice, grad, losses, alphas[time], beta, time, zero_infinity, grad_log_probs[time])
