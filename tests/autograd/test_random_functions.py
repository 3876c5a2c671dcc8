"""bernoulli, normal and multinomial: what is drawn, how often, and that it is drawn again from the same seed."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad

COUNT = 40_000


def test_bernoulli_draws_ones_as_often_as_it_is_told():
    found = stowgrad.bernoulli(stowgrad.tensor([[0.0], [0.3], [1.0]]).expand(3, COUNT)).mean(1)
    np.testing.assert_allclose(found.numpy(), [0, 0.3, 1], atol=0.02)
    assert stowgrad.bernoulli(stowgrad.zeros(COUNT, dtype=np.int64), 0.5).float().mean().item() == pytest.approx(
        0.5, abs=0.02
    )


def test_bernoulli_in_place():
    x = stowgrad.zeros(3)
    assert x.bernoulli_(1.0) is x
    assert x.tolist() == [1, 1, 1]
    assert x.bernoulli_(stowgrad.tensor([0.0, 1.0, 0.0])).tolist() == [0, 1, 0]


def test_normal_has_the_means_and_deviations_that_it_is_told():
    mean, std = stowgrad.tensor([[-1.0], [2.0]]).expand(2, COUNT), stowgrad.tensor([[0.5], [3.0]])
    found = stowgrad.normal(mean, std).numpy()
    np.testing.assert_allclose(found.mean(1), [-1, 2], atol=0.07)
    np.testing.assert_allclose(found.std(1), [0.5, 3], rtol=0.03)
    assert stowgrad.normal(1.0, 0.0, 3).tolist() == [1, 1, 1]
    assert stowgrad.normal(0.0, stowgrad.ones(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_draws_by_weight(replacement):
    weights = stowgrad.tensor([1.0, 0.0, 2.0, 7.0]).expand(COUNT, 4)
    found = stowgrad.multinomial(weights, 1, replacement).numpy()
    np.testing.assert_allclose(np.bincount(found[:, 0], minlength=4) / COUNT, [0.1, 0, 0.2, 0.7], atol=0.02)


def test_multinomial_without_replacement_draws_nothing_twice():
    found = stowgrad.multinomial(stowgrad.ones(100, 5), 5).numpy()
    assert (np.sort(found, 1) == np.arange(5)).all()
    assert stowgrad.multinomial(stowgrad.tensor([0.0, 1.0, 0.0]), 1).tolist() == [1]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: stowgrad.bernoulli(stowgrad.full((50,), 0.5)),
        lambda: stowgrad.normal(stowgrad.zeros(50), 1.0),
        lambda: stowgrad.multinomial(stowgrad.ones(50), 9),
    ],
)
def test_the_same_seed_draws_the_same(draw):
    stowgrad.manual_seed(3)
    first, second = draw().tolist(), draw().tolist()
    stowgrad.manual_seed(3)
    assert draw().tolist() == first != second


def test_the_gradient_is_zero():
    p = stowgrad.full((3,), 0.5, requires_grad=True)
    (stowgrad.bernoulli(p) + stowgrad.normal(p, p)).sum().backward()
    assert p.grad.tolist() == [0, 0, 0]


def test_the_meta_device_knows_the_shapes():
    p = stowgrad.ones(2, 3, device="meta")
    assert [f.shape for f in (p.bernoulli(), stowgrad.normal(p, p), p.multinomial(2), p.multinomial(4, True))] == [
        (2, 3),
        (2, 3),
        (2, 2),
        (2, 4),
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stowgrad.bernoulli(stowgrad.tensor([1.5])), "from 0 to 1"),
        (lambda: stowgrad.bernoulli(stowgrad.ones(1), 2), "in \\[0, 1\\]"),
        (lambda: stowgrad.normal(stowgrad.ones(1), stowgrad.tensor([-1.0])), "std >= 0.0"),
        (lambda: stowgrad.normal(0.0, -1.0, 2), "std >= 0.0"),
        (lambda: stowgrad.normal(stowgrad.ones(2), stowgrad.ones(3)), "broadcast"),
        (lambda: stowgrad.multinomial(stowgrad.ones(2, 2, 2), 1), "1 or 2 dim"),
        (lambda: stowgrad.multinomial(stowgrad.tensor([1, 2]), 1), "floating-point"),
        (lambda: stowgrad.multinomial(stowgrad.ones(2), 0), "n_sample <= 0"),
        (lambda: stowgrad.multinomial(stowgrad.ones(2), 3), "without replacement"),
        (lambda: stowgrad.multinomial(stowgrad.tensor([1.0, -1.0]), 1), "element < 0"),
        (lambda: stowgrad.multinomial(stowgrad.tensor([1.0, float("inf")]), 1), "`inf`"),
        (lambda: stowgrad.multinomial(stowgrad.zeros(2), 1), "sum of probabilities"),
        (lambda: stowgrad.bernoulli(stowgrad.tensor([1, 0])), "not implemented"),
    ],
)
def test_what_is_no_distribution(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_normal_of_two_numbers_needs_a_size():
    with pytest.raises(TypeError, match="size"):
        stowgrad.normal(0.0, 1.0)
