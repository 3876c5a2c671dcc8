"""Running sums and their kin, and products."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import scan

from .case import Case, apart, positive, rand

_ONE_ZERO = np.array([[0.5, 0.0, -1.5, 2.0], [1.0, 0.3, 0.7, -0.4]])
_TWO_ZEROS = np.array([[0.5, 0.0, -1.5, 0.0, 2.0], [0.0, 0.3, 0.0, -0.4, 0.0]])

CASES = [
    Case("cumsum", lambda x: scan.cumsum(x, 1), (rand(3, 5),), "last"),
    Case("cumsum", lambda x: scan.cumsum(x, 0, None, True), (rand(3, 5),), "from the end"),
    Case("cumsum", lambda x: scan.cumsum(x, 0), (np.array(0.3),), "0-dim"),
    Case("cumprod", lambda x: scan.cumprod(x, 1), (positive(2, 5, 3),), "middle"),
    Case("cumprod", lambda x: scan.cumprod(x, 1), (_ONE_ZERO,), "one zero"),
    Case("cumprod", lambda x: scan.cumprod(x, 1), (_TWO_ZEROS,), "zeros"),
    Case("cumprod", lambda x: scan.cumprod(x, 0), (np.array(0.3),), "0-dim"),
    Case("cummax", lambda x: scan.cummax(x, 1)[0], (apart(3, 6),), "last"),
    Case("cummax", lambda x: scan.cummax(x, 1)[0], (apart(2, 6, 3),), "middle"),
    Case("cummin", lambda x: scan.cummin(x, 0)[0], (apart(6, 3),), "first"),
    Case("logcumsumexp", lambda x: scan.logcumsumexp(x, 1), (rand(3, 5),), "last"),
    Case("logcumsumexp", lambda x: scan.logcumsumexp(x, 1, True), (rand(2, 5, 3),), "middle, from the end"),
    Case("prod", scan.prod, (positive(3, 4),), "all"),
    Case("prod", lambda x: scan.prod(x, 1, True), (positive(2, 3, 4),), "middle, keepdim"),
    Case("prod", lambda x: scan.prod(x, 1), (_ONE_ZERO,), "one zero"),
    Case("prod", lambda x: scan.prod(x, 1), (_TWO_ZEROS,), "zeros"),
    Case("prod", scan.prod, (np.array(0.3),), "0-dim"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"cumprod_backward", "prod_backward"}
