"""Reductions."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import reduce, sum_to, variance

from .case import Case, apart, rand

CASES = [
    Case("sum", reduce.sum, (rand(2, 3, 4),), "all"),
    Case("sum", lambda x: reduce.sum(x, (0, -1)), (rand(2, 3, 4),), "two"),
    Case("sum", lambda x: reduce.sum(x, 1, True), (rand(2, 3, 4),), "keepdim"),
    Case("sum", reduce.sum, (np.array(0.3),), "0-dim"),
    Case("mean", reduce.mean, (rand(2, 3, 4),), "all"),
    Case("mean", lambda x: reduce.mean(x, (1,), True), (rand(2, 3, 4),), "keepdim"),
    Case("nansum", reduce.nansum, (rand(2, 3, 4),), "all"),
    Case("nansum", lambda x: reduce.nansum(x, (0, 2), True), (rand(2, 3, 4),), "keepdim"),
    Case("amax", reduce.amax, (apart(2, 3, 4),), "all"),
    Case("amax", lambda x: reduce.amax(x, (0, 2), True), (apart(2, 3, 4),), "keepdim"),
    Case("amin", reduce.amin, (apart(2, 3, 4),), "all"),
    Case("amin", lambda x: reduce.amin(x, (0, 2), True), (apart(2, 3, 4),), "keepdim"),
    Case("sum_to", lambda x: sum_to.sum_to(x, (1, 4)), (rand(2, 3, 4),)),
    Case("var", variance.var, (rand(2, 3, 4),), "all"),
    Case("var", lambda x: variance.var(x, (0, 2), True, 0), (rand(2, 3, 4),), "two, keepdim"),
    Case("std", lambda x: variance.std(x, 1), (rand(2, 3, 4),), "one"),
    Case("std", variance.std, (rand(3, 4).T,), "transposed"),
    Case("var_mean", lambda x: variance.var_mean(x, 1), (rand(2, 3, 4),)),
    Case("std_mean", lambda x: variance.std_mean(x, -1, True), (rand(3, 4),)),
    Case("std_mean", lambda x: variance.std_mean(x, 0)[1], (rand(3, 4),), "the mean alone"),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"argmax", "argmin", "all", "any"}
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"var_backward"}
