"""Losses of elements."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import pointwise_loss as losses

from .case import Case, apart, positive, rand

_INSIDE = {"low": 0.1, "high": 0.9}


def _cases(op, x, target, parameter=0.0):
    """All reductions, and layouts."""
    found = [
        Case(
            op.name,
            lambda x, t, reduction=reduction: op(x, t, None, None, parameter, reduction),
            (x, target),
            f"{parameter} {reduction}",
        )
        for reduction in ("mean", "sum", "none")
    ]
    return [
        *found,
        Case(op.name, lambda x, t: op(x.t(), t.t(), None, None, parameter), (x, target), f"{parameter} transposed"),
    ]


_ZERO = rand(3, 4) * 0
# Integers take no part in the check of derivatives; the op casts them.
_WEIGHT, _POSITIVE = np.arange(1, 13).reshape(3, 4), np.array([2, 1, 3, 1])


CASES = [
    *_cases(losses.mse_loss, rand(3, 4), rand(3, 4)),
    *_cases(losses.l1_loss, apart(3, 4), _ZERO),
    *_cases(losses.huber_loss, apart(3, 4), _ZERO, 0.45),
    *_cases(losses.smooth_l1_loss, apart(3, 4), _ZERO, 0.45),
    *_cases(losses.binary_cross_entropy, rand(3, 4, **_INSIDE), rand(3, 4, **_INSIDE)),
    *_cases(losses.binary_cross_entropy_with_logits, apart(3, 4), rand(3, 4, **_INSIDE)),
    Case(
        "binary_cross_entropy",
        losses.binary_cross_entropy,
        (rand(3, 4, **_INSIDE), rand(3, 4, **_INSIDE), _WEIGHT),
        "weight",
    ),
    Case(
        "binary_cross_entropy_with_logits",
        losses.binary_cross_entropy_with_logits,
        (apart(3, 4), rand(3, 4, **_INSIDE), _WEIGHT, _POSITIVE),
        "weights",
    ),
    *_cases(losses.kl_div, rand(3, 4), positive(3, 4)),
    *_cases(losses.kl_div, rand(3, 4), rand(3, 4), 1.0),
]
FUSED = {f"{name}_backward" for name in {case.op for case in CASES}}
