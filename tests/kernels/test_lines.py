"""Kernels along one axis: scans, sorting, elements by number; and variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

Rng = np.random.Generator
LINES = [((), 0), ((5,), 0), ((1,), 0), ((30, 40), 1), ((30, 40), 0), ((4, 5, 6), 1), ((300_001,), 0)]
LINES += [((700, 1000), 0), ((700, 1000), -1), ((2, 200_000, 3), 1), ((0, 3), 1), ((3, 0), 1)]
LINES += [((40, 71), 1), ((3, 150_003), 1)]
FILLED = [(shape, axis) for shape, axis in LINES if 0 not in shape]
along = pytest.mark.parametrize(("shape", "axis"), FILLED)


def line(x: Array) -> Array:
    """An array with at least one axis."""
    return x if x.ndim else x.reshape(1)


@pytest.mark.parametrize(("shape", "axis"), LINES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_running_sums_and_products(shape: tuple[int, ...], axis: int, dtype: str, rng: Rng) -> None:
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    near = 1 + rng.standard_normal(shape) / 1000
    for variant in strided_like(x):
        out = np.empty(shape, dtype)
        kernels.cumsum(variant, out, axis=axis)
        exact = np.cumsum(line(x).astype("float64"), axis).reshape(shape)
        np.testing.assert_allclose(out, exact, rtol=1e-6, atol=1e-5 if dtype == "float32" else 1e-9)
        kernels.cumsum(variant, out, axis=axis, reverse=True)
        exact = np.flip(np.cumsum(np.flip(line(x), axis).astype("float64"), axis), axis).reshape(shape)
        np.testing.assert_allclose(out, exact, rtol=1e-6, atol=1e-5 if dtype == "float32" else 1e-9)
    if dtype != "int64":
        kernels.cumprod(near.astype(dtype), out, axis=axis)
        exact = np.cumprod(line(near.astype(dtype)).astype("float64"), axis).reshape(shape)
        np.testing.assert_allclose(out, exact, rtol=1e-6 if dtype == "float32" else 1e-11)


def test_half_precision_is_added_up_in_float32() -> None:
    x = np.full(10_000, 0.25, "float16")
    out = np.empty_like(x)
    kernels.cumsum(x, out, axis=0)
    assert out[-1] == 2500
    kernels.cumsum(x, out, axis=0, reverse=True)
    assert out[0] == 2500


@pytest.mark.parametrize("shape", [(40, 64), (300, 77), (3, 140_001), (2, 131_073)])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_of_groups_let_what_is_not_finite_go_on(shape: tuple[int, int], reverse: bool, rng: Rng) -> None:
    x = rng.standard_normal(shape).astype("float32")
    x[0, shape[1] // 2], x[1, 5], x[1, 60] = np.nan, np.inf, -np.inf
    out = np.empty_like(x)
    kernels.cumsum(x, out, axis=1, reverse=reverse)
    step = -1 if reverse else 1
    with np.errstate(invalid="ignore"):
        exact = np.cumsum(x[:, ::step].astype("float64"), 1)[:, ::step]
    np.testing.assert_allclose(out, exact, rtol=1e-6, atol=1e-5)


@along
def test_running_log_sums(shape: tuple[int, ...], axis: int, rng: Rng) -> None:
    x = 300 * rng.standard_normal(shape)
    out = np.empty(shape)
    kernels.logcumsumexp(x, out, axis=axis)
    np.testing.assert_allclose(out, np.logaddexp.accumulate(line(x), axis).reshape(shape))
    kernels.logcumsumexp(x, out, axis=axis, reverse=True)
    expected = np.flip(np.logaddexp.accumulate(np.flip(line(x), axis), axis), axis)
    np.testing.assert_allclose(out, expected.reshape(shape))


@along
@pytest.mark.parametrize("extreme", ["max", "min"])
def test_running_extremes(shape: tuple[int, ...], axis: int, extreme: str, rng: Rng) -> None:
    x = rng.integers(-50, 50, shape).astype("float32")
    values, indices = np.empty(shape, "float32"), np.empty(shape, np.intp)
    getattr(kernels, f"cum{extreme}")(x, values, indices, axis=axis)
    ufunc = np.maximum if extreme == "max" else np.minimum
    np.testing.assert_array_equal(values, ufunc.accumulate(line(x), axis).reshape(shape))
    picked = np.empty(shape, "float32")
    kernels.take_along(x, indices, picked, axis=axis)
    np.testing.assert_array_equal(picked, values)
    expected = np.zeros(line(x).shape)
    places = list(np.indices(expected.shape))
    places[axis] = line(indices)
    np.add.at(expected, tuple(places), 1)
    added = np.empty(shape, "float32")
    kernels.add_along(np.ones(shape, "float32"), indices, added, axis=axis)
    np.testing.assert_array_equal(added, expected.reshape(shape))


def test_the_last_of_equal_extremes_counts_and_nan_wins() -> None:
    x = np.array([1, 3, 3, 2, np.nan, 4, np.nan])
    values, indices = np.empty(7), np.empty(7, np.intp)
    kernels.cummax(x, values, indices, axis=0)
    np.testing.assert_array_equal(values, [1, 3, 3, 3, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(indices, [0, 1, 2, 2, 4, 4, 6])


@along
@pytest.mark.parametrize("descending", [False, True])
def test_sort(shape: tuple[int, ...], axis: int, descending: bool, rng: Rng) -> None:
    x = rng.integers(0, 1000, shape).astype("float32")
    values, indices = np.empty(shape, "float32"), np.empty(shape, np.intp)
    kernels.sort(x, values, indices, axis=axis, descending=descending)
    sign = -1 if descending else 1
    order = np.argsort(sign * line(x), axis, kind="stable")
    np.testing.assert_array_equal(line(indices), order)
    np.testing.assert_array_equal(line(values), np.take_along_axis(line(x), order, axis))
    back = np.empty(shape, "float32")
    kernels.put_along(values, indices.astype(np.uint32), back, axis=axis)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(4, 80), (3, 80, 2)])
def test_equal_elements_of_long_lines_stay_as_they_stand(shape: tuple[int, ...], descending: bool, rng: Rng) -> None:
    x = rng.standard_normal(shape).astype("float32")
    x[1, ::7], x[2, 3], x[2, 9:70:9] = 0.25, np.nan, np.nan
    x[1, 5], x[1, 6] = 0.0, -0.0
    values, indices = np.empty(shape, "float32"), np.empty(shape, np.intp)
    kernels.sort(x, values, indices, axis=1, descending=descending)
    keys = np.where(np.isnan(x), np.inf, x)  # NaN is the largest, and there is no infinity
    np.testing.assert_array_equal(indices, np.argsort(-keys if descending else keys, 1, kind="stable"))
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("shape", "axis", "count"), [((9,), 0, 2), ((50, 40), 0, 3), ((50, 40), 1, 30), ((7,), 0, 0)])
def test_topk(shape: tuple[int, ...], axis: int, count: int, largest: bool, rng: Rng) -> None:
    x = rng.permutation(np.prod(shape)).reshape(shape).astype("float32")
    wanted = [count if number == axis else length for number, length in enumerate(shape)]
    values, indices = np.empty(wanted, "float32"), np.empty(wanted, np.intp)
    kernels.topk(x, values, indices, axis=axis, largest=largest)
    ordered = np.sort(-x if largest else x, axis)
    expected = np.take(-ordered if largest else ordered, range(count), axis)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.take_along_axis(x, indices, axis), values)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("strange", ["", "equal", "nan"])
def test_topk_of_lines_with_equal_elements_and_nan(strange: str, largest: bool, rng: Rng) -> None:
    x = rng.standard_normal((20, 100)).astype("float32")
    if strange:
        x[3, ::7] = np.nan if strange == "nan" else x[3].max() if largest else x[3].min()
    values, indices = np.empty((20, 5), "float32"), np.empty((20, 5), np.intp)
    for ordered in (True, False):
        kernels.topk(x, values, indices, axis=1, largest=largest, ordered=ordered)
        np.testing.assert_array_equal(np.take_along_axis(x, indices, 1), values)
        expected = np.sort(x, 1)[:, :-6:-1] if largest else np.sort(x, 1)[:, :5]
        np.testing.assert_array_equal(np.sort(values, 1), np.sort(expected, 1))
        if ordered:
            np.testing.assert_array_equal(values, expected)
    assert all(len(set(line)) == 5 for line in indices.tolist())


@along
def test_select(shape: tuple[int, ...], axis: int, rng: Rng) -> None:
    x = rng.standard_normal(shape).astype("float32")
    kept = line(x).max(axis, keepdims=True).shape
    values, indices = np.empty(kept, "float32"), np.empty(kept, np.intp)
    ordered = np.sort(line(x), axis)
    for place in (0, ordered.shape[axis] // 2, None):
        kernels.select(line(x), values, indices, axis=axis, place=place)
        at = (ordered.shape[axis] - 1) // 2 if place is None else place
        np.testing.assert_array_equal(values, np.take(ordered, [at], axis))
        np.testing.assert_array_equal(np.take_along_axis(line(x), indices, axis), values)


def test_medians_of_lines_with_nan() -> None:
    x = np.array([[1, np.nan, 3, np.nan, 2], [5, 4, 3, 2, 1], [np.nan] * 5])
    values, indices = np.empty(3), np.empty(3, np.intp)
    kernels.select(x, values, indices, axis=1)
    np.testing.assert_array_equal(values, [np.nan, 3, np.nan])
    np.testing.assert_array_equal(indices, [1, 2, 0])
    kernels.select(x, values, indices, axis=1, ignore_nan=True)
    np.testing.assert_array_equal(values, [2, 3, np.nan])
    np.testing.assert_array_equal(indices, [4, 2, 0])


def test_mode_is_the_smallest_of_the_most_frequent_and_its_last_place() -> None:
    x = np.array([[3, 1, 3, 1, 2], [0, 0, 5, 5, 5]])
    values, indices = np.empty(2, x.dtype), np.empty(2, np.intp)
    kernels.mode(x, values, indices, axis=1)
    assert (values.tolist(), indices.tolist()) == ([1, 5], [3, 4])
    turned = np.empty(2, x.dtype)
    kernels.mode(x.T, turned, indices, axis=0)
    assert turned.tolist() == [1, 5]


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool, rng: Rng) -> None:
    lines, values = np.sort(rng.integers(0, 20, (6, 50)), 1), rng.integers(-2, 25, (6, 30))
    out = np.empty((6, 30), np.int64)
    kernels.searchsorted(lines, values, out, right=right)
    side = "right" if right else "left"
    np.testing.assert_array_equal(out, [np.searchsorted(a, b, side) for a, b in zip(lines, values, strict=True)])
    kernels.searchsorted(lines[0], values, out, right=right)
    np.testing.assert_array_equal(out, np.searchsorted(lines[0], values, side))


def test_bincount() -> None:
    x, weights = np.array([0, 2, 2, 5]), np.array([0.5, 1, 2, 4])
    out = np.empty(8, np.int64)
    kernels.bincount(x, None, out)
    assert out.tolist() == [1, 0, 2, 0, 0, 1, 0, 0]
    total = np.empty(6)
    kernels.bincount(x, weights, total)
    assert total.tolist() == [0.5, 0, 3, 0, 0, 4]


# -- products with zeros -----------------------------------------------------------------------------------------------

ZEROS = np.array([[2.0, 0, 3, 0, 4], [1, 2, 3, 4, 5], [0, 1, 2, 3, 4], [2, 3, 4, 5, 0], [0, 0, 0, 0, 0]])


def test_gradient_of_a_product_with_zeros(rng: Rng) -> None:
    grad, found, out = rng.standard_normal(5), np.empty_like(ZEROS), np.empty(5)
    kernels.prod(ZEROS, out, axis=1)
    np.testing.assert_array_equal(out, ZEROS.prod(1))
    others = [[np.prod(np.delete(row, j)) for j in range(5)] for row in ZEROS]
    kernels.prod_backward(grad, ZEROS, found, axis=1)
    np.testing.assert_allclose(found, grad[:, None] * others)
    turned = np.empty_like(ZEROS)
    kernels.prod_backward(grad, ZEROS.T, turned, axis=0)
    np.testing.assert_allclose(turned.T, found)
    kernels.prod_backward(np.array(2.0), ZEROS[1], turned[0])
    np.testing.assert_allclose(turned[0], 2 * np.array(others[1]))


def test_gradient_of_running_products_with_zeros(rng: Rng) -> None:
    grad, found = rng.standard_normal(ZEROS.shape), np.empty_like(ZEROS)
    kernels.cumprod_backward(grad, ZEROS, found, axis=1)
    expected = np.zeros_like(ZEROS)
    for r, row in enumerate(ZEROS):
        for k in range(5):
            without = np.cumprod(np.where(np.arange(5) == k, 1, row))
            expected[r, k] = (grad[r, k:] * without[k:]).sum()
    np.testing.assert_allclose(found, expected, atol=1e-12)


# -- variance ----------------------------------------------------------------------------------------------------------

FOLDS = [((5,), (0,)), ((6, 7, 8), (0, 2)), ((6, 7, 8), (1,)), ((6, 7, 8), ()), ((6, 7, 8), None), ((3, 400_001), (1,))]
FOLDS += [((400_001, 3), (0,)), ((1000, 700), (0, 1)), ((50, 40, 300), (0, 2))]
FOLDS += [((30, 64), (1,)), ((9, 5, 8), (1, 2)), ((3, 2040), (1,)), ((3, 2048), (1,))]  # counted side by side, or not


@pytest.mark.parametrize(("shape", "axes"), FOLDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variance(shape: tuple[int, ...], axes: Any, dtype: str, rng: Rng) -> None:
    x = (100 + rng.standard_normal(shape)).astype(dtype)
    tolerance = 2e-5 if dtype == "float32" else 1e-11
    for variant in strided_like(x):
        expected = x.var(axes, dtype="float64")
        var, mean = np.empty(expected.shape, dtype), np.empty(expected.shape, dtype)
        kernels.var_mean(variant, var, mean, axes=axes, correction=0)
        np.testing.assert_allclose(var, expected, rtol=tolerance, atol=1e-12)
        np.testing.assert_allclose(mean, x.mean(axes, dtype="float64"), rtol=1e-6)
        grad, found = rng.standard_normal(var.shape).astype(dtype), np.empty(shape, dtype)
        kernels.var_backward(grad, variant, mean, found, axes=axes, scale=0.5)
        kept = x.mean(axes, keepdims=True).shape
        np.testing.assert_allclose(
            found, 0.5 * grad.reshape(kept) * (x - mean.reshape(kept)), rtol=tolerance, atol=1e-6
        )


@pytest.mark.parametrize(("shape", "axes"), FOLDS)
def test_equal_elements(shape: tuple[int, ...], axes: Any, rng: Rng) -> None:
    x = rng.integers(0, 5, shape).astype("float64")
    largest = x.max(axes, keepdims=True)
    equal = x == largest
    for variant in strided_like(x):
        bits, count = np.zeros(-(-x.size // 8), np.uint8), np.empty(largest.shape)
        kernels.mark_equal(variant, largest, bits, count, axes=axes)
        np.testing.assert_array_equal(count, equal.sum(axes, keepdims=True))
        np.testing.assert_array_equal(bits, np.packbits(equal))


@pytest.mark.parametrize(("shape", "axes"), FOLDS)
def test_sums_without_nan(shape: tuple[int, ...], axes: Any, rng: Rng) -> None:
    x = np.where(rng.random(shape) < 0.2, np.nan, rng.standard_normal(shape))
    for variant in strided_like(x):
        out = np.empty(np.nansum(x, axes).shape)
        kernels.nansum(variant, out, axes=axes)
        np.testing.assert_allclose(out, np.nansum(x, axes), atol=1e-9)


def test_nan_equals_nan_where_elements_are_marked() -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 5]])
    bits, count = np.zeros(1, np.uint8), np.empty(2)
    kernels.mark_equal(x, np.array([np.nan, 5]), bits, count, axes=(1,))
    assert (count.tolist(), bits.tolist()) == ([1, 2], [0b01001100])


def test_threads_do_not_change_results(rng: Rng, same_on_threads: Callable[[Callable[[], Any]], Any]) -> None:
    x = rng.standard_normal((900, 1100)).astype("float32")

    def run() -> list[Array]:
        var, mean, scanned = np.empty(1100, "float32"), np.empty(1100, "float32"), np.empty_like(x)
        kernels.var_mean(x, var, mean, axes=(0,))
        kernels.cumsum(x, scanned, axis=1)
        return [var, mean, scanned]

    same_on_threads(run)


# -- distances ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, np.inf])
@pytest.mark.parametrize(("batch", "rows", "columns", "width"), [((), 3, 4, 5), ((2, 3), 2, 3, 1), ((), 300, 200, 7)])
def test_distances(batch: tuple[int, ...], rows: int, columns: int, width: int, p: float, rng: Rng) -> None:
    x, y = rng.standard_normal((*batch, rows, width)), rng.standard_normal((*batch, columns, width))
    away = x[..., :, None, :] - y[..., None, :, :]
    found = np.empty((*batch, rows, columns))
    kernels.cdist(x, y, found, p=p)
    expected = np.linalg.vector_norm(away, ord=p, axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    grad, by_x = rng.standard_normal(found.shape), np.empty_like(x)
    kernels.cdist_backward(grad, x, y, found, by_x, p=p)
    if p == 0:
        slopes = np.zeros_like(away)
    elif p == np.inf:
        slopes = np.sign(away) * (np.abs(away) == expected[..., None])
    else:
        slopes = np.sign(away) * np.abs(away) ** (p - 1) * expected[..., None] ** (1 - p)
    np.testing.assert_allclose(by_x, (grad[..., None] * slopes).sum(-2), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"), [((600, 300, 1), 2, "f4"), ((256, 1, 600), 1, "f4"), ((2, 140000), 0, "f2")]
)
def test_running_sums_of_many_short_lines(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    out = np.full(shape, np.nan, dtype)
    kernels.cumsum(np.ones(shape, dtype), out, axis=axis)
    np.testing.assert_array_equal(out, np.cumsum(np.ones(shape), axis))
