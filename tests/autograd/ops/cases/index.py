"""Indexing, and writing by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import overwrite, shape

from .case import Case, rand


def _put(x: Any, values: Any, indices: Any) -> Any:
    return overwrite.index_put(x, values, indices, 2)


_MASK = np.array([[True, False, True], [False, True, True]])

CASES = [
    Case("slice", lambda x: x[1:, ::2], (rand(3, 5),), "slices"),
    Case("slice", lambda x: x[..., -1], (rand(3, 5),), "an integer"),
    Case("slice", lambda x: x[1, 2], (rand(3, 5),), "one element"),
    Case("slice", lambda x: x[:, None, ::-1], (rand(3, 5),), "new dimension, backwards"),
    Case(
        "split_backward",
        lambda x, y: shape.SplitBackward(2)(
            x, y, (2, 5), ((slice(0, 2), slice(0, 1)), (slice(0, 2), slice(3, 5))), False
        ),
        (rand(2, 1), rand(2, 2)),
    ),
    Case("slice_backward", lambda x: shape.index_backward(x, (slice(1, 3),), (5, 2)), (rand(2, 2),)),
    Case("index", shape.gather, (rand(4, 3), np.array([[0, 2], [2, -1]])), "integers, one twice"),
    Case("index", shape.gather, (rand(2, 3), _MASK), "bools"),
    Case("index_backward", lambda x, i: shape.gather_backward(x, i, (4, 3)), (rand(3, 3), np.array([0, 2, 2]))),
    Case("copy", lambda x, y: (x * 2.0).copy_(y), (rand(2, 3), rand(2, 3))),
    Case("copy", lambda x, y: (x * 2.0).copy_(y), (rand(2, 3), rand(3, 1)[:2]), "broadcast"),
    Case("index_put", _put, (rand(3, 4, 2), rand(2, 2), np.array([1, 7]))),
    Case("index_put", _put, (rand(3, 4, 2), rand(2), np.array([[1], [7]])), "broadcast"),
]
