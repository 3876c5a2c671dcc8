"""Batch norm, group norm, parametric relu and local response norm, beside plain formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array

Rng = np.random.Generator
EPS = 1e-3
# Few and many samples, channels and places: numbers lie along rows or along columns, in one block or in several.
SHAPES = [
    (4, 3, 5),
    (2, 3, 40),
    (3, 40, 5000),
    (6, 4, 1),
    (1, 3, 300_001),
    (70_001, 5, 1),
    (1, 50_001, 3),
    (0, 3, 4),
    (2, 3, 0),
]
DTYPES = pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-5), ("float64", 1e-11)])


def close(actual: Array, expected: Array, tolerance: float) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def normalized(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The input with mean 0 and variance 1, and the factor that did it."""
    rstd = 1 / np.sqrt(x.var(axes, keepdims=True) + EPS)
    return (x - x.mean(axes, keepdims=True)) * rstd, rstd


def by_input(g: Array, normal: Array, rstd: Array, axes: tuple[int, ...]) -> Array:
    return rstd * (g - g.mean(axes, keepdims=True) - normal * (g * normal).mean(axes, keepdims=True))


def along(numbers: Array) -> Array:
    return numbers[None, :, None]


@DTYPES
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if 0 not in shape])
def test_batch_norm(shape: tuple[int, ...], dtype: str, tolerance: float, rng: Rng, same_on_threads: Any) -> None:
    x, grad = (rng.standard_normal((2, *shape)) * 2 + 1).astype(dtype)
    w, b = rng.standard_normal((2, shape[1])).astype(dtype)
    numbers = [np.empty(shape[1], dtype) for _ in range(4)]

    def run() -> list[Array]:
        out, grad_x, (mean, variance, grad_w, grad_b) = np.empty_like(x), np.empty_like(x), numbers
        kernels.batch_norm(x, w, b, out, mean, variance, eps=EPS, given=False)
        kernels.batch_norm_backward(grad, x, w, mean, variance, grad_x, grad_w, grad_b, eps=EPS, given=False)
        return [out, grad_x, *[number.copy() for number in numbers]]

    found = same_on_threads(run)
    wide, g, axes = x.astype(float), grad.astype(float), (0, 2)
    normal, rstd = normalized(wide, axes)
    expected = [
        normal * along(w) + along(b),
        by_input(g * along(w), normal, rstd, axes),
        wide.mean(axes),
        wide.var(axes),
        (g * normal).sum(axes),
        g.sum(axes),
    ]
    for got, right in zip(found, expected, strict=True):
        close(got, right, tolerance * (40 if shape[0] * shape[2] < 10 else 4))


@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 3, 40)])
def test_batch_norm_with_given_statistics(shape: tuple[int, ...], rng: Rng) -> None:
    x, grad = rng.standard_normal((2, *shape))
    w, b, mean, variance = rng.random((4, 3)) + 0.5
    out, grad_x, grad_w, grad_b = np.empty(shape), np.empty(shape), np.empty(3), np.empty(3)
    kernels.batch_norm(x, w, b, out, mean, variance, eps=EPS, given=True)
    factor = 1 / np.sqrt(variance + EPS)
    normal = (x - along(mean)) * along(factor)
    close(out, normal * along(w) + along(b), 1e-12)
    kernels.batch_norm_backward(grad, x, w, mean, variance, grad_x, grad_w, grad_b, eps=EPS, given=True)
    close(grad_x, grad * along(factor * w), 1e-12)
    close(grad_w, (grad * normal).sum((0, 2)), 1e-12)
    close(grad_b, grad.sum((0, 2)), 1e-12)
    kernels.batch_norm_backward(grad, None, None, mean, variance, grad_x, None, grad_b, eps=EPS, given=True)
    close(grad_x, grad * along(factor), 1e-12)


@DTYPES
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", [(3, 6, 5), (2, 6, 40), (2, 6, 50_001), (400, 6, 2)])
def test_group_norm(
    shape: tuple[int, ...], groups: int, dtype: str, tolerance: float, rng: Rng, same_on_threads: Any
) -> None:
    n, c, length = shape
    x, grad = (rng.standard_normal((2, n, groups, c // groups, length)) * 2 + 1).astype(dtype)
    w, b = rng.standard_normal((2, groups, c // groups)).astype(dtype)
    numbers = [np.empty((n, groups), dtype) for _ in range(2)]
    weights = [np.empty((groups, c // groups), dtype) for _ in range(2)]

    def run() -> list[Array]:
        out, grad_x = np.empty_like(x), np.empty_like(x)
        kernels.group_norm(x, w, b, out, *numbers, eps=EPS)
        kernels.group_norm_backward(grad, x, w, *numbers, grad_x, *weights, eps=EPS)
        return [out, grad_x, *[array.copy() for array in (*numbers, *weights)]]

    found = same_on_threads(run)
    wide, g, axes = x.astype(float), grad.astype(float), (2, 3)
    normal, rstd = normalized(wide, axes)
    factor = w[None, :, :, None].astype(float)
    expected = [
        normal * factor + b[None, :, :, None],
        by_input(g * factor, normal, rstd, axes),
        wide.mean(axes),
        wide.var(axes),
        (g * normal).sum((0, 3)),
        g.sum((0, 3)),
    ]
    for got, right in zip(found, expected, strict=True):
        close(got, right, tolerance * (200 if length < 3 else 20))
    kernels.group_norm_backward(grad, None, w, *numbers, None, None, weights[1], eps=EPS)
    np.testing.assert_array_equal(weights[1], found[5])


def test_norms_of_nothing(rng: Rng) -> None:
    for shape in ((0, 3, 4), (2, 3, 0)):
        x, out = np.empty(shape), np.empty(shape)
        mean, variance, grad_w, grad_b = np.zeros((4, 3))
        kernels.batch_norm(x, None, None, out, mean, variance, eps=EPS, given=False)
        assert np.isnan([mean, variance]).all()
        kernels.batch_norm_backward(x, x, None, mean, variance, out, grad_w, grad_b, eps=EPS, given=False)
        assert not np.any([grad_w, grad_b])


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_prelu(shape: tuple[int, ...], one: bool, rng: Rng, same_on_threads: Any) -> None:
    x, grad = rng.standard_normal((2, *shape))
    shape = (1, 1, x.size) if one else shape
    x, grad, w = x.reshape(shape), grad.reshape(shape), rng.standard_normal(shape[1])

    def run() -> list[Array]:
        out, grad_x, grad_w = np.empty(shape), np.empty(shape), np.empty(shape[1])
        kernels.prelu(x, w, out)
        kernels.prelu_backward(grad, x, w, grad_x, grad_w)
        return [out, grad_x, grad_w]

    out, grad_x, grad_w = same_on_threads(run)
    np.testing.assert_array_equal(out, np.where(x > 0, x, x * along(w)))
    np.testing.assert_array_equal(grad_x, np.where(x > 0, grad, grad * along(w)))
    close(grad_w, np.where(x > 0, 0, grad * x).sum((0, 2)), 1e-12)
    kernels.prelu_backward(grad, x, None, None, grad_w)
    kernels.prelu(x, w, x)
    np.testing.assert_array_equal(x, out)


def window_sums(x: Array, before: int, after: int) -> Array:
    channels = x.shape[1]
    parts = [x[:, max(0, c - before) : c + after + 1].sum(1) for c in range(channels)]
    return np.stack(parts, 1)


@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 1, 4), (3, 7, 60_001), (2, 0, 3), (0, 3, 3)])
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_local_response_norm(shape: tuple[int, ...], size: int, rng: Rng, same_on_threads: Any) -> None:
    x, grad = rng.standard_normal((2, *shape))
    keywords = {"size": size, "alpha": 0.9, "beta": 0.75, "k": 1.5}

    def run() -> list[Array]:
        out, grad_x, sums = np.empty(shape), np.empty(shape), np.empty(shape)
        kernels.local_response_norm(x, out, **keywords)
        kernels.local_response_norm_backward(grad, x, grad_x, **keywords)
        kernels.window_sum(x, sums, before=size // 2, after=(size - 1) // 2)
        return [out, grad_x, sums]

    out, grad_x, sums = same_on_threads(run)
    if not x.size:
        return
    d = 1.5 + 0.9 / size * window_sums(x * x, size // 2, (size - 1) // 2)
    close(sums, window_sums(x, size // 2, (size - 1) // 2), 1e-13)
    close(out, x / d**0.75, 1e-13)
    through = window_sums(grad * x / d**1.75, (size - 1) // 2, size // 2)
    close(grad_x, grad / d**0.75 - 2 * 0.9 * 0.75 / size * x * through, 1e-13)
