"""What only arrays of some size or shape take: transposed copies, folded products, numbers in the whole array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_.rows import sum_of_line_products

Array = np.ndarray[Any, Any]


def uniform(*shape: int, dtype: str = "float32", low: float = -2.0, high: float = 2.0) -> Array:
    return np.random.default_rng(0).uniform(low, high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "order"), [((700, 301), (1, 0)), ((5, 260, 150), (0, 2, 1)), ((90, 50, 40), (2, 1, 0))]
)
def test_transposed_copies(dtype: str, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = uniform(*shape, low=0, high=99, dtype=dtype).transpose(order)
    for source in (x, x[::-1]):
        out = np.empty(source.shape, "float64")
        kernels.copy(source, out)
        np.testing.assert_array_equal(out, source)


def test_long_sums_are_as_accurate_as_pairwise_ones() -> None:
    for shape in ((1, 1_000_003), (7, 50_001), (300, 2049)):
        x, out = uniform(*shape, low=0.0), np.empty(shape[0], "float32")
        kernels.sum(x, out, axes=(1,))
        np.testing.assert_allclose(out, x.sum(1, dtype="float64"), rtol=3e-7)


@pytest.mark.parametrize("shape", [(128, 2048), (1, 300_001), (7, 50_003), (400, 512), (3, 100, 700)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_long_lines_are_cut_where_they_are_few(shape: tuple[int, ...], dtype: str) -> None:
    x, y = uniform(*shape, dtype=dtype), uniform(*shape, dtype=dtype)[..., ::-1]
    out = np.empty(shape[:-1], dtype)
    bound = np.finfo(dtype).eps * np.vecdot(np.abs(x), np.abs(y), dtype="float64")
    for other in (y, y[(0,) * (len(shape) - 1)]):
        sum_of_line_products(x, other, out)
        exact = (x.astype("longdouble") * other).sum(-1)
        assert (np.abs(out - exact) <= 4 * bound).all()


@pytest.mark.parametrize("columns", [17, 300, 1500])
def test_extremes_of_rows_let_nan_win(columns: int) -> None:
    x = uniform(200, columns)
    x[3, columns // 2], x[4], x[5, 0] = np.nan, -np.inf, np.inf
    out = np.empty(200, "float32")
    kernels.amax(x, out, axes=(1,))
    np.testing.assert_array_equal(out, x.max(1))
    kernels.amin(x, out, axes=(1,))
    np.testing.assert_array_equal(out, x.min(1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((70, 61), 1), ((70, 61), 0), ((3, 50, 33), 1), ((4, 1024), 1)])
@pytest.mark.parametrize("special", [None, 0.0, np.nan, np.inf, 1e-38])
def test_products_of_long_lines(dtype: str, shape: tuple[int, ...], axis: int, special: float | None) -> None:
    x = uniform(*shape, dtype=dtype, low=0.6, high=1.5) * np.sign(uniform(*shape, dtype=dtype))
    if special is not None:
        x[0, 1] = special
    wide = x.astype("longdouble")
    out = np.empty(np.delete(shape, axis), dtype)
    kernels.prod(x, out, axis=axis)
    np.testing.assert_allclose(out, wide.prod(axis), rtol=2e-7 if dtype == "float32" else 1e-13, atol=2e-45)
    grad, grad_x = uniform(*out.shape, dtype=dtype), np.empty_like(x)
    kernels.prod_backward(grad, x, grad_x, axis=axis)
    others = np.stack([np.delete(wide, k, axis).prod(axis) for k in range(shape[axis])], axis)
    expected = others * np.expand_dims(grad, axis)
    np.testing.assert_allclose(grad_x, expected, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-36)


@pytest.mark.parametrize("shape", [(40, 30), (40, 30, 5), (500, 400)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [1, 3, 64])
def test_elements_by_number(shape: tuple[int, ...], axis: int, length: int) -> None:
    x = uniform(*shape)
    places = (*shape[:axis], length, *shape[axis + 1 :])
    index = np.random.default_rng(1).integers(0, shape[axis], places)
    out = np.empty(places, "float32")
    kernels.gather_along(x, index, out, axis=axis)
    np.testing.assert_array_equal(out, np.take_along_axis(x, index, axis))
    total, expected = x.copy(), x.astype("float64")
    kernels.scatter_add_along(total, index, out, axis=axis)
    grid = list(np.ogrid[tuple(slice(size) for size in places)])
    grid[axis] = index
    np.add.at(expected, tuple(grid), out)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)


def test_softplus_keeps_its_ends() -> None:
    x = np.array([-np.inf, -200.0, -20.0, -0.0, 0.0, 19.0, 21.0, 200.0, np.inf, np.nan])
    for dtype, rtol in (("float32", 3e-7), ("float64", 1e-15)):
        for beta, threshold in ((1.0, 20.0), (2.0, 20.0), (0.5, 3.0), (1.0, -1.0)):
            values = x.astype(dtype)
            out, slope = np.empty_like(values), np.empty_like(values)
            kernels.softplus(values, out, beta=beta, threshold=threshold)
            kernels.softplus_backward(np.ones_like(values), values, slope, beta=beta, threshold=threshold)
            straight = values * beta > threshold
            with np.errstate(over="ignore", invalid="ignore"):
                smooth = np.where(straight, values, np.logaddexp(0, x * beta) / beta)
                slopes = np.where(straight, 1, 1 / (1 + np.exp(-beta * x)))
            np.testing.assert_allclose(out, smooth, rtol=rtol, atol=1e-37)
            np.testing.assert_allclose(slope, slopes, rtol=rtol, atol=1e-37)
