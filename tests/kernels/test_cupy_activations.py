"""Activations, gates and normalisation by channels on CuPy against those on NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import backend

from ..fake_cupy.places import PLACES, cupy_at
from .test_cupy_kernels import compare
from .test_piecewise import LINES, NAMES
from .test_smooth import SMOOTH

Rng = np.random.Generator
FLOATS = [np.float32, np.float64]


@pytest.fixture(scope="module", params=PLACES)
def cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cupy_at(request.param) as module:
        yield module


def drawn(shape: tuple[int, ...], dtype: type, rng: Rng) -> np.ndarray[Any, Any]:
    return np.array(rng.standard_normal(shape) * 3, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (0,), (13,), (5, 7)])
@pytest.mark.parametrize(("name", "keywords"), [line[:2] for line in LINES], ids=NAMES)
def test_lines(name: str, keywords: Any, shape: tuple[int, ...], dtype: type, cupy: Any, rng: Rng) -> None:
    x = drawn(shape, dtype, rng)
    bits = np.zeros((x.size + 7) // 8, np.uint8)
    compare(cupy, name, x, np.zeros_like(x), bits, **keywords)
    compare(cupy, name, x.T, np.zeros(shape[::-1], dtype), bits, **keywords)
    y = x.copy()
    compare(cupy, name, y, y, bits, **keywords)
    for outside in (0.0, 0.25):
        compare(cupy, "masked_slope", x, bits, np.zeros_like(x), inside=0.5, outside=outside)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [entry[0] for entry in SMOOTH])
def test_curves(name: str, dtype: type, cupy: Any, rng: Rng) -> None:
    keywords = next(entry[1] for entry in SMOOTH if entry[0] == name)
    x, grad = drawn((6, 9), dtype, rng), drawn((6, 9), dtype, rng)
    x[0, :3] = [60, -60, 0]
    compare(cupy, name, x, np.zeros_like(x), **keywords)
    compare(cupy, name, x.T, np.zeros_like(x.T), **keywords)
    result = np.minimum(x, 0) - 0.1 if name == "log_sigmoid" else x
    compare(cupy, f"{name}_backward", grad, result, np.zeros_like(x), **keywords)
    compare(cupy, f"{name}_backward", grad, result, grad, **keywords)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "hardswish", "mish", "relu", "sigmoid", "silu", "tanh"])
def test_gates_and_sums(activation: str, dtype: type, cupy: Any, rng: Rng) -> None:
    x, gate, grad = (drawn((6, 9), dtype, rng) for _ in range(3))
    outs = [np.zeros_like(x) for _ in range(2)]
    compare(cupy, "gated", x, gate, outs[0], activation=activation)
    compare(cupy, "gated_backward", grad, x, gate, *outs, activation=activation)
    compare(cupy, "gated_backward", grad, x, gate, outs[0], None, activation=activation)
    compare(cupy, "gated_backward", grad, x, None, None, outs[1], activation=activation)
    compare(cupy, "bias_activation", x, gate[0], outs[0], activation=activation)
    compare(cupy, "bias_activation_backward", grad, x, gate[0], outs[0], activation=activation)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 6, 5), (3, 6, 1), (0, 6, 2)])
def test_norms(shape: tuple[int, ...], dtype: type, affine: bool, cupy: Any, rng: Rng) -> None:
    x, grad = drawn(shape, dtype, rng), drawn(shape, dtype, rng)
    w, b = rng.standard_normal((2, 6)).astype(dtype) if affine else (None, None)
    mean, variance = np.zeros(6, dtype), np.ones(6, dtype)
    out, grads = np.zeros_like(x), np.zeros((2, 6), dtype)
    loose = 1e-4 if dtype == np.float32 else None
    for given in (True, False):
        keywords: dict[str, Any] = dict(eps=0.1, given=given, tolerance=loose)
        compare(cupy, "batch_norm", x, w, b, out, mean, variance, **keywords)
        compare(cupy, "batch_norm_backward", grad, x, w, mean, variance, np.zeros_like(x), *grads, **keywords)
        compare(cupy, "batch_norm_backward", grad, x, w, mean, variance, None, None, grads[1], **keywords)
    compare(cupy, "batch_norm_backward", grad, None, w, mean, variance, out, None, grads[1], eps=0.1, given=True)
    x, grad, out = (array.reshape(shape[0], 2, 3, shape[2]) for array in (x, grad, out))
    w, b = (None if array is None else array.reshape(2, 3) for array in (w, b))
    numbers = np.zeros((2, shape[0], 2), dtype)
    compare(cupy, "group_norm", x, w, b, out, *numbers, eps=0.1, tolerance=loose)
    parts = np.zeros((2, 2, 3), dtype)
    compare(cupy, "group_norm_backward", grad, x, w, *numbers, out, *parts, eps=0.1, tolerance=loose)
    compare(cupy, "group_norm_backward", grad, x, w, *numbers, None, parts[0], None, eps=0.1, tolerance=loose)
    compare(cupy, "group_norm_backward", grad, None, w, *numbers, None, None, parts[1], eps=0.1, tolerance=loose)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 3, 5), (1, 1, 7), (0, 3, 2)])
def test_prelu(shape: tuple[int, ...], dtype: type, cupy: Any, rng: Rng) -> None:
    x, grad, w = drawn(shape, dtype, rng), drawn(shape, dtype, rng), drawn(shape[1:2], dtype, rng)
    compare(cupy, "prelu", x, w, np.zeros_like(x))
    compare(cupy, "prelu_backward", grad, x, w, np.zeros_like(x), np.zeros_like(w))
    compare(cupy, "prelu_backward", grad, x, None, None, np.zeros_like(w))
    compare(cupy, "prelu_backward", grad, x, w, np.zeros_like(x), None)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_local_response_norm(size: int, dtype: type, cupy: Any, rng: Rng) -> None:
    x, grad = drawn((2, 5, 3), dtype, rng), drawn((2, 5, 3), dtype, rng)
    keywords = dict(size=size, alpha=0.9, beta=0.75, k=1.5)
    compare(cupy, "local_response_norm", x, np.zeros_like(x), **keywords)
    compare(cupy, "local_response_norm_backward", grad, x, np.zeros_like(x), **keywords)
    compare(cupy, "window_sum", x, np.zeros_like(x), before=size // 2, after=size - 1)


def _on(cupy: Any, array: np.ndarray[Any, Any]) -> Any:
    device = cupy.empty(array.shape, array.dtype)
    device.set(array)
    return device


def test_rrelu_draws_the_same_slopes_again(cupy: Any, rng: Rng) -> None:
    k, keywords = backend("cuda"), dict(lower=0.1, upper=0.3, key=5, counter=9)
    x = _on(cupy, rng.standard_normal(20_001).astype("f"))
    out, grad_x, bits = cupy.empty(x.shape, x.dtype), cupy.empty(x.shape, x.dtype), cupy.empty((2501,), np.dtype("u1"))
    k.rrelu(x, out, bits, **keywords)
    values, negative = x.get(), x.get() < 0
    np.testing.assert_array_equal(bits.get(), np.packbits(values > 0))
    np.testing.assert_array_equal(out.get()[~negative], values[~negative])
    slopes = (out.get() / values)[negative]
    assert slopes.min() > 0.0999
    assert slopes.max() < 0.3001
    assert slopes.mean() == pytest.approx(0.2, abs=0.005)
    k.rrelu_backward(_on(cupy, np.ones(20_001, "f")), bits, grad_x, **keywords)
    np.testing.assert_allclose(grad_x.get()[negative], slopes, rtol=1e-5)
    np.testing.assert_array_equal(grad_x.get()[~negative], 1)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_alpha_dropout_keeps_what_dropout_keeps(p: float, cupy: Any) -> None:
    k, size = backend("cuda"), 2003
    x = _on(cupy, np.full(size, 2, np.float32))
    out, (bits, expected) = cupy.empty((size,), x.dtype), (cupy.empty((251,), np.dtype("u1")) for _ in range(2))
    k.dropout_mask(expected, size=size, p=p, key=5, counter=9)
    k.alpha_dropout(x, out, bits, p=p, key=5, counter=9, scale=1.5, shift=0.25, dropped=-2.0)
    np.testing.assert_array_equal(bits.get(), expected.get())
    kept = np.unpackbits(bits.get(), count=size).astype(bool)
    np.testing.assert_allclose(out.get(), np.where(kept, 3.25, -2), rtol=1e-6)
