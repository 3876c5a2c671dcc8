"""Activations of straight lines: values, bits, gradients; on tiles, strides, threads and in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

Rng = np.random.Generator

# Name, keywords, value, where the bits are set.
LINES: list[tuple[str, dict[str, float], Callable[[Array], Array], Callable[[Array], Array]]] = [
    ("hardtanh", {"low": -0.5, "high": 1.0}, lambda x: np.clip(x, -0.5, 1), lambda x: ~((x <= -0.5) | (x >= 1))),
    ("threshold", {"threshold": 0.25, "value": 9.0}, lambda x: np.where(x <= 0.25, 9, x), lambda x: ~(x <= 0.25)),
    ("hardshrink", {"lambd": 0.5}, lambda x: np.where(np.abs(x) <= 0.5, 0, x), lambda x: ~(np.abs(x) <= 0.5)),
    ("softshrink", {"lambd": 0.5}, lambda x: x - np.clip(x, -0.5, 0.5), lambda x: ~(np.abs(x) <= 0.5)),
    ("leaky_relu", {"slope": 0.125}, lambda x: np.where(x > 0, x, 0.125 * x), lambda x: x > 0),
    ("hardsigmoid", {}, lambda x: np.clip(x + 3, 0, 6) / 6, lambda x: np.abs(x) < 3),
]
NAMES = [line[0] for line in LINES]


def applied(name: str, x: Array, **keywords: float) -> tuple[Array, Array]:
    out, bits = np.empty(x.shape, x.dtype), np.empty(kernels.packed_size(x.size), np.uint8)
    getattr(kernels, name)(x, out, bits, **keywords)
    return out, bits


def drawn(shape: tuple[int, ...], dtype: str, rng: Rng) -> Array:
    x = np.array(rng.standard_normal(shape) * 3, dtype)
    if x.size > 8:
        x.flat[:8] = [np.nan, np.inf, -np.inf, 0, 0.5, -0.5, 3, -3]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (7, 100_003)])
@pytest.mark.parametrize(("name", "keywords", "value", "keep"), LINES, ids=NAMES)
def test_values_and_bits(
    name: str, keywords: Any, value: Any, keep: Any, shape: tuple[int, ...], dtype: str, rng: Rng
) -> None:
    x = drawn(shape, dtype, rng)
    with np.errstate(invalid="ignore"):
        expected, bits_expected = value(x).astype(dtype), np.packbits(keep(x))
    for variant in strided_like(x):
        out, bits = applied(name, variant, **keywords)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        np.testing.assert_array_equal(bits, bits_expected)
    bits = np.empty_like(bits)
    getattr(kernels, name)(x, x, bits, **keywords)
    np.testing.assert_array_equal(x, out)
    np.testing.assert_array_equal(bits, bits_expected)


@pytest.mark.parametrize(("name", "keywords"), [line[:2] for line in LINES], ids=NAMES)
def test_threads_make_no_difference(name: str, keywords: Any, rng: Rng, same_on_threads: Any) -> None:
    x = rng.standard_normal((3, 200_003)).astype("float32")
    same_on_threads(lambda: applied(name, x, **keywords))


@pytest.mark.parametrize(("low", "high"), [(-1, 6)])
def test_integers_are_held_between_integers(low: int, high: int) -> None:
    out, bits = applied("hardtanh", np.array([-3, -1, 0, 5, 6, 9]), low=low, high=high)
    assert out.tolist() == [-1, -1, 0, 5, 6, 6]
    assert np.unpackbits(bits, count=6).tolist() == [0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (7, 100_003)])
@pytest.mark.parametrize(("inside", "outside"), [(1.0, 0.0), (2.0, 0.25), (0.5, 0.0)])
def test_masked_slope(inside: float, outside: float, shape: tuple[int, ...], rng: Rng) -> None:
    grad, keep = rng.standard_normal(shape).astype("f"), rng.random(shape) > 0.4
    bits, grad_x = np.packbits(keep), np.empty(shape, "f")
    expected = np.where(keep, grad * np.float32(inside), grad * np.float32(outside))
    for variant in strided_like(grad):
        kernels.masked_slope(variant, bits, grad_x, inside=inside, outside=outside)
        np.testing.assert_array_equal(grad_x, expected)
    grad = np.array(grad)
    kernels.masked_slope(grad, bits, grad, inside=inside, outside=outside)
    np.testing.assert_array_equal(grad, expected)


def test_an_infinite_gradient_is_dropped_where_the_slope_is_zero() -> None:
    grad, bits = np.array([np.inf, np.nan, np.inf]), np.packbits([False, False, True])
    kernels.masked_slope(grad, bits, grad, inside=1.0, outside=0.0)
    assert grad.tolist() == [0.0, 0.0, np.inf]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rrelu_draws_the_same_slopes_again(dtype: str, rng: Rng, same_on_threads: Any) -> None:
    x = rng.standard_normal((3, 100_001)).astype(dtype)
    keywords = {"lower": 0.1, "upper": 0.3, "key": 5, "counter": 9}
    out, bits = same_on_threads(lambda: applied("rrelu", x, **keywords))
    np.testing.assert_array_equal(out[x > 0], x[x > 0])
    np.testing.assert_array_equal(bits, np.packbits(x > 0))
    slopes = (out / x)[x < 0]
    assert slopes.min() > 0.0999
    assert slopes.max() < 0.3001
    assert slopes.mean() == pytest.approx(0.2, abs=1e-3)
    grad_x = np.empty_like(x)
    kernels.rrelu_backward(np.ones_like(x), bits, grad_x, **keywords)
    np.testing.assert_allclose(grad_x[x < 0], slopes, rtol=1e-5)
    np.testing.assert_array_equal(grad_x[x > 0], 1)
    kernels.rrelu(x, x, bits, **keywords)
    np.testing.assert_array_equal(x, out)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_alpha_dropout_keeps_what_dropout_keeps(p: float, rng: Rng, same_on_threads: Any) -> None:
    x = rng.standard_normal((2, 150_001)).astype("f")
    numbers = {"scale": 1.5, "shift": 0.25, "dropped": -2.0}
    out, bits = same_on_threads(lambda: applied("alpha_dropout", x, p=p, key=3, counter=7, **numbers))
    _, expected = applied("dropout", x, p=p, key=3, counter=7)
    np.testing.assert_array_equal(bits, expected)
    kept = np.unpackbits(bits, count=x.size).reshape(x.shape).astype(bool)
    np.testing.assert_allclose(out, np.where(kept, x * 1.5 + 0.25, -2), rtol=1e-5, atol=1e-6)
