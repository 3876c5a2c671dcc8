"""Cross-entropy of logits and probabilities of the classes (the formula stands in the twin on NumPy)."""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel
from .softmax import logsumexp

__all__ = ["soft_cross_entropy", "soft_cross_entropy_backward"]

_SHARES = "T target, T weight, float64 hit, float64 spread"
_SHARE = "((W)target * (W)hit + (W)spread) * (W)weight"
_LOSSES = cupy.ReductionKernel(
    f"T x, T lse, {_SHARES}",
    "T y",
    f"{_SHARE} * ((W)lse - (W)x)",
    "a + b",
    "y = (T)a",
    "0",
    "stowgrad_soft_cross_entropy",
    reduce_type="W",
    preamble=WIDE,
)
_TOTALS = cupy.ReductionKernel(
    _SHARES, "T y", _SHARE, "a + b", "y = (T)a", "0", "stowgrad_sum_of_shares", reduce_type="W", preamble=WIDE
)
_GRADIENT = cupy.ElementwiseKernel(
    f"T grad, T x, T lse, T total, {_SHARES}",
    "T y",
    f"y = (T)((W)grad * (exp((W)x - (W)lse) * (W)total - {_SHARE}))",
    "stowgrad_soft_cross_entropy_backward",
    preamble=WIDE,
)
_TARGET_GRADIENT = cupy.ElementwiseKernel(
    "T grad, T x, T lse, T weight, float64 hit",
    "T y",
    "y = (T)((W)grad * (W)hit * (W)weight * ((W)lse - (W)x))",
    "stowgrad_soft_cross_entropy_backward_target",
    preamble=WIDE,
)


@kernel
def soft_cross_entropy(
    logits: Array,
    target: Array,
    losses: Array,
    lse: Array,
    *,
    weight: Array | None = None,
    label_smoothing: float = 0.0,
) -> None:
    """``losses`` and ``lse`` (rows,) of ``logits`` and ``target`` (rows, classes), any strides.

    ``weight`` (classes,) are factors of the classes. Half precision has its ``lse`` in float32.
    """
    if logits.size == 0:
        losses.fill(0)
        return
    x, t, w = _exact(lse, logits, target, weight)
    logsumexp(x, lse, axis=1)
    found = _LOSSES(x, lse[:, None], t, w, *_numbers(label_smoothing, x), axis=1)
    cupy.copyto(losses, found, casting="unsafe")


@kernel
def soft_cross_entropy_backward(
    grad_rows: Array,
    logits: Array,
    target: Array,
    lse: Array,
    grad_logits: Array | None,
    grad_target: Array | None,
    *,
    weight: Array | None = None,
    label_smoothing: float = 0.0,
) -> None:
    """The gradients of `soft_cross_entropy` that are asked for: those that are not None; any strides."""
    if logits.size == 0:
        return
    x, t, w = _exact(lse, logits, target, weight)
    hit, spread = _numbers(label_smoothing, x)
    upstream, sums = grad_rows.astype(lse.dtype, copy=False)[:, None], lse[:, None]
    if grad_target is not None:
        found = cupy.empty(x.shape, x.dtype)
        _TARGET_GRADIENT(upstream, x, sums, w, hit, found)
        cupy.copyto(grad_target, found, casting="unsafe")
    if grad_logits is not None:
        found = cupy.empty(x.shape, x.dtype)
        totals = _TOTALS(t, w, hit, spread, axis=1, keepdims=True)
        _GRADIENT(upstream, x, sums, totals, t, w, hit, spread, found)
        cupy.copyto(grad_logits, found, casting="unsafe")


def _exact(lse: Array, logits: Array, target: Array, weight: Array | None) -> tuple[Array, Array, Array]:
    """Logits, target and weights in the dtype of the log-sum-exps."""
    factors = cupy.full((1,), 1, lse.dtype) if weight is None else weight.astype(lse.dtype, copy=False)
    return logits.astype(lse.dtype, copy=False), target.astype(lse.dtype, copy=False), factors


def _numbers(label_smoothing: float, x: Array) -> tuple[float, float]:
    return 1 - label_smoothing, label_smoothing / x.shape[1]
