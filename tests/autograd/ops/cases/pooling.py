"""Pooling, and what goes with it."""

from __future__ import annotations

from typing import Any

import numpy as np

import stowgrad.nn.functional as F
from stowgrad.autograd.ops import pooling

from .case import Case, apart, rand


def _first(function: Any) -> Any:
    return lambda *tensors: function(*tensors)[0]


_PLACES = np.array([[[0, 3], [2, 1]]], np.uint8)
_WINDOW = ((4, 4), (2, 2), (2, 2), (0, 0), (1, 1))
_REACHING = ((3, 3), (2, 2), (1, 1), (0, 0), (1, 1))
_NUMBERS = np.array([[[0, 5, 5]], [[2, 3, 1]]])

CASES = [
    Case("avg_pool", lambda x: F.avg_pool1d(x, 3, 2), (rand(2, 3, 8),), "one dimension"),
    Case("avg_pool", lambda x: F.avg_pool2d(x, 3, 2, 1), (rand(2, 2, 5, 6),), "padding"),
    Case(
        "avg_pool",
        lambda x: F.avg_pool2d(x, (3, 2), 2, 1, True, False),
        (rand(1, 2, 5, 6),),
        "padding left out, ceil mode",
    ),
    Case("avg_pool", lambda x: F.avg_pool3d(x, 2, 1, divisor_override=3), (rand(2, 3, 3, 4),), "divisor, one sample"),
    Case("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (rand(2, 2, 7, 4),)),
    Case("max_pool", lambda x: F.max_pool1d(x, 3, 2, 1), (apart(2, 2, 7),), "one dimension"),
    Case("max_pool", lambda x: F.max_pool2d(x, 2), (apart(2, 2, 4, 6),), "side by side"),
    Case("max_pool", lambda x: F.max_pool2d(x, 3, 1, 1, (1, 2), True), (apart(2, 5, 6),), "overlapping, dilated"),
    Case("max_pool", lambda x: F.max_pool3d(x, 2, 2, 1), (apart(1, 2, 3, 4, 3),), "three dimensions"),
    Case("max_pool_backward", lambda x, p: pooling.max_pool_backward(x, p, *_WINDOW), (rand(1, 2, 2), _PLACES)),
    Case(
        "max_pool_backward",
        lambda x, p: pooling.max_pool_backward(x, p, *_REACHING),
        (rand(1, 2, 2), _PLACES),
        "overlapping",
    ),
    Case(
        "max_pool_gather",
        lambda x, p: pooling.max_pool_gather(x, p, (2, 2), *_REACHING[1:]),
        (rand(1, 3, 3), _PLACES),
    ),
    Case("adaptive_max_pool", lambda x: F.adaptive_max_pool2d(x, (3, 5)), (apart(2, 2, 7, 4),)),
    Case("adaptive_max_pool", lambda x: F.adaptive_max_pool1d(x, 3), (apart(2, 7),), "one dimension"),
    Case(
        "fractional_max_pool",
        _first(lambda x, s: pooling.fractional_max_pool(x, s.detach(), (3, 2), (2, 3))),
        (apart(2, 2, 7, 6), rand(2, 2, 2, low=0.0).astype(np.float64)),
        "no gradient",
    ),
    Case(
        "fractional_max_pool",
        lambda x: F.fractional_max_pool2d(x, (2, 3), (6, 4), return_indices=True)[0],
        (apart(2, 2, 7, 6),),
        "every window",
    ),
    Case("plane_gather", lambda x, i: pooling.plane_gather(x, i, 2), (rand(2, 2, 3), _NUMBERS)),
    Case("plane_scatter_add", lambda x, i: pooling.plane_scatter_add(x, i, (2, 3)), (rand(2, 1, 3), _NUMBERS)),
    Case(
        "max_unpool",
        lambda x, i: pooling.max_unpool(x, i, (2, 4)),
        (rand(2, 1, 3), np.array([[[0, 5, 3]], [[2, 7, 1]]])),
    ),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"max_pool_indices"}
