"""Connectionist temporal classification: of a soft-max, whose derivative the gradient includes."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops.ctc import ctc_loss
from stowgrad.autograd.ops.softmax import log_softmax

from .case import Case, rand

_TARGETS, _INPUTS, _LENGTHS = np.array([[1, 1, 2], [3, 2, 1], [2, 0, 0]]), np.array([6, 4, 5]), np.array([3, 2, 0])

CASES = [
    Case(
        "ctc_loss",
        lambda x, t, i, n: ctc_loss(log_softmax(x, 2), t, i, n, 0, False),
        (rand(6, 3, 4), _TARGETS, _INPUTS, _LENGTHS),
    ),
    Case(
        "ctc_loss",
        lambda x, t, i, n: ctc_loss(log_softmax(x, 2), t, i, n, 3, True),
        (rand(6, 3, 4), _TARGETS % 3, _INPUTS, _LENGTHS),
        "another blank",
    ),
]
FUSED = {"ctc_loss_backward"}
