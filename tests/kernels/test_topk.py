"""The most extreme elements of lines, against a whole sort: lines so long that they are folded, and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

Rng = np.random.Generator
# Short lines, lines whose elements are compared as they are, and folded ones, also with a rest; several tiles.
CASES = [((6, 100), 3), ((40, 255), 9), ((30, 300), 1), ((3, 1003), 2), ((5, 5000), 8), ((2, 70_001), 40)]
CASES += [((1, 513), 30), ((4500, 601), 4), ((0, 600), 3)]
largest_or_smallest = pytest.mark.parametrize("largest", [True, False])


def check(x: Array, count: int, largest: bool, axis: int = -1) -> tuple[Array, Array]:
    """Compare what the kernel gives with the first elements of the sorted lines, NaN as the largest number."""
    shape = list(x.shape)
    shape[axis] = count
    values, indices = np.empty(shape, x.dtype), np.empty(shape, np.intp)
    wide = np.sort(x.astype("float64") if x.dtype.kind not in "iu" else x, axis)
    expected = np.take(np.flip(wide, axis) if largest else wide, range(count), axis)
    for ordered in (True, False):
        kernels.topk(x, values, indices, axis=axis, largest=largest, ordered=ordered)
        np.testing.assert_array_equal(np.take_along_axis(x, indices, axis), values)
        found = values.astype(expected.dtype)
        if not ordered:
            found = np.flip(np.sort(found, axis), axis) if largest else np.sort(found, axis)
        np.testing.assert_array_equal(found, expected)
        assert (np.diff(np.sort(indices, axis), axis=axis) > 0).all()  # none comes twice
    return values, indices


@pytest.mark.parametrize(("shape", "count"), CASES)
@largest_or_smallest
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats(shape: tuple[int, ...], count: int, largest: bool, dtype: str, rng: Rng) -> None:
    check(rng.standard_normal(shape).astype(dtype), count, largest)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int32, np.uint8])
@largest_or_smallest
def test_other_dtypes(dtype: Any, largest: bool, rng: Rng) -> None:
    x = rng.permutation(3 * 600).reshape(3, 600) % 200
    check(x.astype(dtype), 5, largest)


@pytest.mark.parametrize("shape", [(700, 12), (3, 600, 7), (600,), (2, 3, 1200)])
@largest_or_smallest
def test_any_axis_and_any_strides(shape: tuple[int, ...], largest: bool, rng: Rng) -> None:
    values = rng.standard_normal(shape).astype("float32")
    for x in strided_like(values):
        for axis, length in enumerate(shape):
            check(x, min(4, length), largest, axis)


@pytest.mark.parametrize(("shape", "count"), [((20, 200), 5), ((20, 2000), 5), ((3, 40_001), 12)])
@largest_or_smallest
def test_lines_with_equal_elements(shape: tuple[int, ...], count: int, largest: bool, rng: Rng) -> None:
    x = rng.integers(0, 40, shape).astype("float32")
    x[1] = 7
    x[2, ::2] = -0.0
    check(x, count, largest)
    x = rng.standard_normal(shape).astype("float32")
    x[0, 3::5] = x[0].max() if largest else x[0].min()  # in one line only
    check(x, count, largest)


@pytest.mark.parametrize(("shape", "count"), [((20, 200), 5), ((20, 2000), 5), ((3, 40_001), 12)])
@largest_or_smallest
def test_nan_is_the_largest_number(shape: tuple[int, ...], count: int, largest: bool, rng: Rng) -> None:
    x = rng.standard_normal(shape).astype("float32")
    x[0, 17] = np.nan
    x[1, ::3] = np.nan
    x[2] = np.nan
    x[2, :2] = np.inf, -np.inf
    check(x, count, largest)
    x[2] = np.nan  # nothing else
    check(x, count, largest)


@pytest.mark.parametrize("length", [40, 400])
def test_a_nan_beside_as_many_equal_elements_is_not_passed_over(length: int) -> None:
    x = -np.arange(2 * length, dtype="float32").reshape(2, length)
    x[0, 5], x[0, 6], x[0, 7], x[0, 8] = np.nan, 9, 8, 8
    check(x, 3, True)


def test_infinities(rng: Rng) -> None:
    x = rng.standard_normal((4, 1000)).astype("float32")
    x[:, 10], x[:, 20] = np.inf, -np.inf
    for largest in (True, False):
        check(x, 3, largest)


def test_threads_do_not_matter(rng: Rng, same_on_threads: Callable[[Callable[[], Any]], Any]) -> None:
    x = rng.standard_normal((3000, 1500)).astype("float32")
    x[::7, ::11] = 3.5

    def run() -> list[Array]:
        values, indices = np.empty((3000, 6), "float32"), np.empty((3000, 6), np.intp)
        kernels.topk(x, values, indices, axis=1)
        return [values, indices]

    same_on_threads(run)


@pytest.mark.parametrize(("shape", "axis"), [((300, 1000), 1), ((1000, 300), 0), ((4, 500, 3), 1), ((1, 200_000), 1)])
@pytest.mark.parametrize("count", [1, 7, None])
def test_elements_are_put_back_into_zeros(shape: tuple[int, ...], axis: int, count: int | None, rng: Rng) -> None:
    x = rng.standard_normal(shape).astype("float32")
    sizes = [(count or length) if dim == axis else length for dim, length in enumerate(shape)]
    values, indices = np.empty(sizes, "float32"), np.empty(sizes, np.intp)
    kernels.topk(x, values, indices, axis=axis)
    out, expected = np.full(shape, np.nan, "float32"), np.zeros(shape, "float32")
    kernels.put_along(values, indices.astype(np.uint32), out, axis=axis)
    np.put_along_axis(expected, indices, values, axis)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("length", [20, 700])
def test_nan_is_the_largest_of_bfloat16_too(length: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, length)).astype(ml_dtypes.bfloat16)
    x[:, [3, 7]] = np.nan
    ordered, numbers = np.empty_like(x), np.empty(x.shape, np.intp)
    kernels.sort(x, ordered, numbers, axis=1)
    np.testing.assert_array_equal(ordered.astype(float), np.sort(x.astype(float), 1))
    values, numbers = np.empty((3, 4), x.dtype), np.empty((3, 4), np.intp)
    kernels.topk(x, values, numbers, axis=1)
    np.testing.assert_array_equal(values.astype(float), np.sort(x.astype(float), 1)[:, :-5:-1])
    found = np.empty((3, 2), np.intp)
    kernels.searchsorted(ordered, np.array([[9.0, np.nan]] * 3, x.dtype), found)
    np.testing.assert_array_equal(found, [[length - 2, length - 2]] * 3)
