from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

SHAPES = [(), (0,), (3, 0, 4), (5,), (4, 5, 6), (70, 3, 40, 2), (1000, 10), (3, 400_001), (300_001, 3), (2048, 384)]
SHAPES += [(9, 2, 300), (9, 4, 100)]  # few terms, added one after another


def subsets(ndim: int) -> list[tuple[int, ...]]:
    return [axes for length in range(ndim + 1) for axes in itertools.combinations(range(ndim), length)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_sum_and_mean(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    for variant in strided_like(x):
        for axes in subsets(x.ndim):
            expected = x.sum(axes, dtype=float)
            out = np.empty(expected.shape, "int64" if dtype == "int32" else dtype)
            kernels.sum(variant, out, axes=axes)
            bound = np.finfo(dtype).eps * np.abs(x).sum(axes, dtype=float) if dtype != "int32" else 0
            assert (np.abs(out - expected) <= 2 * bound).all()
            if dtype != "int32" and x.size:
                kernels.mean(variant, out, axes=axes)
                count = x.size / expected.size
                assert (np.abs(out - expected / count) <= 3 * bound / count).all()


@pytest.mark.parametrize("size", [1_048_577, 3_000_001, 1 << 22])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_all_elements(
    size: int, dtype: str, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x = rng.standard_normal(size).astype(dtype)

    def run() -> Array:
        out = np.empty((), dtype)
        kernels.sum(x, out)
        return out

    assert abs(same_on_threads(run) - x.sum(dtype=float)) <= np.finfo(dtype).eps * np.abs(x).sum(dtype=float) / 100
    for special in (np.nan, np.inf):
        x[size // 2] = special
        np.testing.assert_equal(float(run()), special)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape])
def test_extremes(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype("float32")
    for variant in strided_like(x):
        for axes in subsets(x.ndim):
            out = np.empty(x.max(axes).shape, "float32")
            kernels.amax(variant, out, axes=axes)
            np.testing.assert_array_equal(out, x.max(axes))
            kernels.amin(variant, out, axes=axes)
            np.testing.assert_array_equal(out, x.min(axes))
        for axis in (*range(x.ndim), None):
            places = np.empty(x.argmax(axis).shape, np.intp)
            kernels.argmax(variant, places, axis=axis)
            np.testing.assert_array_equal(places, x.argmax(axis))
            kernels.argmin(variant, places, axis=axis)
            np.testing.assert_array_equal(places, x.argmin(axis))


def test_nan_wins() -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 6]])
    out = np.empty(2)
    kernels.amax(x, out, axes=(1,))
    np.testing.assert_array_equal(out, [np.nan, 6])


def test_keepdims_shapes_and_all_axes(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4, 5))
    out = np.empty((3, 1, 5))
    kernels.sum(x, out, axes=(1,))
    np.testing.assert_allclose(out, x.sum(1, keepdims=True))
    total = np.empty(())
    kernels.sum(x, total)
    np.testing.assert_allclose(total, x.sum())


def test_long_float32_sums_stay_accurate() -> None:
    x = np.full((4_000_000, 1), 0.1, "float32")
    for axis, shape in ((0, (4_000_000, 1)), (0, (2_000_000, 2)), (1, (1, 4_000_000)), (0, (4000, 1000))):
        out = np.empty(shape[1 - axis], "float32")
        kernels.sum(x.reshape(shape), out, axes=(axis,))
        np.testing.assert_allclose(out, 0.1 * shape[axis], rtol=3e-6)


def test_half_precision_is_summed_in_float32() -> None:
    x = np.full(10_000, 0.25, "float16")
    out = np.empty((), "float16")
    kernels.sum(x, out)
    assert out == 2500


@pytest.mark.parametrize(
    ("shape", "target"),
    [((3, 4), ()), ((3, 4), (4,)), ((3, 4), (3, 1)), ((2, 3, 4), (3, 1)), ((3, 4), (3, 4)), ((0, 4), (4,))],
)
def test_sum_to_reverses_broadcasting(
    shape: tuple[int, ...], target: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.standard_normal(shape)
    out = np.empty(target)
    kernels.sum_to(x, out)
    lead = x.sum(tuple(range(len(shape) - len(target))))
    ones = tuple(axis for axis, length in enumerate(target) if length == 1)
    np.testing.assert_allclose(out, lead.sum(ones, keepdims=True), atol=1e-14)


def test_threads_do_not_change_sums(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x = rng.standard_normal((5000, 800)).astype("float32")

    def run() -> list[Array]:
        outs = [np.empty(800, "float32"), np.empty(5000, "float32"), np.empty((), "float32")]
        for out, axes in zip(outs, ((0,), (1,), (0, 1)), strict=True):
            kernels.sum(x, out, axes=axes)
        return [*outs, np.array(kernels.sum_of_squares(x))]

    same_on_threads(run)


@pytest.mark.parametrize("shape", [(0,), (), (7,), (1000, 700)])
def test_sum_of_squares(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype("float32")
    assert kernels.sum_of_squares(x.T) == pytest.approx(float((x.astype(float) ** 2).sum()), rel=1e-6)


# -- soft-max ----------------------------------------------------------------------------------------------------------

SOFTMAX_SHAPES = [((), 0), ((5,), 0), ((0, 3), 1), ((3, 0), 0), ((30, 40), 1), ((30, 40), 0), ((4, 5, 6), 1)]
SOFTMAX_SHAPES += [((100_003, 7), -1), ((7, 100_003), 0), ((3, 300_000), -1), ((2, 6, 50_000), 1)]


@pytest.mark.parametrize(("shape", "axis"), SOFTMAX_SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax(shape: tuple[int, ...], axis: int, dtype: str, rng: np.random.Generator) -> None:
    x, grad = (10 * rng.standard_normal((2, *shape))).astype(dtype)
    atol = 3e-6 if dtype == "float32" else 1e-13
    wide = np.atleast_1d(x.astype(float))
    powers = np.exp(wide - wide.max(axis, keepdims=True, initial=-np.inf))
    y = powers / powers.sum(axis, keepdims=True)
    lse = np.log(powers.sum(axis)) + wide.max(axis, initial=-np.inf) if wide.shape[axis] else None
    upstream = np.atleast_1d(grad.astype(float))
    for source, g in zip(strided_like(x), strided_like(grad), strict=True):
        out, grad_x = np.empty_like(x, order="C"), np.empty_like(x, order="C")
        kernels.softmax(source, out, axis=axis)
        np.testing.assert_allclose(out, y.reshape(shape), atol=atol)
        kernels.softmax_backward(g, out, grad_x, axis=axis)
        expected = y * (upstream - (upstream * y).sum(axis, keepdims=True))
        np.testing.assert_allclose(grad_x, expected.reshape(shape), atol=20 * atol)
        kernels.log_softmax(source, out, axis=axis)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(np.exp(out), y.reshape(shape), atol=atol)
        kernels.log_softmax_backward(g, out, grad_x, axis=axis)
        expected = upstream - y * upstream.sum(axis, keepdims=True)
        np.testing.assert_allclose(grad_x, expected.reshape(shape), atol=1e4 * atol, rtol=1e-5)
        if lse is not None and x.ndim:
            sums = np.empty(lse.shape, dtype)
            kernels.logsumexp(source, sums, axis=axis)
            np.testing.assert_allclose(sums, lse, atol=10 * atol)
            kernels.logsumexp_backward(np.ones_like(sums), source, sums, grad_x, axis=axis)
            np.testing.assert_allclose(grad_x, y.reshape(shape), atol=50 * atol)


def test_softmax_in_place_and_of_infinities() -> None:
    x = np.array([[-np.inf, 0.0, 0.0], [1.0, 2.0, -np.inf]])
    kernels.softmax(x, x)
    np.testing.assert_allclose(x[0], [0, 0.5, 0.5])
    out = np.empty(2)
    kernels.logsumexp(np.array([[-np.inf, -np.inf], [np.inf, 1.0]]), out)
    np.testing.assert_array_equal(out, [-np.inf, np.inf])


def test_threads_do_not_change_softmax(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x = rng.standard_normal((3000, 300)).astype("float32")

    def run() -> list[Array]:
        outs = [np.empty_like(x), np.empty_like(x)]
        kernels.softmax(x, outs[0])
        kernels.softmax_backward(x, outs[0], outs[1])
        return outs

    same_on_threads(run)
