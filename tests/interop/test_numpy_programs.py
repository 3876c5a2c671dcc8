"""Programs in plain NumPy, differentiated as they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad

from .programs import programs

PROGRAMS = programs()


def slope(function: Any, arrays: tuple[Any, ...], number: int, direction: Any) -> float:
    """The change of the result along a direction of one argument, by central differences of two steps combined."""

    def central(step: float) -> float:
        above = [a + step * direction if n == number else a for n, a in enumerate(arrays)]
        below = [a - step * direction if n == number else a for n, a in enumerate(arrays)]
        return float(function(*above) - function(*below)) / (2 * step)

    return (4 * central(1e-5) - central(2e-5)) / 3


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function, arrays = PROGRAMS[name]
    value, gradients = stowgrad.value_and_grad(function, argnums=tuple(range(len(arrays))))(*arrays)
    assert float(value) == pytest.approx(float(function(*arrays)), rel=1e-12)
    for number, gradient in enumerate(gradients):
        assert gradient.shape == arrays[number].shape
        assert np.any(gradient)
        for seed in range(3):
            direction = np.random.default_rng(seed).uniform(-1, 1, arrays[number].shape)
            found = float(np.sum(gradient * direction))
            assert found == pytest.approx(slope(function, arrays, number, direction), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ["ODE integrator", "GP regression", "FFT deconvolution"])
def test_second_derivatives_too(name: str) -> None:
    function, arrays = PROGRAMS[name]
    last = len(arrays) - 1

    def squared(*given: Any) -> Any:
        gradient = stowgrad.grad(function, argnums=last)(*given)
        return np.sum(gradient * gradient)

    found = stowgrad.grad(squared, argnums=last)(*arrays)
    direction = np.random.default_rng(1).uniform(-1, 1, arrays[last].shape)
    assert np.sum(found * direction) == pytest.approx(slope(squared, arrays, last, direction), rel=1e-5)
