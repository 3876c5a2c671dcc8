"""What all optimizer steps have in common: 16 bits, layouts, threads, scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from stowgrad.kernels import get_num_threads
from stowgrad.kernels import numpy_ as kernels
from stowgrad.memory import max_memory_allocated, pool, reset_peak_memory_stats

from .support import Array

ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-4, "weight_decay": 0.1}
# name, number of states, settings
STEPS: list[tuple[str, int, dict[str, Any]]] = [
    ("adamw_step", 2, ADAM | {"step": 3}),
    ("sgd_step", 1, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("adagrad_step", 1, {"lr": 0.1, "eps": 1e-4, "weight_decay": 0.1}),
    ("adadelta_step", 2, {"lr": 0.1, "rho": 0.9, "eps": 1e-4, "weight_decay": 0.1}),
    ("adamax_step", 2, ADAM | {"step": 3}),
    ("nadam_step", 2, ADAM | {"step": 3, "grad_size": 0.3, "mean_size": 0.2}),
    ("radam_step", 2, ADAM | {"step": 30}),
    ("rmsprop_step", 3, {"lr": 0.1, "alpha": 0.99, "eps": 1e-4, "weight_decay": 0.1, "momentum": 0.9}),
    ("rprop_step", 2, {"eta_minus": 0.5, "eta_plus": 1.2, "smallest": 1e-6, "largest": 50.0}),
    ("asgd_step", 1, {"eta": 0.1, "lambd": 0.2, "mu": 0.5, "weight_decay": 0.1}),
]


def arrays_for(rng: np.random.Generator, states: int, shape: tuple[int, ...]) -> list[Array]:
    """A parameter, its gradient, and states that suit all: positive, those of variances small and large enough."""
    made = [rng.standard_normal(shape), rng.standard_normal(shape)]
    return made + [rng.uniform(0.5, 1.0, shape) + (2.0 if number == 0 else 0.0) for number in range(states)]


@pytest.mark.parametrize(("name", "states", "settings"), STEPS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [50, 700_000])
def test_sixteen_bits_are_computed_in_float32(
    name: str, states: int, settings: dict[str, Any], dtype: Any, size: int, rng: np.random.Generator
) -> None:
    narrow = [array.astype(dtype) for array in arrays_for(rng, states, (size,))]
    wide = [array.astype(np.float32) for array in narrow]
    getattr(kernels, name)(*narrow, **settings)
    getattr(kernels, name)(*wide, **settings)
    for mine, exact in zip(narrow, wide, strict=True):
        np.testing.assert_array_equal(mine, exact.astype(dtype))


@pytest.mark.parametrize(("name", "states", "settings"), STEPS)
def test_any_layout_and_number_of_threads(
    name: str,
    states: int,
    settings: dict[str, Any],
    rng: np.random.Generator,
    same_on_threads: Callable[[Callable[[], Any]], Any],
) -> None:
    start = arrays_for(rng, states, (700, 500))

    def run() -> Array:
        arrays = [array.copy() for array in start]
        getattr(kernels, name)(*arrays, **settings)
        return np.stack(arrays)

    same_on_threads(run)
    turned = [np.ascontiguousarray(array.T).T for array in start]
    getattr(kernels, name)(*turned, **settings)
    np.testing.assert_array_equal(np.stack(turned), run())
    np.testing.assert_array_equal(turned[1], start[1])  # the gradient is left alone


@pytest.mark.parametrize(("name", "states", "settings"), STEPS)
def test_scratch_is_a_few_tiles(name: str, states: int, settings: dict[str, Any], rng: np.random.Generator) -> None:
    arrays = [array.astype(np.float32) for array in arrays_for(rng, states, (3_000_000,))]
    before = pool("cpu").used_bytes()
    reset_peak_memory_stats()
    getattr(kernels, name)(*arrays, **settings)
    assert max_memory_allocated() - before <= 4 * (1 << 20) * get_num_threads()


@pytest.mark.parametrize("shape", [(2000, 700), (3, 600, 500), (400, 3, 3, 8), (900_000,)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_adafactor_by_the_formula(shape: tuple[int, ...], dtype: type, rng: np.random.Generator) -> None:
    param, grad = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    grad = np.copysign(np.maximum(np.abs(grad), dtype(0.1)), grad)  # squares that float16 can hold
    p, g = param.astype(np.float64), grad.astype(np.float64)
    options = {"lr": 0.1, "weight": 0.3, "rho": 0.1, "eps1": 1e-6, "eps2": 1e-3, "d": 1.0, "weight_decay": 0.1}
    if len(shape) > 1:
        row, col = np.zeros((*shape[:-1], 1), dtype), np.zeros((*shape[:-2], 1, shape[-1]), dtype)
        kernels.adafactor_step(param, grad, row, col, None, **options)
        rows, cols = 0.3 * (g * g).mean(-1, keepdims=True), 0.3 * (g * g).mean(-2, keepdims=True)
        estimate = rows * cols / np.maximum(rows.mean(-2, keepdims=True), 1e-6)
    else:
        variance = np.zeros(shape, dtype)
        kernels.adafactor_step(param, grad, None, None, variance, **options)
        estimate = 0.3 * g * g
    update = g / np.sqrt(np.maximum(estimate, 1e-12))
    alpha = max(1e-3, np.sqrt((p * p).mean())) * 0.1
    expected = p * (1 - 0.1 * 0.1) - alpha / max(1.0, np.sqrt((update * update).mean())) * update
    tolerance = {np.float64: 1e-9, np.float32: 1e-4, np.float16: 5e-3}[dtype]
    np.testing.assert_allclose(param, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_unscale(dtype: Any, rng: np.random.Generator) -> None:
    grad = rng.standard_normal(400_000).astype(dtype)
    expected = (grad.astype(np.float32) * np.float32(0.25)).astype(dtype) if dtype != np.float64 else grad * 0.25
    assert kernels.unscale(grad, factor=0.25) is False
    np.testing.assert_array_equal(grad, expected)
    for wrong in (np.inf, -np.inf, np.nan):
        grad[123_456] = wrong
        assert kernels.unscale(grad, factor=1.0) is True
