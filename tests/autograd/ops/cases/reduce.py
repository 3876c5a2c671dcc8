"""Reductions."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import reduce, sum_to

from .case import Case, apart, rand

CASES = [
    Case("sum", reduce.sum, (rand(2, 3, 4),), "all"),
    Case("sum", lambda x: reduce.sum(x, (0, -1)), (rand(2, 3, 4),), "two"),
    Case("sum", lambda x: reduce.sum(x, 1, True), (rand(2, 3, 4),), "keepdim"),
    Case("sum", reduce.sum, (np.array(0.3),), "0-dim"),
    Case("mean", reduce.mean, (rand(2, 3, 4),), "all"),
    Case("mean", lambda x: reduce.mean(x, (1,), True), (rand(2, 3, 4),), "keepdim"),
    Case("amax", reduce.amax, (apart(2, 3, 4),), "all"),
    Case("amax", lambda x: reduce.amax(x, (0, 2), True), (apart(2, 3, 4),), "keepdim"),
    Case("sum_to", lambda x: sum_to.sum_to(x, (1, 4)), (rand(2, 3, 4),)),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"argmax"}
