"""Outer products and sums of weighted rows, beside sums in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels.executor import runs_alone
from stowgrad.kernels.numpy_ import rank_one
from stowgrad.kernels.numpy_.row_tiles import ColumnSums, rows_of_a_tile

from .support import Array, strided_like

SHAPES = [(0, 3), (3, 0), (1, 1), (31, 5), (32, 288), (33, 289), (200, 2), (1000, 300), (7, 200_000), (4099, 64)]
DTYPES = pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-14)])


@pytest.mark.parametrize("shape", SHAPES)
@DTYPES
def test_outer(shape: tuple[int, int], dtype: str, tolerance: float, rng: np.random.Generator) -> None:
    column, row = rng.standard_normal(shape[0]).astype(dtype), rng.standard_normal(shape[1]).astype(dtype)
    out = np.empty(shape, dtype)
    rank_one.outer(column, row, out)
    np.testing.assert_allclose(out, np.outer(column.astype(float), row.astype(float)), rtol=tolerance)


def test_outer_of_what_is_not_finite_is_so_where_it_belongs() -> None:
    out = np.empty((3, 2), "float32")
    rank_one.outer(np.array([np.inf, np.nan, 1], "float32"), np.array([-2, np.inf], "float32"), out)
    np.testing.assert_array_equal(out, [[-np.inf, np.inf], [np.nan, np.nan], [-2, np.inf]])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@DTYPES
def test_sums_of_weighted_rows(
    shape: tuple[int, int], weighted: bool, dtype: str, tolerance: float, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(shape).astype(dtype)
    weights = rng.standard_normal(shape[0]).astype(dtype) if weighted else None
    out = np.full(shape[1], np.nan, dtype)
    with rank_one.one_thread_adds(shape[1]):
        rank_one.sum_of_weighted_rows(x, weights, out)
    terms = x.astype(float) * (1 if weights is None else weights[:, None])
    bound = tolerance * np.abs(terms).sum(0)
    assert (np.abs(out - terms.sum(0)) <= bound).all()


def test_runs_of_short_rows_are_added_on_one_thread() -> None:
    assert runs_alone(1, rank_one.LONGEST_ALONE, rank_one._RUN)
    assert not runs_alone(1, rank_one.LONGEST_ALONE + 1, rank_one._RUN)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(50, 20), (300, 1000), (3000, 700)])
def test_threads_do_not_change_sums_over_tiles(
    weighted: bool,
    shape: tuple[int, int],
    rng: np.random.Generator,
    same_on_threads: Callable[[Callable[[], Any]], Any],
) -> None:
    x, weights = rng.standard_normal(shape).astype("float32"), rng.standard_normal(shape[0]).astype("float32")
    step = rows_of_a_tile(*shape, x.dtype)

    def run() -> Array:
        out = np.empty(shape[1], "float32")
        sums = ColumnSums(x, [out])
        for start in range(0, shape[0], step):
            where = slice(start, min(start + step, shape[0]))
            sums.add(0, where, x[where], weights[where] if weighted else None)
        sums.finish()
        return out

    found = same_on_threads(run)
    expected = (x.astype(float) * (weights[:, None] if weighted else 1)).sum(0)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_over_tiles_of_any_strides(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(-3, 4, (100, 40)).astype(dtype)
    for source in strided_like(x):
        out = np.empty(40, dtype)
        sums = ColumnSums(source, [None, out])
        sums.add(0, slice(0, 100), source)
        sums.add(1, slice(0, 100), source)
        sums.finish()
        np.testing.assert_array_equal(out, x.sum(0))
