"""Distributions of the initialisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

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


def test_identities():
    matrix = init.eye_(stowgrad.ones(2, 3, requires_grad=True))
    assert matrix.tolist() == [[1, 0, 0], [0, 1, 0]]
    for dims in (1, 2, 3):
        conv = getattr(stowgrad.nn, f"Conv{dims}d")(2, 4, 3, padding=1, groups=2, bias=False)
        init.dirac_(conv.weight, groups=2)
        x = stowgrad.randn(1, 2, *[5] * dims)
        np.testing.assert_array_equal(conv(x)[:, [0, 2]].detach().numpy(), x.numpy())
    with pytest.raises(ValueError, match="divisible by groups"):
        init.dirac_(stowgrad.empty(3, 2, 3), groups=2)
    for fill, shape in ((init.eye_, (2,)), (init.dirac_, (2, 2)), (init.orthogonal_, (2,))):
        with pytest.raises(ValueError, match="dimensions are supported"):
            fill(stowgrad.empty(shape))  # type: ignore[operator]


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 2, 2)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]):
    weight = init.orthogonal_(stowgrad.empty(shape, dtype=stowgrad.float64), gain=3.0).numpy().reshape(shape[0], -1)
    small = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
    np.testing.assert_allclose(small, 9 * np.eye(len(small)), atol=1e-12)
    assert init.orthogonal_(stowgrad.empty(0, 3)).shape == (0, 3)


def test_sparse_columns():
    weight = init.sparse_(stowgrad.empty(20, 30), sparsity=0.33, std=0.5).numpy()
    assert ((weight == 0).sum(0) == 7).all()
    assert weight[weight != 0].std() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0.0, 1.0, -2.0, 2.0), (0.5, 2.0, 0.0, 1.0), (0.0, 1.0, 1.5, 3.0)])
def test_truncated_normal_values(mean: float, std: float, a: float, b: float):
    low, high = ((bound - mean) / std for bound in (a, b))
    expected = stats.truncnorm(low, high, loc=mean, scale=std)
    values = drawn(init.trunc_normal_, mean, std, a, b)
    assert a <= values.min() < values.max() <= b
    assert values.mean() == pytest.approx(expected.mean(), abs=0.02)
    assert values.std() == pytest.approx(expected.std(), rel=0.02)


def test_a_truncated_normal_that_is_far_from_its_mean_warns():
    with pytest.warns(UserWarning, match="mean is more than 2 std"):
        init.trunc_normal_(stowgrad.empty(3), 10.0, 1.0, -1.0, 1.0)
    part = stowgrad.zeros(4, 6)
    init.trunc_normal_(part[:, ::2])
    assert (part.numpy()[:, ::2] != 0).all()
    assert (part.numpy()[:, 1::2] == 0).all()


def test_without_values_nothing_is_drawn():
    empty = stowgrad.empty(3, 4, device="meta")
    fills = (init.uniform_, init.normal_, init.ones_, init.eye_, init.orthogonal_, init.trunc_normal_)
    for fill in fills:
        assert fill(empty) is empty  # type: ignore[operator]
