"""Draws of other distributions than the uniform: the same on any number of threads, and distributed as they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from stowgrad.kernels import backend
from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_.random import DRAW_TILE

from ..fake_cupy.places import PLACES, cupy_at
from .support import Array

COUNT = 100_000
FILLS: dict[str, dict[str, float]] = {
    "exponential": {"rate": 2.0},
    "cauchy": {"median": 1.0, "sigma": 3.0},
    "log_normal": {"mean": 0.5, "std": 0.75},
    "geometric": {"p": 0.3},
}
FROM_ARRAYS: dict[str, tuple[float, ...]] = {
    "poisson": (3.5,),
    "binomial": (12.0, 0.3),
    "standard_gamma": (0.7,),
}
CONTINUOUS = {
    "exponential": stats.expon(scale=0.5),
    "cauchy": stats.cauchy(1.0, 3.0),
    "log_normal": stats.lognorm(0.75, scale=np.exp(0.5)),
    "standard_gamma": stats.gamma(0.7),
}
COUNTED = {"geometric": stats.geom(0.3), "poisson": stats.poisson(3.5), "binomial": stats.binom(12, 0.3)}


@pytest.fixture(scope="module", params=["numpy", *PLACES])
def module(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "numpy":
        yield None
        return
    with cupy_at(request.param) as cupy:
        yield cupy


def draw(name: str, size: int, cupy: Any = None, dtype: str = "float64", key: int = 3, counter: int = 5) -> Array:
    values = [np.full(size, value, dtype) for value in FROM_ARRAYS.get(name, ())]
    out = np.empty(size, dtype)
    at = {"key": key, "counter": counter} | FILLS.get(name, {})
    if cupy is None:
        getattr(kernels, name)(*values, out, **at)
        return out
    arrays = [cupy.empty(size, np.dtype(dtype)) for _ in (*values, out)]
    for array, value in zip(arrays, values, strict=False):
        array.set(value)
    getattr(backend("cuda"), name)(*arrays, **at)
    return np.asarray(arrays[-1].get())


@pytest.mark.parametrize("name", [*FILLS, *FROM_ARRAYS])
def test_an_element_depends_on_key_counter_and_index_only(
    name: str, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    whole = same_on_threads(lambda: draw(name, 2 * DRAW_TILE + 1001))
    for size in (0, 1, 1000, DRAW_TILE + 7):
        np.testing.assert_array_equal(draw(name, size), whole[:size])
    assert (draw(name, 1000, key=4) != whole[:1000]).any()
    assert (draw(name, 1000, counter=6) != whole[:1000]).any()


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_continuous_numbers_pass_the_test_of_kolmogorov_and_smirnov(module: Any, name: str, dtype: str) -> None:
    found = draw(name, COUNT, module, dtype)
    assert found.dtype == dtype
    assert stats.kstest(found.astype(np.float64), CONTINUOUS[name].cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTED)
def test_counts_pass_the_chi_square_test(module: Any, name: str) -> None:
    found = draw(name, COUNT, module).astype(int)
    values = np.arange(found.min(), found.max() + 1)
    expected = COUNTED[name].pmf(values) * COUNT
    enough = expected >= 10
    observed = np.bincount(found - values[0], minlength=len(values))[enough]
    expected = expected[enough] * observed.sum() / expected[enough].sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("mean", [0.0, 0.01, 9.0, 30.0, 1e4])
def test_poisson_of_small_and_large_means(module: Any, mean: float) -> None:
    FROM_ARRAYS["poisson"] = (mean,)
    try:
        found = draw("poisson", COUNT, module)
    finally:
        FROM_ARRAYS["poisson"] = (3.5,)
    assert found.mean() == pytest.approx(mean, abs=5 * (mean / COUNT) ** 0.5)
    assert found.var() == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("shape", [0.05, 1.0, 4.0, 500.0])
def test_gamma_of_small_and_large_shapes(module: Any, shape: float) -> None:
    FROM_ARRAYS["standard_gamma"] = (shape,)
    try:
        found = draw("standard_gamma", COUNT, module)
    finally:
        FROM_ARRAYS["standard_gamma"] = (0.7,)
    assert found.min() > 0
    assert stats.kstest(found, stats.gamma(shape).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 2.5, 30.0, 2000.0, 3e6])
def test_the_slope_of_a_gamma_number_keeps_its_quantile(module: Any, shape: float) -> None:
    quantiles = np.array([0.02, 0.3, 0.5, 0.9, 0.999])
    sample = special.gammaincinv(shape, quantiles)
    step = 1e-4 * shape
    points = [special.gammaincinv(shape + k * step, quantiles) for k in (-2, -1, 1, 2)]
    expected = (8 * (points[2] - points[1]) - (points[3] - points[0])) / (12 * step)
    a = np.full(len(quantiles), shape)
    found = np.empty_like(sample)
    if module is None:
        kernels.standard_gamma_grad(a, sample, found)
    else:
        arrays = [module.empty(a.shape, a.dtype) for _ in range(3)]
        arrays[0].set(a)
        arrays[1].set(sample)
        backend("cuda").standard_gamma_grad(*arrays)
        found = np.asarray(arrays[2].get())
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_the_slope_of_what_is_no_gamma_number_is_not_a_number() -> None:
    out = np.empty(3)
    kernels.standard_gamma_grad(np.array([-1.0, np.nan, 1.0]), np.array([1.0, 1.0, np.inf]), out)
    assert np.isnan(out).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex128"])
def test_a_ramp(module: Any, dtype: str) -> None:
    expected = 2 + (3 + np.arange(20_000)) * 5
    out = np.empty(20_000, dtype)
    if module is None:
        kernels.ramp(out, start=2, step=5, first=3)
    elif dtype == "complex128":
        pytest.skip("the double has no complex numbers")
    else:
        array = module.empty(out.shape, out.dtype)
        backend("cuda").ramp(array, start=2, step=5, first=3)
        out = np.asarray(array.get())
    np.testing.assert_array_equal(out, expected)
