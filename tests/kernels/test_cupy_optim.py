"""Optimizer steps on CuPy against those on NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stowgrad.optim.quantization import dynamic_map

from ..fake_cupy.places import PLACES, cupy_at
from .test_cupy_kernels import compare

Rng = np.random.Generator
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
# name, number of states, settings
STEPS: list[tuple[str, int, dict[str, Any]]] = [
    ("adagrad_step", 1, {"lr": 0.1, "eps": 1e-10}),
    ("adadelta_step", 2, {"lr": 0.1, "rho": 0.9, "eps": 1e-6}),
    ("adamax_step", 2, ADAM | {"step": 3}),
    ("nadam_step", 2, ADAM | {"step": 3, "grad_size": 0.3, "mean_size": 0.2}),
    ("nadam_step", 2, ADAM | {"step": 3, "grad_size": 0.3, "mean_size": 0.2, "decoupled": True}),
    ("radam_step", 2, ADAM | {"step": 3}),
    ("radam_step", 2, ADAM | {"step": 30, "decoupled": True, "beta1": 0.3}),
    ("rmsprop_step", 1, {"lr": 0.1, "alpha": 0.99, "eps": 1e-8}),
    ("rmsprop_step", 2, {"lr": 0.1, "alpha": 0.99, "eps": 1e-8, "momentum": 0.4}),
    ("rmsprop_step", 3, {"lr": 0.1, "alpha": 0.4, "eps": 1e-8, "momentum": 0.4}),
    ("asgd_step", 1, {"eta": 0.1, "lambd": 0.2, "mu": 1.0}),
    ("asgd_step", 1, {"eta": 0.1, "lambd": 0.2, "mu": 0.5}),
]


@pytest.fixture(scope="module", params=PLACES)
def cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cupy_at(request.param) as module:
        yield module


@pytest.mark.parametrize(("name", "states", "settings"), STEPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps(name: str, states: int, settings: dict[str, Any], dtype: type, cupy: Any, rng: Rng) -> None:
    for maximize, weight_decay in ((True, 0.3), (False, 0.0)):
        arrays = rng.standard_normal((2 + states, 4, 6)).astype(dtype)
        arrays[2] = np.abs(arrays[2]) + 1  # a mean square, whatever else it is for others
        arrays[-1] = np.abs(arrays[-1]) * 0.1 if states == 3 else np.abs(arrays[-1]) + 1
        tolerance = 2e-4 if dtype is np.float32 else None
        options = settings | {"weight_decay": weight_decay, "maximize": maximize}
        compare(cupy, name, *arrays, tolerance=tolerance, **options)


def test_the_centre_alone(cupy: Any, rng: Rng) -> None:
    param, grad, mean = rng.standard_normal((3, 20))
    options = {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1}
    compare(cupy, "rmsprop_step", param, grad, np.full(20, 9.0), None, mean, **options)


def test_rprop(cupy: Any, rng: Rng) -> None:
    param, grad, prev = rng.standard_normal((3, 20))
    grad[3] = 0
    options = {"eta_minus": 0.5, "eta_plus": 1.2, "smallest": 0.09, "largest": 0.11}
    for maximize in (False, True):
        compare(cupy, "rprop_step", param, grad, prev, np.full(20, 0.1), **options, maximize=maximize)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 3, 5), (2, 3, 5, 4)])
@pytest.mark.parametrize("maximize", [False, True])
def test_adafactor(maximize: bool, shape: tuple[int, ...], cupy: Any, rng: Rng) -> None:
    param, grad = (np.array(rng.standard_normal(shape)) for _ in range(2))
    states: list[Any] = [None, None, np.array(rng.random(shape))]
    if len(shape) > 1:
        states = [rng.random((*shape[:-1], 1)), rng.random((*shape[:-2], 1, shape[-1])), None]
    options = {"lr": 0.1, "weight": 0.3, "rho": 0.1, "eps1": 1e-8, "eps2": 1e-3, "d": 1.0, "weight_decay": 0.1}
    compare(cupy, "adafactor_step", param, grad, *states, **options, maximize=maximize)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 100), (512,)])
@pytest.mark.parametrize("decoupled", [True, False])
def test_adamw_of_8_bits(decoupled: bool, shape: tuple[int, ...], cupy: Any, rng: Rng) -> None:
    param, grad = (np.array(rng.standard_normal(shape), np.float32) for _ in range(2))
    codes = [np.array(rng.integers(low, 256, shape), np.uint8) for low in (0, 1)]
    scales = [rng.random(-(-param.size // 64)).astype(np.float32) for _ in range(2)]
    arrays = (param, grad, *codes, *scales, dynamic_map(True), dynamic_map(False))
    options = ADAM | {"weight_decay": 0.1, "step": 2, "block_size": 64, "decoupled": decoupled}
    # A value that lies between two codes may get either, for a last bit of difference.
    compare(cupy, "adamw_8bit_step", *arrays, **options, tolerance=1e-2, maximize=decoupled)
    if param.ndim == 2:
        arrays = (param.T.copy().T, grad.T.copy().T, *arrays[2:])
        compare(cupy, "adamw_8bit_step", *arrays, **options, tolerance=1e-2)


@pytest.mark.parametrize("wrong", [None, np.inf, np.nan])
def test_unscale(wrong: float | None, cupy: Any, rng: Rng) -> None:
    grad = rng.standard_normal((4, 5))
    if wrong is not None:
        grad[2, 3] = wrong
    compare(cupy, "unscale", grad, factor=0.25)
