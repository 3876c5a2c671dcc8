"""Smooth activations and their gradients, gates, and activations of sums, beside plain formulas in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

Rng = np.random.Generator
Function = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def elu(x: Array) -> Array:
    return np.where(x <= 0, 1.3 * 1.1 * np.expm1(np.minimum(x, 0) * 0.7), 1.1 * x)


def elu_slope(x: Array) -> Array:
    return np.where(x <= 0, 1.3 * 1.1 * 0.7 * np.exp(np.minimum(x, 0) * 0.7), 1.1)


def mish_slope(x: Array) -> Array:
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1 - t * t)


# Name, keywords, value, slope, whether backward reads the result.
SMOOTH: list[tuple[str, dict[str, float], Function, Function, bool]] = [
    ("elu", {"alpha": 1.3, "scale": 1.1, "input_scale": 0.7}, elu, elu_slope, True),
    (
        "elu",
        {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0},
        lambda x: np.where(x <= 0, np.expm1(np.minimum(x, 0)), x),
        lambda x: np.exp(np.minimum(x, 0)),
        True,
    ),
    ("softplus", {"beta": 1.0, "threshold": 20.0}, softplus, sigmoid, False),
    (
        "softplus",
        {"beta": 2.0, "threshold": 3.0},
        lambda x: np.where(2 * x > 3, x, softplus(2 * x) / 2),
        lambda x: np.where(2 * x > 3, 1, sigmoid(2 * x)),
        False,
    ),
    ("log_sigmoid", {}, lambda x: -softplus(-x), lambda x: sigmoid(-x), True),
    ("mish", {}, lambda x: x * np.tanh(softplus(x)), mish_slope, False),
    ("softsign", {}, lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2, False),
    (
        "hardswish",
        {},
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)),
        False,
    ),
]
NAMES = [f"{entry[0]} {number}" for number, entry in enumerate(SMOOTH)]
over_smooth = pytest.mark.parametrize(("name", "keywords", "value", "slope", "by_result"), SMOOTH, ids=NAMES)


@over_smooth
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 4e-15)])
def test_values_and_slopes(
    name: str, keywords: Any, value: Any, slope: Any, by_result: bool, dtype: str, tolerance: float
) -> None:
    tails = np.concatenate([np.linspace(0, 12, 2001), np.geomspace(1e-20, 1, 201), [50, 300]])
    x = np.concatenate([tails, -tails]).astype(dtype)
    wide, out, grad_x = x.astype(float), np.empty_like(x), np.empty_like(x)
    getattr(kernels, name)(x, out, **keywords)
    np.testing.assert_allclose(out, value(wide), rtol=4 * tolerance, atol=tolerance)
    getattr(kernels, f"{name}_backward")(np.full_like(x, 2), out if by_result else x, grad_x, **keywords)
    np.testing.assert_allclose(grad_x, 2 * slope(wide), rtol=4 * tolerance, atol=2 * tolerance)


@over_smooth
def test_tiles_strides_threads_and_in_place(
    name: str, keywords: Any, value: Any, slope: Any, by_result: bool, rng: Rng, same_on_threads: Any
) -> None:
    x, grad = rng.standard_normal((2, 3, 200_003)).astype("f")

    def run() -> tuple[Array, Array]:
        out, grad_x = np.empty_like(x), np.empty_like(x)
        getattr(kernels, name)(x, out, **keywords)
        getattr(kernels, f"{name}_backward")(grad, out if by_result else x, grad_x, **keywords)
        return out, grad_x

    out, grad_x = same_on_threads(run)
    again = np.empty_like(x)
    for variant in strided_like(x):
        getattr(kernels, name)(variant, again, **keywords)
        np.testing.assert_allclose(again, out, rtol=1e-6, atol=1e-7)
    again = x.copy()
    getattr(kernels, name)(again, again, **keywords)
    np.testing.assert_array_equal(again, out)
    for which in (0, 1):
        pair = [grad.copy(), (out if by_result else x).copy()]
        getattr(kernels, f"{name}_backward")(*pair, pair[which], **keywords)
        np.testing.assert_array_equal(pair[which], grad_x)


# The kernel that computes the activation alone, its keywords, and whether its gradient reads the result.
PLAIN: dict[str, tuple[str, dict[str, str], bool]] = {
    "gelu": ("gelu", {"approximate": "none"}, False),
    "gelu_tanh": ("gelu", {"approximate": "tanh"}, False),
    "hardswish": ("hardswish", {}, False),
    "mish": ("mish", {}, False),
    "sigmoid": ("sigmoid", {}, True),
    "silu": ("silu", {}, False),
    "tanh": ("tanh", {}, True),
}


def plain(activation: str, x: Array, grad: Array) -> tuple[Array, Array]:
    """Value and gradient of an activation alone."""
    if activation == "relu":
        return np.maximum(x, 0), np.where(x <= 0, 0, grad)
    name, keywords, by_result = PLAIN[activation]
    out, grad_x = np.empty_like(x), np.empty_like(x)
    getattr(kernels, name)(x, out, **keywords)
    getattr(kernels, f"{name}_backward")(grad, out if by_result else x, grad_x, **keywords)
    return out, grad_x


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5), (3, 100_003)])
@pytest.mark.parametrize("activation", [*PLAIN, "relu"])
def test_gates_and_sums(activation: str, shape: tuple[int, ...], rng: Rng) -> None:
    x, gate, grad = (np.array(rng.standard_normal(shape)) for _ in range(3))
    outs = [np.empty(shape) for _ in range(3)]
    value, slope = plain(activation, x, grad)
    for given, factor, upstream in zip(*map(strided_like, (x, gate, grad)), strict=True):
        kernels.gated(given, factor, outs[0], activation=activation)
        kernels.gated_backward(upstream, given, factor, *outs[1:], activation=activation)
        for got, expected in zip(outs, (value * gate, slope * gate, value * grad), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    bias = np.array(rng.standard_normal(shape[-1:]))
    value, slope = plain(activation, np.asarray(x + bias), grad)
    for given, upstream in zip(strided_like(x), strided_like(grad), strict=True):
        kernels.bias_activation(given, bias, outs[0], activation=activation)
        kernels.bias_activation_backward(upstream, given, bias, outs[1], activation=activation)
        for got, expected in zip(outs, (value, slope), strict=False):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    kernels.bias_activation(x, bias, x, activation=activation)
    np.testing.assert_array_equal(x, outs[0])


def test_a_gate_gives_the_gradients_that_are_asked_for(rng: Rng) -> None:
    grad, x, gate = rng.standard_normal((3, 50))
    whole, alone = np.empty((2, 50)), np.empty((2, 50))
    kernels.gated_backward(grad, x, gate, whole[0], whole[1], activation="silu")
    kernels.gated_backward(grad, x, gate, alone[0], None, activation="silu")
    kernels.gated_backward(grad, x, None, None, alone[1], activation="silu")
    np.testing.assert_array_equal(whole, alone)


@pytest.mark.parametrize("count", [2, 300000])
def test_the_largest_numbers_overflow_silently(count: int) -> None:
    x = np.resize(np.array([3e38, -3e38], np.float32), count)
    out = np.empty_like(x)
    with np.errstate(over="raise"):
        kernels.softplus(x, out, beta=1.0, threshold=20.0)
        np.testing.assert_array_equal(out, np.maximum(x, 0))
        kernels.log_sigmoid(x, out)
        np.testing.assert_array_equal(out, np.minimum(x, 0))
        kernels.erf_backward(np.ones_like(x), x / np.float32(1e19), out)
        np.testing.assert_array_equal(out, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [4, 300000])
def test_gelu_far_out(count: int, dtype: str) -> None:
    x = np.resize(np.array([np.inf, 1e15, -1e15, 30.0], dtype), count)
    out, slope = np.empty_like(x), np.empty_like(x)
    for approximate in ("none", "tanh"):
        kernels.gelu(x, out, approximate=approximate)
        np.testing.assert_array_equal(out, np.where(x > 0, x, 0))
        kernels.gelu_backward(np.ones_like(x[1:]), x[1:], slope[1:], approximate=approximate)
        np.testing.assert_array_equal(slope[1:4], [1, 0, 1])
