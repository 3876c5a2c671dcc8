"""Losses."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import loss

from .case import Case, rand

_TARGETS = np.array([0, 3, -100, 2, 4])

CASES = [
    Case("cross_entropy", loss.cross_entropy, (rand(5, 6), _TARGETS)),
    Case(
        "linear_cross_entropy",
        loss.linear_cross_entropy,
        (rand(5, 4), rand(6, 4), rand(6), _TARGETS),
        "bias",
    ),
    Case(
        "linear_cross_entropy",
        lambda x, w, t: loss.linear_cross_entropy(x, w, None, t),
        (rand(5, 4), rand(6, 4), _TARGETS),
        "no bias",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda x, w, b, t: loss.linear_cross_entropy_loss(x, w, b, t, 0.25),
        (rand(5, 4), rand(6, 4), rand(6), _TARGETS),
        "bias",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda x, w, t: loss.linear_cross_entropy_loss(x, w, None, t, 1.0),
        (rand(5, 4), rand(6, 4), _TARGETS),
        "no bias",
    ),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"cross_entropy_backward", "linear_cross_entropy_backward"}
