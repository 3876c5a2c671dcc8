"""Indexing, and writing by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import index_at, shape

from .case import Case, rand


def _two(op: Any) -> Any:
    """An op of `index_at` with two indices, each along one dimension."""
    return lambda *tensors: op(2)(*tensors, (1, 1))


def _merged(op: Any) -> Any:
    """One with an index along one dimension and one along two."""
    return lambda *tensors: op(2)(*tensors, (1, 2))


_I, _J = np.array([2, 0, -1]), np.array([[1], [0]])  # a place twice
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
    Case("index", lambda x, i: shape.gather(x, i).reshape(1), (rand(3), np.array(-1)), "one element"),
    Case("index_backward", lambda x, i: shape.gather_backward(x, i, (4, 3)), (rand(3, 3), np.array([0, 2, 2]))),
    Case("copy", lambda x, y: (x * 2.0).copy_(y), (rand(2, 3), rand(2, 3))),
    Case("copy", lambda x, y: (x * 2.0).copy_(y), (rand(2, 3), rand(3, 1)[:2]), "broadcast"),
    Case("index_many", _two(index_at.index_many), (rand(3, 2, 2), _I, _J)),
    Case("index_many", lambda x, i: x[i, :, i], (rand(3, 2, 3), _I), "apart"),
    Case("index_many", _merged(index_at.index_many), (rand(3, 2, 2), _I[:2], np.array([3, 1])), "two as one"),
    Case(
        "index_many_backward",
        lambda x, i, j: index_at.index_many_backward(2)(x, i, j, (1, 1), (3, 2)),
        (rand(2, 3), _I, _J),
    ),
    Case("index_put", _two(index_at.index_put), (rand(3, 4, 2), rand(2, 2), np.array([1, 0]), np.array([3, -1]))),
    Case("index_put", _two(index_at.index_put), (rand(3, 2, 2), rand(2), _I[:2], _J), "broadcast"),
    Case("index_put", _merged(index_at.index_put), (rand(3, 2, 2), rand(2), _I[:2], np.array([3, 1])), "two as one"),
    Case(
        "index_put", lambda x, y, i: index_at.index_put(1)(x.t(), y, i, (1,)), (rand(3, 4), rand(1), _J), "transposed"
    ),
    Case("index_put_accumulate", _two(index_at.index_put_accumulate), (rand(3, 2, 2), rand(3, 2), _I, _J)),
    Case(
        "index_put_accumulate",
        _merged(index_at.index_put_accumulate),
        (rand(3, 2, 2), rand(3), _I, _I % 3),
        "two as one",
    ),
]
