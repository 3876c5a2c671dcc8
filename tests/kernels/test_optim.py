from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array

ADAM = {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}


def adam(p: Array, g: Array, m: Array, v: Array, step: int, weight_decay: float, decoupled: bool, sign: int) -> None:
    g = sign * g
    if decoupled:
        p *= 1 - ADAM["lr"] * weight_decay
    else:
        g = g + weight_decay * p
    m += (1 - ADAM["beta1"]) * (g - m)
    v[...] = ADAM["beta2"] * v + (1 - ADAM["beta2"]) * g * g
    root = np.sqrt(v) / math.sqrt(1 - ADAM["beta2"] ** step) + ADAM["eps"]
    p -= ADAM["lr"] / (1 - ADAM["beta1"] ** step) * m / root


@pytest.mark.parametrize("shape", [(), (0,), (7, 3), (700_000,)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw(
    shape: tuple[int, ...], weight_decay: float, decoupled: bool, maximize: bool, rng: np.random.Generator
) -> None:
    p = np.asarray(rng.standard_normal(shape))
    arrays, expected = [p.copy(), np.zeros(shape), np.zeros(shape)], [p.copy(), np.zeros(shape), np.zeros(shape)]
    for step in (1, 2, 3):
        grad = np.asarray(rng.standard_normal(shape))
        kernels.adamw_step(
            arrays[0],
            grad,
            *arrays[1:],
            **ADAM,
            weight_decay=weight_decay,
            step=step,
            maximize=maximize,
            decoupled=decoupled,
        )
        adam(expected[0], grad, *expected[1:], step, weight_decay, decoupled, -1 if maximize else 1)
    for actual, right in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(actual, right, rtol=1e-12, atol=1e-14)


def test_amsgrad_divides_by_the_largest_so_far(rng: np.random.Generator) -> None:
    p, m, v, most = np.zeros((4, 5))
    for step, size in ((1, 10.0), (2, 0.1)):
        kernels.adamw_step(p, np.full(5, size), m, v, most, **ADAM, weight_decay=0.0, step=step)
        assert (most >= v).all()
    np.testing.assert_allclose(most, 0.01 * 100)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_sgd(momentum: float, nesterov: bool, maximize: bool, rng: np.random.Generator) -> None:
    p = rng.standard_normal(1000)
    expected, buf = p.copy(), np.empty(1000)
    own = np.empty(1000)
    for step in range(3):
        grad = rng.standard_normal(1000)
        kernels.sgd_step(
            p,
            grad,
            own if momentum else None,
            lr=0.1,
            momentum=momentum,
            dampening=0.2,
            nesterov=nesterov,
            weight_decay=0.3,
            first=step == 0,
            maximize=maximize,
        )
        g = (-grad if maximize else grad) + 0.3 * expected
        if momentum:
            buf = g.copy() if step == 0 else momentum * buf + 0.8 * g
            g = g + momentum * buf if nesterov else buf
        expected -= 0.1 * g
    np.testing.assert_allclose(p, expected, rtol=1e-12)


def test_the_gradient_is_left_alone_at_any_strides(rng: np.random.Generator) -> None:
    grad = rng.standard_normal((30, 20)).T
    kept, p, m, v = grad.copy(), *np.ones((3, 20, 30))
    kernels.adamw_step(p, grad, m, v, **ADAM, weight_decay=0.1, step=1, maximize=True, decoupled=False)
    np.testing.assert_array_equal(grad, kept)


def test_threads_do_not_change_steps(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    start = rng.random((4, 800_000)).astype("float32")

    def run() -> Array:
        arrays = start.copy()
        kernels.adamw_step(*arrays, **ADAM, weight_decay=0.1, step=2)
        return arrays

    same_on_threads(run)
