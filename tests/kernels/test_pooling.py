"""Pooling beside loops over windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad import memory
from stowgrad.autograd.ops.axis_maps import Adaptive, Interpolated, Windows, adaptive_windows
from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_ import interpolation

from .support import Array, strided_like

# size, count, kernel, stride, padding, dilation of each axis
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "one axis": ((9, 5, 3, 2, 1, 1),),
    "side by side": ((6, 3, 2, 2, 0, 1), (8, 2, 4, 4, 0, 1)),
    "overlapping": ((7, 5, 3, 1, 0, 1), (6, 6, 3, 1, 1, 1)),
    "dilated": ((9, 3, 3, 2, 1, 2), (7, 5, 2, 1, 0, 2)),
    "beyond the end": ((5, 3, 2, 2, 0, 1), (6, 3, 3, 2, 0, 1)),
    "three axes": ((4, 3, 2, 1, 0, 1), (5, 3, 3, 2, 1, 1), (3, 2, 2, 1, 0, 1)),
    "more places than a byte has": ((300, 2, 280, 15, 0, 1),),
}
over_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def keywords(shape: Any) -> dict[str, Any]:
    columns = list(zip(*shape, strict=True))
    return {"kernel": columns[2], "stride": columns[3], "padding": columns[4], "dilation": columns[5]}


def seen(shape: Any, window: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """The places of a window that lie in the plane, and their elements."""
    found = []
    for number, place in enumerate(itertools.product(*(range(axis[2]) for axis in shape))):
        at = tuple(p * a[3] + k * a[5] - a[4] for p, k, a in zip(window, place, shape, strict=True))
        if all(0 <= e < axis[0] for e, axis in zip(at, shape, strict=True)):
            found.append((number, at))
    return found


def pooled(shape: Any, x: Array) -> tuple[Array, Array, Array]:
    """The largest elements, their places and their numbers in the plane, of planes (n, *size)."""
    counts = [axis[1] for axis in shape]
    values, places, numbers = np.empty((len(x), *counts)), np.empty((len(x), *counts)), np.empty((len(x), *counts))
    for plane in range(len(x)):
        for window in itertools.product(*map(range, counts)):
            best = None
            for number, at in seen(shape, window):
                value = x[(plane, *at)]
                if best is None or value > best[0] or np.isnan(value):
                    best = value, number, np.ravel_multi_index(at, x.shape[1:])
            values[(plane, *window)], places[(plane, *window)], numbers[(plane, *window)] = best
    return values, places, numbers


def run(shape: Any, x: Array) -> tuple[Array, Array]:
    out = np.empty((*x.shape[:1], *(axis[1] for axis in shape)), x.dtype)
    places = np.empty(out.shape, np.min_scalar_type(int(np.prod([axis[2] for axis in shape])) - 1))
    kernels.max_pool(x, out, places, **keywords(shape))
    return out, places


@over_shapes
@pytest.mark.parametrize("kind", ["numbers", "equal", "NaN", "-infinity", "integers"])
def test_largest_elements(shape: Any, kind: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, *(axis[0] for axis in shape)))
    if kind == "equal":
        x = np.round(x)
    elif kind == "NaN":
        x[rng.random(x.shape) < 0.2] = np.nan
    elif kind == "-infinity":
        x[rng.random(x.shape) < 0.8] = -np.inf
    elif kind == "integers":
        x = (x * 50).astype(np.int16)
    values, places, numbers = pooled(shape, x)
    for source in strided_like(x):
        out, found = run(shape, source)
        np.testing.assert_array_equal(out, values)
        np.testing.assert_array_equal(found, places)
    indices = np.empty(out.shape, np.int64)
    kernels.max_pool_indices(found, indices, size=x.shape[1:], **keywords(shape))
    np.testing.assert_array_equal(indices, numbers)


@over_shapes
def test_gradients_of_the_largest_elements(shape: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, *(axis[0] for axis in shape)))
    out, places = run(shape, x)
    grad = rng.standard_normal(out.shape)
    grad[0].flat[0] = np.nan  # it stays where it belongs
    expected = np.zeros((3, x[0].size))
    numbers = pooled(shape, x)[2].astype(int)
    for plane in range(3):
        np.add.at(expected[plane], numbers[plane].reshape(-1), grad[plane].reshape(-1))
    for upstream in strided_like(grad):
        grad_x = np.full(x.shape, 77.0)
        kernels.max_pool_backward(upstream, places, grad_x, **keywords(shape))
        np.testing.assert_allclose(grad_x.reshape(3, -1), expected, rtol=1e-13)
    for source in strided_like(x):
        gathered = np.empty_like(out)
        kernels.max_pool_gather(source, places, gathered, **keywords(shape))
        np.testing.assert_array_equal(gathered, out)


@pytest.mark.parametrize(("size", "count"), [((9,), (4,)), ((7, 5), (3, 8)), ((4, 5, 3), (2, 5, 1)), ((5, 4), (1, 1))])
def test_adaptive(size: tuple[int, ...], count: tuple[int, ...], rng: np.random.Generator) -> None:
    x = np.round(rng.standard_normal((2, *size)), 1)
    windows = [adaptive_windows(n, c) for n, c in zip(size, count, strict=True)]
    for source in strided_like(x):
        out, numbers = np.empty((2, *count)), np.empty((2, *count), np.uint8)
        kernels.adaptive_max_pool(source, out, numbers, windows=windows)
        for window in itertools.product(*map(range, count)):
            part = tuple(slice(w[0][i], w[1][i]) for w, i in zip(windows, window, strict=True))
            for plane in range(2):
                first = np.unravel_index(x[plane][part].argmax(), x[plane][part].shape)
                at = tuple(s.start + f for s, f in zip(part, first, strict=True))
                assert out[(plane, *window)] == x[(plane, *at)]
                assert numbers[(plane, *window)] == np.ravel_multi_index(at, size)


@pytest.mark.parametrize("count", [(1, 1), (2, 2)])
def test_adaptive_finds_the_last_nan(count: tuple[int, ...]) -> None:
    x = np.arange(16.0).reshape(1, 4, 4)
    x[0, [0, 1], [1, 0]] = np.nan
    out, numbers = np.empty((1, *count)), np.empty((1, *count), np.uint8)
    kernels.adaptive_max_pool(x, out, numbers, windows=[adaptive_windows(4, c) for c in count])
    assert np.isnan(out[0, 0, 0])
    assert numbers[0, 0, 0] == 4


def test_elements_by_number(rng: np.random.Generator) -> None:
    x, numbers = rng.standard_normal((2, 3, 4, 5)), rng.integers(0, 20, (2, 3, 7))
    flat = x.reshape(2, 3, 20)
    for source in strided_like(x):
        out = np.empty((2, 3, 7))
        kernels.plane_gather(source.reshape(2, 3, 20), numbers, out, axes=1)
        np.testing.assert_array_equal(out, np.take_along_axis(flat, numbers, 2))
    summed, expected = np.full((2, 3, 20), 77.0), np.zeros((6, 20))
    kernels.plane_scatter_add(out, numbers, summed, axes=1)
    for plane in range(6):
        np.add.at(expected[plane], numbers.reshape(6, 7)[plane], out.reshape(6, 7)[plane])
    np.testing.assert_array_equal(summed.reshape(6, 20), expected)
    with pytest.raises(RuntimeError, match="invalid max index"):
        kernels.plane_scatter(out, numbers + 10, summed, axes=1)


RULES = [
    Windows(9, 5, 3, 2, 1, True, 0.0),
    Windows(9, 5, 3, 2, 1, False, 0.0),
    Windows(9, 4, 3, 2, 0, True, 5.0),
    Adaptive(9, 4),
    Adaptive(9, 13),
    Interpolated(9, 20, "nearest", False, False, 0.0, True),
    Interpolated(9, 4, "nearest-exact", False, False, 0.0, True),
    Interpolated(9, 15, "linear", False, False, 1.7, True),
    Interpolated(9, 15, "linear", True, False, 0.0, True),
    Interpolated(9, 4, "cubic", False, False, 0.0, True),
    Interpolated(9, 4, "linear", False, True, 0.0, True),
    Interpolated(9, 3, "cubic", False, True, 0.0, True),
]


def dense(taps: Any) -> Array:
    """The map as a matrix."""
    matrix = np.zeros((len(taps.element), taps.size))
    for row, (elements, weights) in enumerate(zip(taps.element, taps.weight, strict=True)):
        np.add.at(matrix[row], elements, weights)
    return matrix


WAYS = {"look-up": {}, "matrices": {"_FEW": 0}, "taps": {"_FEW": 0, "_LONGEST": 0}}
over_ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@over_ways
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_maps_along_an_axis(rule: Any, way: dict[str, int], rng: np.random.Generator, monkeypatch: Any) -> None:
    for name, value in way.items():
        monkeypatch.setattr(interpolation, name, value)
    taps = rule.taps()
    matrix = dense(taps)
    np.testing.assert_allclose(dense(taps.reversed()), matrix.T)
    x = rng.standard_normal((2, 9, 3, 4))
    for source in strided_like(x):
        out = np.full((2, len(matrix), 3, 4), 77.0)
        kernels.resample(source, out, taps=[taps, None, None])
        np.testing.assert_allclose(out, np.einsum("oi,nijk->nojk", matrix, x), atol=1e-13)


@over_ways
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_maps_of_planes_and_back(
    rule: Any, way: dict[str, int], dtype: str, rng: np.random.Generator, monkeypatch: Any
) -> None:
    for name, value in way.items():
        monkeypatch.setattr(interpolation, name, value)
    matrix = dense(rule.taps())
    x = rng.standard_normal((3, 9, 9)).astype(dtype)
    out, back = np.full((3, len(matrix), len(matrix)), 77, dtype), np.full_like(x, 77)
    kernels.resample(x, out, taps=[rule.taps()] * 2)
    kernels.resample(out, back, taps=[rule.taps().reversed()] * 2)
    close = 1e-5 if dtype == "float32" else 3e-2
    np.testing.assert_allclose(out, matrix @ x @ matrix.T, rtol=close, atol=close)
    np.testing.assert_allclose(back, matrix.T @ out @ matrix, rtol=close, atol=close)


@pytest.mark.parametrize("size", [9, 900])
def test_maps_along_two_axes(
    size: int, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    one, two = Interpolated(size, 700, "linear", False, False, 0.0, True), Windows(800, 266, 3, 3, 0, True, 0.0)
    x = rng.standard_normal((2, size, 800))

    def run() -> Array:
        out = np.full((2, 700, 266), 77.0)
        kernels.resample(x, out, taps=[one.taps(), two.taps()])
        return out

    out = same_on_threads(run)
    np.testing.assert_allclose(out, dense(one.taps()) @ x @ dense(two.taps()).T, atol=1e-12)
    back = np.empty_like(x)
    kernels.resample(out, back, taps=[one.taps().reversed(), two.taps().reversed()])
    np.testing.assert_allclose(back, dense(one.taps()).T @ out @ dense(two.taps()), atol=1e-12)


def test_the_scratch_of_long_windows_is_bounded(rng: np.random.Generator) -> None:
    x, out = rng.standard_normal((1, 50_000)).astype("float32"), np.empty((1, 10), "float32")
    pool = memory.pool(memory.CPU)
    with pool.peak_scope() as scope:
        kernels.resample(x, out, taps=[Adaptive(50_000, 10).taps()])
    assert scope.peak_bytes - scope.begin_bytes < 3 * x.nbytes
    np.testing.assert_allclose(out[0], x.reshape(10, -1).mean(axis=1), atol=1e-5)


@over_ways
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize(
    "rule", [Windows(40, 13, 3, 3, 0, True, 0.0), Interpolated(40, 80, "linear", False, False, 0.0, True)], ids=str
)
def test_what_is_not_finite_stays_where_it_is(
    rule: Any, value: float, way: dict[str, int], rng: np.random.Generator, monkeypatch: Any
) -> None:
    for name, number in way.items():
        monkeypatch.setattr(interpolation, name, number)
    x = rng.standard_normal((1, 40))
    x[0, 7] = value
    for taps, given in ((rule.taps(), x), (rule.taps().reversed(), x[:, : rule.results])):
        given = np.resize(given, (1, taps.size))
        out = np.empty((1, len(taps.element)))
        kernels.resample(given, out, taps=[taps])
        read = dense(taps)[:, ~np.isfinite(given[0])] != 0
        np.testing.assert_array_equal(~np.isfinite(out[0]), read.any(axis=1))
        assert np.isnan(out).any() == np.isnan(value)
