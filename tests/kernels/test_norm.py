from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

EPS = 1e-5
SHAPES = [(0, 4), (1, 1), (5, 7), (300, 384), (64, 511), (64, 512), (4000, 200), (1500, 600), (3, 300_001)]
DTYPES = pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])


def layer_norm_reference(x: Array, w: Array, b: Array, grad: Array) -> tuple[Array, ...]:
    """Result, mean, rstd and the gradients of x, w and b."""
    mean = x.mean(1)
    rstd = 1 / np.sqrt(x.var(1) + EPS)
    normal = (x - mean[:, None]) * rstd[:, None]
    g = grad * w
    average = g.mean(1, keepdims=True) + normal * (g * normal).mean(1, keepdims=True)
    return normal * w + b, mean, rstd, rstd[:, None] * (g - average), (grad * normal).sum(0), grad.sum(0)


def close(actual: Array, expected: Array, tolerance: float) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("shape", SHAPES)
@DTYPES
def test_layer_norm(shape: tuple[int, int], dtype: str, tolerance: float, rng: np.random.Generator) -> None:
    x, grad = (rng.standard_normal((2, *shape)) * 2 + 1).astype(dtype)
    w, b = rng.standard_normal((2, shape[1])).astype(dtype)
    expected = layer_norm_reference(*[a.astype(float) for a in (x, w, b, grad)])
    for source, upstream in zip(strided_like(x), strided_like(grad), strict=True):
        outs = [np.empty(e.shape, dtype) for e in expected]
        out, mean, rstd, grad_x, grad_w, grad_b = outs
        kernels.layer_norm(source, w, b, out, mean, rstd, eps=EPS)
        kernels.layer_norm_backward(upstream, source, w, mean, rstd, grad_x, grad_w, grad_b)
        for actual, right in zip(outs, expected, strict=True):
            close(actual, right, tolerance)


def test_layer_norm_without_weight_and_with_some_gradients(rng: np.random.Generator) -> None:
    x, grad = rng.standard_normal((2, 50, 20))
    one, zero = np.ones(20), np.zeros(20)
    expected = layer_norm_reference(x, one, zero, grad)
    out, mean, rstd = np.empty_like(x), np.empty(50), np.empty(50)
    kernels.layer_norm(x, None, None, out, mean, rstd, eps=EPS)
    close(out, expected[0], 1e-13)
    grad_x, grad_w = np.empty_like(x), np.empty(20)
    kernels.layer_norm_backward(grad, x, None, mean, rstd, grad_x, None, None)
    close(grad_x, expected[3], 1e-13)
    kernels.layer_norm_backward(grad, x, one, mean, rstd, None, grad_w, None)
    close(grad_w, expected[4], 1e-13)


@pytest.mark.parametrize("which", ["grad", "x"])
def test_layer_norm_backward_in_place(which: str, rng: np.random.Generator) -> None:
    arrays = {"grad": rng.standard_normal((50, 20)), "x": rng.standard_normal((50, 20))}
    w = rng.standard_normal(20)
    expected = layer_norm_reference(arrays["x"], w, w, arrays["grad"])
    kernels.layer_norm_backward(
        arrays["grad"], arrays["x"], w, expected[1], expected[2], arrays[which], np.empty(20), np.empty(20)
    )
    close(arrays[which], expected[3], 1e-13)


@pytest.mark.parametrize("shape", SHAPES)
@DTYPES
def test_rms_norm(shape: tuple[int, int], dtype: str, tolerance: float, rng: np.random.Generator) -> None:
    x, grad = rng.standard_normal((2, *shape)).astype(dtype)
    w = rng.standard_normal(shape[1]).astype(dtype)
    wide, upstream = x.astype(float), grad.astype(float)
    rstd = 1 / np.sqrt((wide**2).mean(1) + EPS)
    normal = wide * rstd[:, None]
    g = upstream * w
    expected = [
        normal * w,
        rstd,
        rstd[:, None] * (g - normal * (g * normal).mean(1, keepdims=True)),
        (upstream * normal).sum(0),
    ]
    outs = [np.empty(e.shape, dtype) for e in expected]
    kernels.rms_norm(x, w, outs[0], outs[1], eps=EPS)
    kernels.rms_norm_backward(grad, x, w, outs[1], outs[2], outs[3])
    for actual, right in zip(outs, expected, strict=True):
        close(actual, right, tolerance)


def test_bias(rng: np.random.Generator) -> None:
    x, bias = rng.standard_normal((3000, 200)), rng.standard_normal(200)
    out = np.empty_like(x)
    kernels.add_bias(x, bias, out)
    np.testing.assert_array_equal(out, x + bias)
    expected = out.copy()
    kernels.add_bias(x, bias, x)
    np.testing.assert_array_equal(x, expected)
    sums = np.empty(200)
    kernels.bias_grad(out, sums)
    np.testing.assert_allclose(sums, out.sum(0))


def test_threads_do_not_change_norms(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x, grad = rng.standard_normal((2, 4000, 300)).astype("float32")
    w = rng.standard_normal(300).astype("float32")

    def run() -> list[Array]:
        outs = [np.empty(shape, "float32") for shape in (x.shape, 4000, 4000, x.shape, 300, 300)]
        kernels.layer_norm(x, w, w, *outs[:3], eps=EPS)
        kernels.layer_norm_backward(grad, x, w, *outs[1:])
        return outs

    same_on_threads(run)


@pytest.mark.parametrize("columns", [200, 700])
def test_threads_do_not_change_norms_of_one_tile(
    columns: int, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x, grad = rng.standard_normal((2, 200, columns)).astype("float32")
    w = rng.standard_normal(columns).astype("float32")

    def run() -> list[Array]:
        outs = [np.empty(shape, "float32") for shape in (x.shape, 200, 200, x.shape, columns, columns)]
        kernels.layer_norm(x, w, w, *outs[:3], eps=EPS)
        kernels.layer_norm_backward(grad, x, w, *outs[1:])
        return outs

    same_on_threads(run)


@pytest.mark.parametrize("columns", [30, 600])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_norms_far_from_zero_lose_what_the_input_does(
    columns: int, weighted: bool, offset: float, rng: np.random.Generator
) -> None:
    x = (rng.standard_normal((40, columns)) + offset).astype("float32")
    grad = rng.standard_normal((40, columns)).astype("float32")
    w = rng.standard_normal(columns).astype("float32") if weighted else np.ones(columns, "float32")
    expected = layer_norm_reference(*[a.astype(float) for a in (x, w, w, grad)])
    outs = [np.empty(e.shape, "float32") for e in expected]
    out, mean, rstd, grad_x, grad_w, grad_b = outs
    kernels.layer_norm(x, w if weighted else None, w, out, mean, rstd, eps=EPS)
    kernels.layer_norm_backward(grad, x, w if weighted else None, mean, rstd, grad_x, grad_w, grad_b)
    for actual, right in zip(outs, expected, strict=True):
        close(actual, right, 2e-5 if offset == 0 else 3e-4)


def test_norms_in_half_precision(rng: np.random.Generator) -> None:
    x, grad = (10 * rng.standard_normal((2, 60, 50))).astype("float16")
    w = rng.standard_normal(50).astype("float16")
    expected = layer_norm_reference(*[a.astype(float) for a in (x, w, w, grad)])
    outs = [np.empty(e.shape, "float16") for e in expected]
    kernels.layer_norm(x, w, w, *outs[:3], eps=EPS)
    kernels.layer_norm_backward(grad, x, w, *outs[1:])
    for actual, right in zip(outs, expected, strict=True):
        close(actual, right, 2e-2)
    wide, upstream = x.astype(float), grad.astype(float)
    r = 1 / np.sqrt((wide**2).mean(1, keepdims=True) + EPS)
    n, g = wide * r, upstream * w
    rstd, by_x, by_w = r[:, 0].astype("float16"), np.empty_like(x), np.empty_like(w)
    kernels.rms_norm_backward(grad, x, w, rstd, by_x, by_w)
    close(by_x, r * (g - n * (g * n).mean(1, keepdims=True)), 2e-2)
    close(by_w, (upstream * n).sum(0), 2e-2)


@pytest.mark.parametrize("which", ["grad", "x"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm_backward_in_place(which: str, weighted: bool, rng: np.random.Generator) -> None:
    arrays = {"grad": rng.standard_normal((50, 20)), "x": rng.standard_normal((50, 20))}
    w = rng.standard_normal(20) if weighted else np.ones(20)
    rstd = 1 / np.sqrt((arrays["x"] ** 2).mean(1) + EPS)
    n, g = arrays["x"] * rstd[:, None], arrays["grad"] * w
    expected = rstd[:, None] * (g - n * (g * n).mean(1, keepdims=True))
    kernels.rms_norm_backward(arrays["grad"], arrays["x"], w if weighted else None, rstd, arrays[which], None)
    close(arrays[which], expected, 1e-13)


@pytest.mark.parametrize(("scale", "weight"), [(1e-12, 1e35), (1e17, 1e-25), (1.0, 1e-35)])
def test_rows_of_any_size_by_weights_of_any_size(scale: float, weight: float, rng: np.random.Generator) -> None:
    x = (rng.standard_normal((1000, 64)) * scale).astype(np.float32)
    weights = np.full(64, weight, np.float32)
    out, rstd = np.empty_like(x), np.empty(1000, np.float32)
    kernels.rms_norm(x, weights, out, rstd, eps=1e-30)
    wide = x.astype(float)
    expected = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-30) * weights.astype(float)
    np.testing.assert_allclose(out, expected, rtol=1e-5)
