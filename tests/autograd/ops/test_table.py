"""Every op against differences, to second order, and what its node keeps: law 3."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd.ops import activation, attention, elementwise, embedding, extremes, reduce
from stowgrad.memory import events

from ..numerics import check_first, check_second
from .cases import CASES, FUSED, NOT_DIFFERENTIABLE, all_records, nodes_of

ids = [f"{case.op} {case.label}".strip() for case in CASES]
over_cases = pytest.mark.parametrize("case", CASES, ids=ids)


def gradients(case, tensors):
    """The gradient at each input of a random projection of the results."""
    results = case.function(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    rng = np.random.default_rng(3)
    weights = [stowgrad.tensor(rng.normal(size=r.shape).astype(r.dtype)) for r in results]
    stowgrad.autograd.backward(results, weights)
    return [None if t.grad is None else t.grad.numpy() for t in tensors]


def test_every_op_is_in_the_table():
    named = {case.op for case in CASES} | NOT_DIFFERENTIABLE | FUSED
    assert set(all_records()) == named


def test_every_fused_gradient_belongs_to_an_op_in_the_table():
    assert {name.removesuffix("_backward") for name in FUSED} <= {case.op for case in CASES}


class Running(events.Observer):
    """Notes which ops run."""

    def __init__(self):
        self.names = set()

    def begin(self, kind, name, subject=None):
        if kind == "op":
            self.names |= {name, type(subject).name}


def names_in(case):
    """The ops that a case runs: those that compute, and those, views among them, that leave a node."""
    running = Running()
    events.add_observer(running)
    try:
        nodes = nodes_of(case.function(*case.tensors()))
    finally:
        events.remove_observer(running)
    return running.names | {node.record.name for node in nodes} | {type(node.record).name for node in nodes}


def test_the_table_runs_the_op_that_it_names():
    wrong = [(case.op, case.label) for case in CASES if case.op not in names_in(case)]
    assert wrong == []


@over_cases
def test_gradient_agrees_with_differences(case):
    check_first(case.function, case.inputs, case.needs)


@over_cases
def test_recorded_gradient_agrees_with_differences(case):
    check_first(case.function, case.inputs, case.needs, create_graph=True)


@over_cases
def test_second_derivative_agrees_with_differences(case):
    if case.label == "large":
        pytest.skip("the same formulas as the small cases")
    check_second(case.function, case.inputs, case.needs)


@over_cases
def test_gradient_of_each_input_alone_is_the_same(case):  # spec 1.22: what is saved depends on what needs a gradient
    every = gradients(case, case.tensors())
    for position, needed in enumerate(case.needs):
        if needed:
            only = tuple(here == position for here in range(len(case.needs)))
            np.testing.assert_array_equal(gradients(case, case.tensors(needs=only))[position], every[position])


@over_cases
def test_no_float32_gradient_strays_from_float64(case):
    exact = gradients(case, case.tensors())
    rounded = gradients(case, case.tensors(np.dtype(np.float32)))
    for expected, got in zip(exact, rounded, strict=True):
        if expected is not None:
            assert got.dtype == np.float32 or case.op == "to_copy"
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", sorted(NOT_DIFFERENTIABLE))
def test_results_without_a_derivative_say_so(name):  # spec 1.5
    assert all_records()[name].differentiable is False


# -- points where differences do not help ------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [extremes.maximum, extremes.minimum])
def test_equal_operands_share_the_gradient(op):
    x, y = (stowgrad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    op(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.5, 0.5], [0.5, 0.5])


def test_equal_largest_elements_share_the_gradient():
    x = stowgrad.tensor([2.0, 1.0, 2.0], requires_grad=True)
    reduce.amax(x).backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("size", [3, 3000])
def test_relu_and_abs_have_no_slope_at_zero(size):
    x = stowgrad.zeros(size, requires_grad=True)
    (activation.relu(x) + elementwise.abs(x)).sum().backward()
    assert not x.grad.numpy().any()


@pytest.mark.parametrize(("exponent", "slope"), [(0, 0.0), (0.0, 0.0), (1, 1.0), (2, 0.0)])
def test_power_at_zero(exponent, slope):
    x = stowgrad.zeros(2, requires_grad=True)
    elementwise.pow(x, exponent).sum().backward()
    assert x.grad.tolist() == [slope, slope]


def test_power_with_zero_base_gives_the_exponent_no_gradient():
    y = stowgrad.tensor([1.0, 2.0], requires_grad=True)
    elementwise.pow(stowgrad.zeros(2), y).sum().backward()
    assert y.grad.tolist() == [0.0, 0.0]


def test_padding_rows_get_no_gradient():
    weight = stowgrad.ones(4, 2, requires_grad=True)
    embedding.embedding(stowgrad.tensor([1, 0, 1]), weight, 1).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_padding_rows_get_no_gradient_under_create_graph():
    weight = stowgrad.ones(4, 2, requires_grad=True)
    embedded = embedding.embedding(stowgrad.tensor([1, 0, 1]), weight, 1)
    (found,) = stowgrad.autograd.grad(embedded.sum(), weight, create_graph=True)
    assert found.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


ELEMENTWISE = [case for case in CASES if case.label in ("matrix", "same shape")]


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.op)
def test_nothing_of_size_zero_fails(case):  # case I8
    inputs = [a[:0] for a in case.inputs]
    tensors = [stowgrad.tensor(a, requires_grad=True) for a in inputs]
    case.function(*tensors).sum().backward()
    assert [t.grad.shape for t in tensors] == [a.shape for a in inputs]


def test_a_mask_that_is_added_gets_a_gradient_of_its_shape():
    q = stowgrad.ones(1, 1, 2, 3, requires_grad=True)
    added = stowgrad.zeros(2, 1, requires_grad=True)
    attention.attention(q, q, q, added).sum().backward()
    assert added.grad.shape == (2, 1)
