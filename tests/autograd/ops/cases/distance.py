"""Distances."""

from __future__ import annotations

from stowgrad.autograd.ops import distance

from .case import Case, apart

_GRID = apart(9, 3)  # no two numbers of one row or of two are alike, and no two distances
_ROWS, _OTHERS = _GRID[:4] + 0.017, _GRID[4:] ** 3

CASES = [
    Case("cdist", distance.cdist, (_ROWS, _OTHERS), "p = 2"),
    Case("cdist", lambda x, y: distance.cdist(x, y, 1.0), (_ROWS, _OTHERS), "p = 1"),
    Case("cdist", lambda x, y: distance.cdist(x, y, 1.5), (_ROWS, _OTHERS), "p = 1.5"),
    Case("cdist", lambda x, y: distance.cdist(x, y, 3.0), (_ROWS, _OTHERS), "p = 3"),
    Case("cdist", lambda x, y: distance.cdist(x, y, float("inf")), (_ROWS, _OTHERS), "p = inf"),
    Case("cdist", lambda x: distance.cdist(x, x), (_ROWS,), "the same twice"),
    Case("cdist", distance.cdist, (apart(2, 1, 4, 3) + 0.02, apart(3, 2, 3)), "batches"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"cdist_backward"}
