"""What stands in for NumPy's functions of float32 where this processor has no vector instructions for them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_ import elementwise, exponentials

from .support import Array, strided_like

gelu_module = importlib.import_module("stowgrad.kernels.numpy_.gelu")
NORMAL = float(np.finfo(np.float32).tiny)


@pytest.fixture(params=[True, False], ids=["fast", "slow"])
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether NumPy is said to be fast; what has been chosen for that is forgotten before and after."""
    for module in (exponentials, elementwise):
        monkeypatch.setattr(module, "is_fast", lambda name: request.param)
    chosen = (exponentials.fast_exponential, exponentials._in_base, gelu_module._steps)
    for function in chosen:
        function.cache_clear()
    yield request.param
    monkeypatch.undo()
    for function in chosen:
        function.cache_clear()


def around_zero(largest: float) -> Array:
    """Both signs, from the smallest normal number on."""
    sizes = np.concatenate([np.geomspace(NORMAL, min(largest, 1), 2001), np.linspace(0, largest, 4001)])
    return np.concatenate([sizes, -sizes]).astype("float32")


def test_it_is_known_what_is_fast_here() -> None:
    assert not exponentials.is_fast("no function of NumPy")
    assert all(isinstance(exponentials.is_fast(name), bool) for name in ("exp", "exp2", "expm1", "log1p"))


def test_an_older_numpy_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy.lib.introspect", None)
    assert not exponentials.is_fast.__wrapped__("exp2")


def test_expm1(fast: bool) -> None:
    x = around_zero(88)
    out = np.empty_like(x)
    kernels.expm1(x, out)
    np.testing.assert_allclose(out, np.expm1(x.astype(float)), rtol=5e-7, atol=0)


def test_log1p(fast: bool) -> None:
    x = np.concatenate([around_zero(0.999999), np.geomspace(1, 3e38, 2001).astype("float32")])
    out = np.empty_like(x)
    kernels.log1p(x, out)
    np.testing.assert_allclose(out, np.log1p(x.astype(float)), rtol=4e-7, atol=0)


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_special_values(fast: bool, name: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, -1.0, -2.0, 3e38, -3e38], "float32")
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        getattr(kernels, name)(x, out)
        expected = getattr(np, name)(x.astype(float)).astype("float32")
    np.testing.assert_allclose(out, expected, rtol=3e-7)
    assert np.signbit(out[4])


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_strides_tiles_and_in_place(fast: bool, name: str, rng: np.random.Generator) -> None:
    kernel = getattr(kernels, name)
    x = rng.uniform(-0.9, 3, (3, 200_003)).astype("float32")
    expected = np.stack([_applied(kernel, row) for row in x])
    for variant in strided_like(x):
        np.testing.assert_array_equal(_applied(kernel, variant), expected)
    kernel(x, x)
    np.testing.assert_array_equal(x, expected)


def _applied(kernel: Any, x: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    kernel(x, out)
    return out


@pytest.mark.parametrize("name", ["expm1", "log1p"])
def test_other_dtypes_and_a_number(fast: bool, name: str) -> None:
    kernel, reference = getattr(kernels, name), getattr(np, name)
    for dtype in ("float16", "float64", "complex64"):
        x = np.linspace(0.1, 2, 7).astype(dtype)
        np.testing.assert_array_equal(_applied(kernel, x), reference(x))
    out = np.empty((2, 3), "float32")
    kernel(np.float32(0.5), out)
    np.testing.assert_allclose(out, reference(0.5), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_expm1_of_negative_and_log1p_of_positive(fast: bool, dtype: str) -> None:
    x = np.concatenate([np.geomspace(NORMAL, 1e30, 4001), [0.0]]).astype(dtype)
    for helper, scratch, values, reference in (
        (exponentials.expm1_of_negative, exponentials.expm1_scratch, -x, np.expm1),
        (exponentials.log1p_of_positive, exponentials.log1p_scratch, x, np.log1p),
    ):
        expected = reference(values.astype(float))
        work = [np.empty_like(x) for _ in scratch(x.dtype)]
        assert bool(work) is (dtype == "float32" and not fast)
        helper(values, values, *work)
        np.testing.assert_allclose(values, expected, rtol=4e-7 if dtype == "float32" else 1e-15, atol=0)


@pytest.mark.parametrize("factor", [-1.0, 0.25])
def test_exp_of_product(fast: bool, factor: float) -> None:
    for dtype, each in (("float32", 2e-7), ("float64", 1e-15)):
        x = np.linspace(-80, 80, 4001).astype(dtype)
        expected = np.exp(factor * x.astype(float))
        exponentials.exp_of_product(x, factor, x)
        bound = each * (1 + np.abs(np.linspace(-80, 80, 4001) * factor))
        assert (np.abs(x / expected - 1) <= bound).all()


def test_activations_are_right_either_way(fast: bool) -> None:
    x = np.linspace(-12, 12, 4001).astype("float32")
    wide, out, grad = x.astype(float), np.empty_like(x), np.ones_like(x)
    decay = np.exp(-wide)
    kernels.sigmoid(x, out)
    np.testing.assert_allclose(out, 1 / (1 + decay), rtol=3e-6)
    kernels.silu(x, out)
    np.testing.assert_allclose(out, wide / (1 + decay), rtol=3e-6)
    kernels.softplus(x, out, beta=1.0, threshold=20.0)
    np.testing.assert_allclose(out, np.log1p(np.exp(wide)), rtol=3e-6)
    kernels.softplus_backward(grad, x, out, beta=1.0, threshold=20.0)
    np.testing.assert_allclose(out, 1 / (1 + decay), rtol=3e-6)
    kernels.log_sigmoid(x, out)
    np.testing.assert_allclose(out, -np.log1p(decay), rtol=3e-6)
    y = out.copy()
    kernels.log_sigmoid_backward(grad, y, out)
    np.testing.assert_allclose(out, decay / (1 + decay), rtol=0, atol=1e-6)
    kernels.elu(x, out, alpha=1.0, scale=1.0, input_scale=1.0)
    np.testing.assert_allclose(out, np.where(wide > 0, wide, np.expm1(wide)), rtol=3e-6)
    kernels.elu(x, out, alpha=1.5, scale=2.0, input_scale=0.5)
    np.testing.assert_allclose(out, 2 * np.where(wide > 0, wide, 1.5 * np.expm1(0.5 * wide)), rtol=3e-6)


def test_gelu_is_right_either_way(fast: bool) -> None:
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-12, 12, 40_001).astype("float32")
    wide, out, grad = x.astype(float), np.empty_like(x), np.ones_like(x)
    below = special.ndtr(wide)
    kernels.gelu(x, out)
    assert (np.abs(out - wide * below) <= 1.5e-7 * (1 + np.abs(wide))).all()
    near = np.abs(x) < 5
    np.testing.assert_allclose(out[near], (wide * below)[near], rtol=1e-5)
    kernels.gelu_backward(grad, x, out)
    np.testing.assert_allclose(out, below + wide * np.exp(-(wide**2) / 2) / np.sqrt(2 * np.pi), rtol=0, atol=5e-7)
    kernels.erf(x, out)
    np.testing.assert_allclose(out, special.erf(wide), rtol=4e-7)


def test_gelu_of_special_values(fast: bool) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 20, -20], "float32")
    out = np.empty_like(x)
    kernels.gelu(x, out)
    np.testing.assert_array_equal(out, np.array([np.inf, np.nan, np.nan, 0, 0, 1e30, 0, 20, 0], "float32"))
    assert np.signbit(out[4])
    kernels.gelu_backward(np.ones_like(x), x, out)
    np.testing.assert_allclose(out[3:], [0.5, 0.5, 1, 0, 1, 0], atol=1e-7)
    assert np.isnan(out[:3]).all()
