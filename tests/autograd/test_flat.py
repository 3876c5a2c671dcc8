"""Gradients that don't change with their input: under ``create_graph`` they have a history, which gives zeros."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import grad
from stowgrad.nn import functional as F

CALLS = {
    "abs": lambda x: x.abs(),
    "relu": lambda x: x.relu(),
    "relu_": lambda x: (x * 1).relu_(),
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "hardsigmoid": F.hardsigmoid,
    "threshold": lambda x: F.threshold(x, 0.2, 1.0),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "prelu": lambda x: F.prelu(x, stowgrad.full((1,), 0.1)),
    "max_pool": lambda x: F.max_pool1d(x, 2),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool1d(x, 2),
    "avg_pool": lambda x: F.avg_pool1d(x, 2),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool1d(x, 2),
    "nll_loss": lambda x: F.nll_loss(x, stowgrad.zeros(2, dtype=stowgrad.int64)),
}
under_each = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def leaf():
    return stowgrad.tensor([[0.5, -1.5, 2.5, 0.1], [3.5, 0.1, -2.2, -0.3]], requires_grad=True)


@under_each
def test_the_second_derivative_is_zero(call):
    x = leaf()
    (first,) = grad(call(x).sum(), x, create_graph=True)
    assert first.requires_grad
    (second,) = grad(first.sum(), x)
    assert second.tolist() == np.zeros((2, 4)).tolist()
    assert not second.requires_grad


@under_each
def test_the_gradient_is_that_of_a_pass_without_a_graph(call):
    x = leaf()
    stowgrad.manual_seed(0)
    (plain,) = grad(call(x).sum(), x)
    stowgrad.manual_seed(0)
    (first,) = grad(call(x).sum(), x, create_graph=True)
    assert not plain.requires_grad
    np.testing.assert_array_equal(first.detach().numpy(), plain.numpy())


def test_nothing_is_saved():
    x = leaf()
    (first,) = grad(x.relu().sum(), x, create_graph=True)
    assert first.grad_fn.name() == "FlatGradientBackward0"
    assert first.grad_fn.saved_variables == ()
    assert [node is None for node, _ in first.grad_fn.next_functions] == [True, False]


def test_a_gradient_that_has_a_history_is_left_alone():
    x, weight = leaf(), leaf()
    (first,) = grad((x.relu() * weight).sum(), x, create_graph=True)
    assert first.grad_fn.name() == "MulBackward0"
    (by_weight,) = grad(first.sum(), weight)
    np.testing.assert_array_equal(by_weight.numpy(), (x.detach().numpy() > 0).astype(np.float32))


def test_zeros_flow_on_to_what_made_the_input():
    x = leaf()
    h = x * x
    (first,) = grad(h.relu().sum(), h, create_graph=True)
    first.sum().backward()
    assert x.grad.tolist() == np.zeros((2, 4)).tolist()


def test_the_formula_on_top_keeps_its_derivative():
    x = leaf()
    (first,) = grad((x.abs() ** 3).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * np.abs(x.detach().numpy()), rtol=1e-6)


def test_in_batches():
    x = leaf()
    seeds = stowgrad.ones(3, 2, 4)
    (first,) = grad(x.relu(), x, seeds, is_grads_batched=True, create_graph=True)
    assert first.requires_grad
    (second,) = grad(first.sum(), x)
    assert second.tolist() == np.zeros((2, 4)).tolist()


def test_through_a_view():
    x = leaf()
    y = x * 1
    y[0].relu_()
    (first,) = grad(y.sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert second.tolist() == np.zeros((2, 4)).tolist()


def test_a_function_of_the_users_decides_for_itself():
    class Sign(stowgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.abs()

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf()
    (first,) = grad(Sign.apply(x).sum(), x, create_graph=True)
    assert not first.requires_grad
