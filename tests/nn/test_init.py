"""Distributions of the initialisers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stowgrad
from stowgrad.nn import init


@pytest.fixture(autouse=True)
def seed() -> None:
    stowgrad.manual_seed(0)


def drawn(fill: object, *args: object, **kwargs: object) -> np.ndarray:
    weight = stowgrad.empty(300, 200, requires_grad=True)
    assert fill(weight, *args, **kwargs) is weight  # type: ignore[operator]
    assert weight.grad_fn is None
    return weight.detach().numpy()


def test_constants():
    assert (drawn(init.ones_) == 1).all()
    assert (drawn(init.zeros_) == 0).all()
    assert (drawn(init.constant_, 2.5) == 2.5).all()


def test_uniform_and_normal():
    values = drawn(init.uniform_, -1.0, 3.0)
    assert -1 <= values.min() < -0.99
    assert 2.99 < values.max() <= 3
    values = drawn(init.normal_, 2.0, 0.5)
    assert values.mean() == pytest.approx(2, abs=0.01)
    assert values.std() == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("fill", "kwargs", "std"),
    [
        (init.xavier_uniform_, {"gain": 2.0}, 2 * math.sqrt(2 / 500)),
        (init.xavier_normal_, {}, math.sqrt(2 / 500)),
        (init.kaiming_uniform_, {}, math.sqrt(2 / 200)),
        (init.kaiming_uniform_, {"a": math.sqrt(5)}, math.sqrt(1 / 3 / 200)),
        (init.kaiming_normal_, {"mode": "fan_out", "nonlinearity": "linear"}, math.sqrt(1 / 300)),
    ],
)
def test_variance_follows_the_fans(fill: object, kwargs: dict[str, object], std: float):
    values = drawn(fill, **kwargs)
    assert values.std() == pytest.approx(std, rel=0.02)
    if "uniform" in fill.__name__:  # type: ignore[attr-defined]
        assert np.abs(values).max() <= std * math.sqrt(3) * 1.0001


def test_a_generator_makes_it_repeatable():
    one, two = (stowgrad.Generator().manual_seed(4) for _ in range(2))
    np.testing.assert_array_equal(drawn(init.normal_, generator=one), drawn(init.normal_, generator=two))


def test_gains_and_fans():
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 1) == 1
    assert init.fans(stowgrad.empty(4, 3, 5, 5)) == (75, 100)


def test_refusals():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(stowgrad.empty(3))
    with pytest.raises(ValueError, match="fan_out"):
        init.kaiming_uniform_(stowgrad.empty(3, 3), mode="fan")
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("swish")
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", "x")  # type: ignore[arg-type]
