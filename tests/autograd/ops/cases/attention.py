"""Attention."""

from __future__ import annotations

import numpy as np

import stowgrad
from stowgrad.autograd.ops import attention

from .case import Case, rand

_MASK = np.array([[True, False, True], [False, True, True]])
_UNSEEN = np.array([[True, False, True], [False, False, False]])


def _dropped(*args, **keywords):
    """Attention with dropout that draws the same every time."""
    return attention.attention(*args, **keywords, generator=stowgrad.Generator().manual_seed(5))


def _case(function, shapes, label, *more):
    return Case("scaled_dot_product_attention", function, (*(rand(*shape) for shape in shapes), *more), label)


_SMALL = ((1, 2, 2, 3), (1, 2, 3, 3), (1, 2, 3, 3))
_GROUPED = ((2, 4, 3, 2), (2, 2, 4, 2), (2, 2, 4, 3))

CASES = [
    Case(
        "scaled_dot_product_attention",
        lambda x: attention.attention(x, x, x, None, True),
        (rand(1, 2, 4, 3),),
        "the same thrice",
    ),
    _case(
        lambda q, k, v: attention.attention(q, k, v, None, True),
        ((2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 5)),
        "causal",
    ),
    _case(
        lambda q, k, v: attention.attention(q, k, v, None, False, 0.7),
        ((1, 2, 3, 3), (1, 2, 5, 3), (1, 2, 5, 3)),
        "scaled",
    ),
    _case(lambda q, k, v: attention.attention(q, k, v, None, True), ((1, 2, 20, 2),) * 3, "more than few scores"),
    _case(attention.attention, _SMALL, "bool mask", _MASK),
    _case(attention.attention, _SMALL, "rows without keys", _UNSEEN),
    _case(attention.attention, _SMALL, "added mask", rand(2, 3)),
    _case(attention.attention, _GROUPED, "mask of the batches", rand(2, 1, 1, 4)),
    _case(attention.attention, _GROUPED, "mask of the heads", rand(4, 3, 4)),
    _case(attention.attention, _GROUPED, "mask of everything", rand(2, 4, 3, 4)),
    _case(lambda q, k, v: attention.attention(q, k, v, None, True), _GROUPED, "shared heads"),
    _case(lambda q, k, v: _dropped(q, k, v, None, True, p=0.3), _GROUPED, "dropout"),
    _case(lambda q, k, v, m: _dropped(q, k, v, m, p=0.5), _GROUPED, "dropout, mask", rand(1, 4, 1, 4)),
]
NOT_DIFFERENTIABLE = {"scaled_dot_product_attention_dropped"}
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"scaled_dot_product_attention_backward"}
