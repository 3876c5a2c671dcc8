"""Elements by number and by mask: gathered, written, added, folded."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import masked, scatter

from .case import Case, apart, rand

_INDEX = np.array([[0, 2, 1], [2, 2, 0]])  # along the first dimension of three: numbers twice in a column
_COLUMN = np.array([[0, 1], [1, 1], [3, 0]])  # along the second dimension of four, smaller than its tensor
_ZEROS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])  # one, two and three of them in a column
_LINES = np.array([[[0, 2], [3, 2]], [[1, 1], [1, 0]], [[3, 3], [0, 3]]])  # along the second dimension of four
_ROWS = np.array([2, 0, 2])
_CROWD = np.arange(40) % 2
_MASK = np.array([[True, False, True], [False, True, True]])


def _fold(name: str, include_self: bool) -> Case:
    return Case(
        "scatter_reduce",
        lambda x, i, y: scatter.scatter_reduce(x, i, y, 0, name, include_self),
        (apart(3, 3), _INDEX, apart(2, 3) + 0.03),
        f"{name}, {'with' if include_self else 'without'} self",
    )


CASES = [
    Case("gather", lambda x, i: scatter.gather_along(x, i, 0), (rand(3, 3), _INDEX)),
    Case("gather", lambda x, i: scatter.gather_along(x, i, 1), (rand(3, 4), _COLUMN), "smaller index"),
    Case("gather", lambda x, i: scatter.gather_along(x, i, 1), (rand(3, 4, 2), _LINES), "lines"),
    Case("gather_backward", lambda x, i: scatter.gather_along_backward(x, i, 0, (3, 4)), (rand(2, 3), _INDEX)),
    Case(
        "gather_backward",
        lambda x, i: scatter.gather_along_backward(x, i, 1, (3, 4, 2)),
        (rand(3, 2, 2), _LINES),
        "lines",
    ),
    Case("scatter", lambda x, i, y: scatter.scatter(x, i, y, 0), (rand(3, 3), _INDEX[:1], rand(1, 3))),
    Case("scatter", lambda x, i: scatter.scatter(x, i, 0.5, 1), (rand(3, 4), _COLUMN), "number"),
    Case("scatter_add", lambda x, i, y: scatter.scatter_add(x, i, y, 0), (rand(3, 4), _INDEX, rand(2, 3))),
    Case("scatter_add", lambda x, i, y: scatter.scatter_add(x, i, y, 0), (rand(3, 3), _INDEX, rand(2, 3)), "as wide"),
    *(_fold(name, include_self) for name in ("prod", "amin", "amax") for include_self in (True, False)),
    Case(
        "scatter_reduce",
        lambda x, i, y: scatter.scatter_reduce(x, i, y, 0, "prod", True),
        (apart(2, 3), np.zeros((3, 3), np.int64), apart(3, 3) * _ZEROS),
        "prod, zeros",
    ),
    Case("index_select", lambda x, i: scatter.index_select(x, i, 1), (rand(2, 3, 2), _ROWS)),
    Case("index_select", lambda x, i: scatter.index_select(x, i, 0), (rand(3, 2), _ROWS), "rows"),
    Case("index_select", lambda x, i: scatter.index_select(x, i, 0), (rand(2, 3), _CROWD), "a crowd"),
    Case(
        "index_select_backward",
        lambda x, i: scatter.index_select_backward(x, i, 1, (2, 4, 2)),
        (rand(2, 3, 2), _ROWS),
    ),
    Case(
        "index_select_backward",
        lambda x, i: scatter.index_select_backward(x, i, 0, (4, 2)),
        (rand(3, 2), _ROWS),
        "rows",
    ),
    Case("index_add", lambda x, i, y: scatter.index_add(x, i, y, 0, 1), (rand(4, 3), _ROWS, rand(3, 3)), "once"),
    Case("index_add", lambda x, i, y: scatter.index_add(x, i, y, 0, 1), (rand(2, 1), _CROWD, rand(40, 1)), "a crowd"),
    Case("index_add", lambda x, i, y: scatter.index_add(x, i, y, 0, -1.5), (rand(4, 2), _ROWS, rand(3, 2))),
    Case("index_copy", lambda x, i, y: scatter.index_copy(x, i, y, 1), (rand(2, 4), _ROWS[:2], rand(2, 2))),
    Case("index_fill", lambda x, i: scatter.index_fill(x, i, 2.0, 0), (rand(4, 2), _ROWS), "number"),
    Case(
        "index_fill",
        lambda x, i, y: scatter.index_fill(x, i, y, 0),
        (rand(4, 2), _ROWS, rand(1)[0:1].reshape(())),
        "tensor",
    ),
    Case("masked_scatter", masked.masked_scatter, (rand(2, 3), _MASK, rand(5))),
]
NOT_DIFFERENTIABLE = {"nonzero"}
