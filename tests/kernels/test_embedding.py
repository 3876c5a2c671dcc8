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


def bags(rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """A table, indices, where bags start (one of them is empty, one long), factors."""
    table, indices = rng.standard_normal((50, 6)), rng.integers(0, 50, 900)
    return table, indices, np.array([0, 3, 3, 700, 900]), rng.standard_normal(900)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_bags(weighted: bool, rng: np.random.Generator) -> None:
    table, indices, starts, factors = bags(rng)
    given = factors if weighted else None
    shares = factors if weighted else np.ones(900)
    out, rows = np.empty((4, 6)), np.empty(900, np.int64)
    kernels.embedding_bag(table, indices, starts, given, out)
    kernels.rows_of_bags(starts, rows)
    each = table[indices] * shares[:, None]
    np.testing.assert_array_equal(rows, np.repeat(np.arange(4), np.diff(starts)))
    np.testing.assert_allclose(out, [each[rows == bag].sum(0) for bag in range(4)], atol=1e-12)

    grad, by_table, by_factors = rng.standard_normal((4, 6)), np.empty_like(table), np.empty(900)
    kernels.embedding_backward(grad, indices, by_table, rows=rows, factors=given, by_frequency=True)
    right = np.zeros_like(table)
    np.add.at(right, indices, grad[rows] * shares[:, None])
    np.testing.assert_allclose(by_table, right / np.maximum(np.bincount(indices, minlength=50), 1)[:, None], atol=1e-12)
    kernels.embedding_bag_factors_backward(grad, table, indices, rows, by_factors)
    np.testing.assert_allclose(by_factors, (grad[rows] * table[indices]).sum(1), atol=1e-12)


def test_maxima_of_bags(rng: np.random.Generator) -> None:
    table, indices, starts, _ = bags(rng)
    out, chosen = np.empty((4, 6)), np.empty((4, 6), np.int64)
    kernels.embedding_bag_max(table, indices, starts, out, chosen, padding_idx=int(indices[0]))
    for bag in range(4):
        members = indices[starts[bag] : starts[bag + 1]]
        members = members[members != indices[0]]
        if members.size:
            np.testing.assert_array_equal(out[bag], table[members].max(0))
            np.testing.assert_array_equal(chosen[bag], members[table[members].argmax(0)])
        else:
            assert (out[bag] == 0).all()
            assert (chosen[bag] == -1).all()


@pytest.mark.parametrize("norm_type", [1.0, 2.0, np.inf])
def test_long_rows_are_scaled_down(norm_type: float, rng: np.random.Generator) -> None:
    table, indices = rng.standard_normal((20, 5)), np.array([[3, 3], [7, 0]])
    before = table.copy()
    table[0] *= 1e-3
    before[0] *= 1e-3
    kernels.renorm_rows(table, indices, max_norm=0.5, norm_type=norm_type)
    norms = np.linalg.norm(table, norm_type, axis=1)
    np.testing.assert_allclose(norms[[3, 7]], 0.5, rtol=1e-6)
    others = [row for row in range(20) if row not in (3, 7)]
    np.testing.assert_array_equal(table[others], before[others])
