from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array


@pytest.mark.parametrize("shape", [(0,), (), (5,), (30, 400)])
def test_embedding(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    weight, indices = rng.standard_normal((50, 30)), rng.integers(0, 50, shape)
    for table in (weight, np.asfortranarray(weight)):
        out = np.empty((*shape, 30))
        kernels.embedding(table, indices, out)
        np.testing.assert_array_equal(out, weight[indices])


@pytest.mark.parametrize("wrong", [-1, 50])
def test_an_index_out_of_range_is_named(wrong: int) -> None:
    with pytest.raises(IndexError, match=f"index {wrong} is out of range for a table with 50 rows"):
        kernels.embedding(np.zeros((50, 2)), np.array([3, wrong]), np.empty((2, 2)))


@pytest.mark.parametrize(
    ("rows", "columns", "count"),
    [(50, 30, 0), (1, 5, 300), (50, 30, 2000), (5000, 30, 2000), (3, 2000, 700), (2, 1, 600_000)],
)
def test_embedding_backward(
    rows: int,
    columns: int,
    count: int,
    rng: np.random.Generator,
    same_on_threads: Callable[[Callable[[], Any]], Any],
) -> None:
    indices, grad = rng.integers(0, rows, count), rng.standard_normal((count, columns))
    expected = np.zeros((rows, columns))
    np.add.at(expected, indices, grad)

    def run() -> Array:
        grad_w = np.full((rows, columns), np.nan)
        kernels.embedding_backward(grad, indices, grad_w)
        return grad_w

    np.testing.assert_allclose(same_on_threads(run), expected, atol=1e-9)
    if count:
        padded = np.empty((rows, columns))
        kernels.embedding_backward(np.asfortranarray(grad), indices, padded, padding_idx=0)
        expected[0] = 0
        np.testing.assert_allclose(padded, expected, atol=1e-9)
