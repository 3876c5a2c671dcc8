"""Sorting, selecting, and elements by number along a dimension."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import along, sort

from .case import Case, apart, rand

_ONCE = np.array([[2, 0], [1, 2], [0, 1]])
_RISING = np.array([[0, 0, 2], [1, 1, 1]])

CASES = [
    Case("sort", lambda x: sort.sort(x)[0], (apart(3, 5),), "last"),
    Case("sort", lambda x: sort.sort(x, 1, True)[0], (apart(2, 5, 3),), "middle, descending"),
    Case("sort", lambda x: sort.sort(x, 0)[0], (np.array(0.3),), "0-dim"),
    Case("topk", lambda x: sort.topk(x, 2)[0], (apart(3, 9),), "last"),
    Case("topk", lambda x: sort.topk(x, 2, 0, False)[0], (apart(4, 3),), "first, smallest"),
    Case("max", lambda x: sort.max(x, 1)[0], (apart(2, 3, 4),)),
    Case("max", lambda x: sort.max(x, 0, True)[0], (apart(3, 4),), "keepdim"),
    Case("max", lambda x: sort.max(x, 0)[0], (np.array(0.3),), "0-dim"),
    Case("min", lambda x: sort.min(x, 1)[0], (apart(2, 3, 4),)),
    Case("kthvalue", lambda x: sort.kthvalue(x, 2, 0)[0], (apart(4, 3),)),
    Case("median", sort.median, (apart(3, 4),)),
    Case("nanmedian", sort.nanmedian, (apart(3, 5),)),
    Case("median_dim", lambda x: sort.median_dim(x, 1)[0], (apart(2, 5, 3),)),
    Case("nanmedian_dim", lambda x: sort.nanmedian_dim(x, -1, True)[0], (apart(3, 4),)),
    Case("mode", lambda x: sort.mode(x, 0)[0], (apart(4, 3),)),
    Case("take_along", lambda x, i: along.take_along(x, i, 1, True), (rand(3, 4), _ONCE)),
    Case("take_along", lambda x, i: along.take_along(x, i, 1, False), (rand(2, 4), _RISING), "repeated"),
    Case("put_along", lambda x, i: along.put_along(x, i, (3, 4), 1), (rand(3, 2), _ONCE)),
    Case("add_along", lambda x, i: along.add_along(x, i, (2, 4), 1), (rand(2, 3), _RISING)),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"searchsorted", "bincount"}
