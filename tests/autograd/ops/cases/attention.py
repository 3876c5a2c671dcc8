"""Attention."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import attention

from .case import Case, rand

_MASK = np.array([[True, False, True], [False, True, True]])

CASES = [
    Case(
        "scaled_dot_product_attention",
        lambda q, k, v: attention.attention(q, k, v, None, True),
        (rand(2, 2, 4, 3), rand(2, 2, 4, 3), rand(2, 2, 4, 5)),
        "causal",
    ),
    Case(
        "scaled_dot_product_attention",
        lambda q, k, v: attention.attention(q, k, v, None, False, 0.7),
        (rand(1, 2, 3, 3), rand(1, 2, 5, 3), rand(1, 2, 5, 3)),
        "scaled",
    ),
    Case(
        "scaled_dot_product_attention",
        attention.attention,
        (rand(1, 2, 2, 3), rand(1, 2, 3, 3), rand(1, 2, 3, 3), _MASK),
        "bool mask",
    ),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"scaled_dot_product_attention_backward"}
