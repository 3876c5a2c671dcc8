"""Long rows added by number, place by place, against additions one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_.row_sums import add_by_place, adds_by_place

from .support import Array, strided_like

Rng = np.random.Generator
# Rows, columns, places: one tile and several, sparse and crowded ones.
SHAPES = [(600, 300, 600), (1500, 512, 3000), (1100, 700, 80), (1024, 257, 1025), (2100, 4096, 2100)]


def indices(rng: Rng, rows: int, places: int, skewed: bool) -> Array:
    return (places * rng.random(rows) ** (6 if skewed else 1)).astype("int64")


def in_order(out: Array, index: Array, src: Array) -> Array:
    """``out`` with rows added one after the other."""
    out = out.copy()
    for place, row in zip(index.tolist(), src, strict=True):
        out[place] += row
    return out


@pytest.mark.parametrize(("rows", "columns", "places"), SHAPES)
@pytest.mark.parametrize("skewed", [False, True])
def test_each_sum_is_in_the_order_of_the_rows(rows: int, columns: int, places: int, skewed: bool, rng: Rng) -> None:
    assert adds_by_place(rows, columns, places)
    index = indices(rng, rows, places, skewed)
    src = rng.standard_normal((rows, columns)).astype("float32")
    before = rng.standard_normal((places, columns)).astype("float32")
    out = before.copy()
    kernels.index_add(out, index, src, axis=0)
    np.testing.assert_array_equal(out, in_order(before, index, src))
    added = np.full_like(out, np.nan)
    kernels.index_added(before, index, src, added, axis=0)
    np.testing.assert_array_equal(added, out)
    out.fill(np.nan)
    kernels.index_sums(index, src, out, axis=0)
    np.testing.assert_array_equal(out, in_order(np.zeros_like(out), index, src))


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64"])
def test_dtypes(dtype: str, rng: Rng) -> None:
    index = indices(rng, 900, 500, True)
    src = (9 * rng.standard_normal((900, 300))).astype(dtype)
    out = np.ones((500, 300), dtype)
    kernels.index_add(out, index, src, axis=0)
    np.testing.assert_array_equal(out, in_order(np.ones_like(out), index, src))
    kernels.index_sums(index, src, out, axis=0)
    np.testing.assert_array_equal(out, in_order(np.zeros_like(out), index, src))


def test_numbers_from_the_end_and_what_is_not_finite(rng: Rng) -> None:
    index = indices(rng, 900, 500, False) - 500
    src = rng.standard_normal((900, 300)).astype("float32")
    src[3, 4], src[5, 6], src[index == index[3], 7] = np.nan, np.inf, -0.0
    out = np.zeros((500, 300), "float32")
    kernels.index_add(out, index, src, axis=0)
    np.testing.assert_array_equal(out, in_order(np.zeros_like(out), index, src))
    sums = np.empty_like(out)
    kernels.index_sums(index, src, sums, axis=0)
    np.testing.assert_array_equal(sums, out)
    start = np.zeros_like(out)
    start[0, 0], start[1], start[2] = np.nan, np.inf, -0.0
    kernels.index_added(start, index, src, out, axis=0)
    np.testing.assert_array_equal(out, in_order(start, index, src))
    unnamed = np.setdiff1d(np.arange(500), index + 500)
    assert out[unnamed].tobytes() == start[unnamed].tobytes()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sums_of_any_strides_and_along_any_axis(axis: int, dtype: str, rng: Rng) -> None:
    values = rng.integers(-3, 3, (600, 400)).astype(dtype)
    index = indices(rng, values.shape[axis], 50, False)
    sizes = [50 if dim == axis else size for dim, size in enumerate(values.shape)]
    expected = np.moveaxis(in_order(np.zeros((50, sizes[1 - axis])), index, np.moveaxis(values, axis, 0)), 0, axis)
    for src in strided_like(values):
        for out in strided_like(np.full(sizes, np.nan, dtype)):
            kernels.index_sums(index, src, out, axis=axis)
            np.testing.assert_array_equal(out, expected)


def test_nothing_is_added_to_no_places_and_by_no_rows() -> None:
    out = np.full((5, 300), np.nan, "float32")
    kernels.index_sums(np.zeros(0, "int64"), np.zeros((0, 300), "float32"), out, axis=0)
    assert not out.any()
    kernels.index_sums(np.zeros(0, "int64"), np.zeros((0, 3), "float32"), np.empty((0, 3), "float32"), axis=0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("alpha", [1, -0.5])
def test_added_to_a_copy_of_any_strides_and_along_any_axis(axis: int, alpha: float, rng: Rng) -> None:
    values = rng.standard_normal((600, 400)).astype("float32")
    index = indices(rng, values.shape[axis], 500, False)
    sizes = [500 if dim == axis else size for dim, size in enumerate(values.shape)]
    start = rng.standard_normal(sizes).astype("float32")
    scaled = np.moveaxis((values * np.float32(alpha)), axis, 0)
    expected = np.moveaxis(in_order(np.moveaxis(start, axis, 0), index, scaled), 0, axis)
    for x, src in zip(strided_like(start), strided_like(values), strict=True):
        out = np.empty(sizes, "float32")
        kernels.index_added(x, index, src, out, axis=axis, alpha=alpha)
        np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fresh", [False, True])
def test_all_rows_in_one_place_and_in_a_place_each(fresh: bool, rng: Rng) -> None:
    src = rng.standard_normal((400, 256)).astype("float32")
    for index in (np.full(400, 7), np.arange(400), np.arange(400)[::-1].copy()):
        out = np.zeros((400, 256), "float32")
        add_by_place(out, index, src, None if fresh else out)
        np.testing.assert_array_equal(out, in_order(np.zeros_like(out), index, src))


def test_threads_do_not_matter(rng: Rng, same_on_threads: Callable[[Callable[[], Any]], Any]) -> None:
    index = indices(rng, 3000, 2500, True)
    src = rng.standard_normal((3000, 600)).astype("float32")

    def run() -> list[Array]:
        sums, out = np.empty((2500, 600), "float32"), np.ones((2500, 600), "float32")
        kernels.index_sums(index, src, sums, axis=0)
        kernels.index_add(out, index, src, axis=0)
        added = np.empty_like(out)
        kernels.index_added(out, index, src, added, axis=0)
        return [sums, out, added]

    same_on_threads(run)
