from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

TOLERANCE = {"float32": 1e-6, "float64": 4e-15}
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def values(dtype: str) -> Array:
    """From 0 into both tails, with signed zeros and tiny numbers."""
    tails = np.concatenate([np.linspace(0, 12, 4001), np.geomspace(1e-30, 1, 301)])
    return np.concatenate([tails, -tails]).astype(dtype)


def by_element(function: Callable[[float], float], x: Array) -> Array:
    return np.array([function(float(value)) for value in x.ravel()]).reshape(x.shape)


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize(("dtype", "absolute", "relative"), [("float32", 1.5e-7, 3e-7), ("float64", 1e-15, 1e-15)])
def test_erf_is_accurate(dtype: str, absolute: float, relative: float) -> None:
    x = values(dtype)
    out = np.empty_like(x)
    kernels.erf(x, out)
    expected = by_element(math.erf, x)
    assert np.abs(out - expected).max() < absolute
    np.testing.assert_allclose(out, expected, rtol=relative, atol=0)
    kernels.erf_backward(np.full_like(x, 2), x, out)
    slope = 2 / math.sqrt(math.pi) * np.exp(-(x.astype(float) ** 2))
    np.testing.assert_allclose(out, 2 * slope, rtol=0, atol=6 * absolute)


@DTYPES
def test_erf_of_special_values(dtype: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30], dtype)
    out = np.empty_like(x)
    kernels.erf(x, out)
    np.testing.assert_array_equal(out, np.array([1, -1, np.nan, 0, -0.0, 1], dtype))
    assert np.signbit(out[4])


@DTYPES
def test_gelu(dtype: str) -> None:
    x = values(dtype)
    out = np.empty_like(x)
    kernels.gelu(x, out)
    expected = by_element(lambda value: value * normal_cdf(value), x)
    np.testing.assert_allclose(out, expected, rtol=0, atol=TOLERANCE[dtype] * 12)
    np.testing.assert_allclose(out[np.abs(x) < 5], expected[np.abs(x) < 5], rtol=50 * TOLERANCE[dtype], atol=1e-35)
    kernels.gelu_backward(np.full_like(x, 2), x, out)
    density = np.exp(-(x.astype(float) ** 2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(out, 2 * (by_element(normal_cdf, x) + x * density), rtol=0, atol=TOLERANCE[dtype] * 3)


@DTYPES
def test_gelu_tanh(dtype: str) -> None:
    x = values(dtype)
    out = np.empty_like(x)
    kernels.gelu(x, out, approximate="tanh")
    wide = x.astype(float)
    tanh = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    np.testing.assert_allclose(out, 0.5 * wide * (1 + tanh), rtol=0, atol=TOLERANCE[dtype] * 12)
    kernels.gelu_backward(np.full_like(x, 2), x, out, approximate="tanh")
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * wide**2)
    expected = (1 + tanh) + wide * (1 - tanh**2) * slope
    np.testing.assert_allclose(out, expected, rtol=0, atol=TOLERANCE[dtype] * 12)


@DTYPES
def test_sigmoid_and_silu(dtype: str) -> None:
    x = np.concatenate([values(dtype), np.array([-1000, 1000], dtype)])
    wide = x.astype(float)
    with np.errstate(over="ignore"):
        s = 1 / (1 + np.exp(-wide))
    out, grad = np.empty_like(x), np.full_like(x, 3)
    kernels.sigmoid(x, out)
    np.testing.assert_allclose(out, s, rtol=4 * TOLERANCE[dtype], atol=1e-37)
    y = out.copy()
    kernels.sigmoid_backward(grad, y, out)
    np.testing.assert_allclose(out, 3 * s * (1 - s), rtol=0, atol=TOLERANCE[dtype])
    kernels.silu(x, out)
    np.testing.assert_allclose(out, wide * s, rtol=4 * TOLERANCE[dtype], atol=1e-34)
    kernels.silu_backward(grad, x, out)
    np.testing.assert_allclose(out, 3 * s * (1 + wide * (1 - s)), rtol=0, atol=20 * TOLERANCE[dtype])


def test_tanh_backward(rng: np.random.Generator) -> None:
    y, grad = rng.uniform(-1, 1, 1000), rng.standard_normal(1000)
    out = np.empty_like(y)
    kernels.tanh_backward(grad, y, out)
    np.testing.assert_allclose(out, grad * (1 - y**2), rtol=1e-14)


@DTYPES
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (7, 100_003)])
def test_relu_keeps_one_bit_an_element(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(dtype)
    grad = rng.standard_normal(shape).astype(dtype)
    if x.size > 3:
        x.flat[:3] = [np.nan, np.inf, 0]
        grad.flat[:4] = [np.inf, -np.inf, np.inf, np.nan]
    bits = np.empty(kernels.packed_size(x.size), np.uint8)
    out, grad_x = np.empty_like(x), np.empty_like(x)
    for variant, upstream in zip(strided_like(x), strided_like(grad), strict=True):
        kernels.relu(variant, out, bits)
        np.testing.assert_array_equal(out, np.maximum(x, 0))
        np.testing.assert_array_equal(bits, np.packbits(~(x <= 0)))
        kernels.relu_backward(upstream, bits, grad_x)
        np.testing.assert_array_equal(grad_x, np.where(x <= 0, 0, grad).astype(dtype))
    kernels.relu(x, out)
    np.testing.assert_array_equal(out, np.maximum(x, 0))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [100, 4097, 600_001])
def test_masks_in_place(dtype: str, size: int, rng: np.random.Generator) -> None:
    keep, minus = rng.random(size) < 0.5, rng.random(size) < 0.5
    bits, minus_bits = np.packbits(keep), np.packbits(minus)
    grad = rng.standard_normal(size).astype(dtype)
    grad[:4] = [np.nan, np.inf, -np.inf, -0.0]
    scale, slope = np.array(2.0, dtype), np.array(0.25, dtype)
    for kernel, expected in (
        (kernels.relu_backward, np.where(keep, grad, 0)),
        (lambda g, b, out: kernels.dropout_backward(g, b, out, p=0.5), np.where(keep, grad * scale, 0)),
        (
            lambda g, b, out: kernels.masked_slope(g, b, out, inside=1.0, outside=0.25),
            np.where(keep, grad, grad * slope),
        ),
        (lambda g, b, out: kernels.masked_slope(g, b, out, inside=0.25, outside=0.0), np.where(keep, grad * slope, 0)),
        (
            lambda g, b, out: kernels.turn_marked(g, np.packbits(~minus), minus_bits, out),
            np.where(minus, -grad, grad),
        ),
        (
            lambda g, b, out: kernels.turn_marked(g, np.packbits(keep & ~minus), minus_bits, out),
            np.where(minus, -grad, np.where(keep, grad, 0)),
        ),
    ):
        out, inside = np.empty_like(grad), grad.copy()
        kernel(grad, bits, out)
        np.testing.assert_array_equal(out, expected)
        kernel(inside, bits, inside)
        np.testing.assert_array_equal(inside, expected)


FORWARD = [
    kernels.gelu,
    lambda x, out: kernels.gelu(x, out, approximate="tanh"),
    kernels.erf,
    kernels.sigmoid,
    kernels.silu,
    kernels.relu,
]
BACKWARD = [
    kernels.gelu_backward,
    lambda g, x, out: kernels.gelu_backward(g, x, out, approximate="tanh"),
    kernels.sigmoid_backward,
    kernels.tanh_backward,
    kernels.silu_backward,
    kernels.erf_backward,
]


@pytest.mark.parametrize("kernel", FORWARD)
def test_forward_on_tiles_strides_threads_and_in_place(
    kernel: Any, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x = rng.standard_normal((3, 200_003)).astype("float32")
    whole = np.stack([_applied(kernel, row) for row in x])

    def run() -> Array:
        return _applied(kernel, x)

    np.testing.assert_array_equal(same_on_threads(run), whole)
    for variant in strided_like(x):
        np.testing.assert_allclose(_applied(kernel, variant), whole, rtol=1e-6, atol=1e-7)
    target = x.copy()
    kernel(target, target)
    np.testing.assert_array_equal(target, whole)


@pytest.mark.parametrize("kernel", BACKWARD)
def test_backward_in_place_of_either_input(kernel: Any, rng: np.random.Generator) -> None:
    grad, x = rng.standard_normal((2, 1000))
    expected = np.empty_like(x)
    kernel(grad, x, expected)
    for which in (0, 1):
        pair = [grad.copy(), x.copy()]
        kernel(*pair, pair[which])
        np.testing.assert_array_equal(pair[which], expected)


def _applied(kernel: Any, x: Array) -> Array:
    out = np.empty(x.shape, x.dtype)
    kernel(x, out)
    return out
