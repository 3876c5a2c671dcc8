"""The kernels of `test_lines.py` on CuPy against those on NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ..fake_cupy.places import PLACES, cupy_at
from .test_cupy_kernels import compare
from .test_lines import ZEROS

Rng = np.random.Generator
LINES = [((), 0), ((7,), 0), ((5, 6), 1), ((5, 6), 0), ((3, 4, 5), 1)]


@pytest.fixture(scope="module", params=PLACES)
def cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cupy_at(request.param) as module:
        yield module


def empty(*arrays: tuple[Any, str]) -> list[np.ndarray[Any, Any]]:
    return [np.zeros(shape, dtype) for shape, dtype in arrays]


@pytest.mark.parametrize(("shape", "axis"), LINES)
def test_scans(cupy: Any, shape: tuple[int, ...], axis: int, rng: Rng) -> None:
    x, grad = map(np.asarray, rng.standard_normal((2, *shape)))
    (out,) = empty((shape, "float64"))
    for reverse in (False, True):
        compare(cupy, "cumsum", x, out, axis=axis, reverse=reverse)
        compare(cupy, "logcumsumexp", x, out, axis=axis, reverse=reverse)
    compare(cupy, "cumprod", x, out, axis=axis)
    compare(cupy, "cumprod_backward", grad, x, out, axis=axis)
    values, indices = empty((shape, "float64"), (shape, "int64"))
    compare(cupy, "cummax", np.asarray(np.round(x)), values, indices, axis=axis)
    compare(cupy, "add_along", grad, indices, out, axis=axis)
    compare(cupy, "cummin", np.asarray(np.round(x)), values, indices, axis=axis)
    compare(cupy, "take_along", x, indices, out, axis=axis)


def test_products_with_zeros(cupy: Any, rng: Rng) -> None:
    grad = rng.standard_normal(ZEROS.shape)
    (out,) = empty((ZEROS.shape, "float64"))
    compare(cupy, "cumprod_backward", grad, ZEROS, out, axis=1)
    compare(cupy, "prod", ZEROS, empty(((5,), "float64"))[0], axis=0)
    compare(cupy, "prod", ZEROS, empty(((), "float64"))[0])
    compare(cupy, "prod_backward", grad[0], ZEROS, out, axis=0)
    compare(cupy, "prod_backward", np.array(grad[0, 0]), ZEROS + 1, out)


@pytest.mark.parametrize(("shape", "axis"), LINES)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting(cupy: Any, shape: tuple[int, ...], axis: int, descending: bool, rng: Rng) -> None:
    x = np.asarray(np.round(2 * rng.standard_normal(shape)))
    values, indices = empty((shape, "float64"), (shape, "int64"))
    compare(cupy, "sort", x, values, indices, axis=axis, descending=descending)
    compare(cupy, "put_along", values, indices.astype("uint8"), np.zeros(shape), axis=axis)
    distinct = rng.permutation(x.size).reshape(shape).astype("float64")
    few = [2 if number == axis else length for number, length in enumerate(shape)]
    values, indices = empty((few, "float64"), (few, "int64"))
    compare(cupy, "topk", distinct, values, indices, axis=axis, largest=descending)
    kept = [1 if number == axis else length for number, length in enumerate(shape)]
    for keywords in ({"place": 0}, {}, {"ignore_nan": True}):
        compare(cupy, "select", distinct, *empty((kept, "float64"), (kept, "int64")), axis=axis, **keywords)
    compare(cupy, "mode", x, *empty((kept, "float64"), (kept, "int64")), axis=axis)


def test_medians_with_nan(cupy: Any) -> None:
    x = np.array([[1, np.nan, 3, np.nan, 2], [5, 4, 3, 2, 1]])
    for ignore_nan in (False, True):
        compare(cupy, "select", x, *empty(((2,), "float64"), ((2,), "int64")), axis=1, ignore_nan=ignore_nan)


@pytest.mark.parametrize("right", [False, True])
def test_searching_and_counting(cupy: Any, right: bool, rng: Rng) -> None:
    lines, values = np.sort(rng.integers(0, 9, (3, 20)), 1).astype("float64"), rng.integers(-2, 12, (3, 5)) * 1.0
    values[0, 0] = np.nan
    compare(cupy, "searchsorted", lines, values, np.zeros((3, 5), "int64"), right=right)
    compare(cupy, "searchsorted", lines[0], values, np.zeros((3, 5), "int32"), right=right)
    compare(cupy, "bincount", rng.integers(0, 6, 20), rng.random(20) if right else None, np.zeros(8))


@pytest.mark.parametrize("axes", [None, (0,), (0, 2), (1,)])
def test_variance_and_shares(cupy: Any, axes: Any, rng: Rng) -> None:
    x = np.round(3 * rng.standard_normal((3, 4, 5)))
    shape = x.sum(axes).shape
    var, mean = empty((shape, "float64"), (shape, "float64"))
    compare(cupy, "var_mean", x, var, mean, axes=axes, correction=1)
    grad = rng.standard_normal(shape)
    compare(cupy, "var_backward", grad, x, mean, np.zeros(x.shape), axes=axes, scale=2.0)
    compare(cupy, "nansum", np.where(x > 2, np.nan, x), np.zeros(shape), axes=axes)
    bits = np.zeros(-(-x.size // 8), np.uint8)
    compare(cupy, "mark_equal", x, np.asarray(x.max(axes)), bits, np.zeros(shape), axes=axes)
    compare(cupy, "any", (x > 5), np.zeros(shape, bool), axes=axes)
    compare(cupy, "all", (x > -5), np.zeros(shape, bool), axes=axes)
    compare(cupy, "logsumexp", x, np.zeros(shape), axis=axes or (0, 1, 2))
    compare(cupy, "logsumexp_backward", grad, x, mean, np.zeros(x.shape), axis=axes or (0, 1, 2))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, np.inf])
def test_distances(cupy: Any, p: float, rng: Rng) -> None:
    x, y, grad = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 3, 5))
    (found,) = empty((grad.shape, "float64"))
    compare(cupy, "cdist", x, y, found, p=p)
    compare(cupy, "cdist_backward", grad, x, y, found, np.zeros(x.shape), p=p)
