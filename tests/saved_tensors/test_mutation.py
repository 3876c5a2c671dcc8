"""`allow_mutation_on_saved_tensors`."""

from __future__ import annotations

import pytest

import stowgrad
from stowgrad.autograd.graph import allow_mutation_on_saved_tensors
from stowgrad.memory import memory_allocated
from stowgrad.saved_tensors import state

from .hook_support import Noting, leaf


def test_backward_reads_the_former_value():  # spec 4.29
    x = leaf()
    with allow_mutation_on_saved_tensors():
        h = x * 3
        y = (h * h).sum()
        h.add_(100)
        y.backward()
    assert x.grad.tolist() == [18.0] * 3


def test_several_changes_between_several_saves():  # spec 4.29
    x = leaf()
    with allow_mutation_on_saved_tensors():
        h = x * 1
        first = (h * h).sum()
        h.mul_(10)
        second = (h * h).sum()
        h.mul_(10)
        (first + second).backward()
    assert x.grad.tolist() == [2.0 + 200.0] * 3


def test_an_operand_that_is_the_target():  # spec 4.29, over 2.16
    x = leaf()
    with allow_mutation_on_saved_tensors():
        h = x * 3
        h.mul_(h)
        h.sum().backward()
    assert x.grad.tolist() == [18.0] * 3


def test_a_saved_output_is_kept_too():  # spec 4.29
    x = stowgrad.zeros(2, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        y = x.exp()
        total = y.sum()
        y.mul_(7)
        total.backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_leaf_that_is_changed_without_grad_mode():  # spec 4.29
    x = leaf()
    with allow_mutation_on_saved_tensors():
        y = (x * x).sum()
        with stowgrad.no_grad():
            x.fill_(50)
        y.backward()
    assert x.grad.tolist() == [2.0] * 3


def test_a_change_through_a_view():  # spec 4.29
    x = leaf()
    with allow_mutation_on_saved_tensors():
        h = x * 3
        y = (h * h).sum()
        h[0] = 100
        y.backward()
    assert x.grad.tolist() == [18.0] * 3


def test_second_derivatives():  # spec 4.29
    x = leaf()
    with allow_mutation_on_saved_tensors():
        h = x * 1
        y = (h * h * h).sum()
        h.zero_()
        (first,) = stowgrad.autograd.grad(y, x, create_graph=True)
        (second,) = stowgrad.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0] * 3


def test_what_nobody_saved_is_not_copied():  # spec 4.29
    x = stowgrad.ones(1000)
    with allow_mutation_on_saved_tensors():
        before = memory_allocated()
        x.add_(1)
        assert memory_allocated() == before


def test_what_nobody_changes_is_not_copied():  # spec 4.29
    x = stowgrad.ones(1000, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        h = x * 1
        before = memory_allocated()
        y = h.sin()
        assert memory_allocated() == before + y.nbytes


def test_it_can_not_be_nested():  # spec 4.29
    with allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError, match="cannot be nested"):
            allow_mutation_on_saved_tensors().__enter__()


def test_a_change_before_the_block_stays_an_error():  # P1
    x = leaf()
    h = x * 3
    y = (h * h).sum()
    with allow_mutation_on_saved_tensors():
        h.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_a_change_after_the_block_is_an_error():  # spec 4.29
    with allow_mutation_on_saved_tensors():
        h = leaf() * 3
        y = (h * h).sum()
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_the_state_is_dropped_at_exit():  # spec 4.29
    context = allow_mutation_on_saved_tensors()
    with context:
        y = leaf() * leaf()
    assert context._saved == {}
    assert state.current().hooks == ()
    assert y.requires_grad


def test_nothing_outlives_the_graph():  # P8
    x = stowgrad.ones(1000, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        before = memory_allocated()
        h = x * 3
        y = h.sin()
        h.add_(1)
        del h, y
        assert memory_allocated() == before


def test_hooks_inside_come_first():  # spec 4.1 4.29
    noting = Noting()
    with allow_mutation_on_saved_tensors(), noting.hooks():
        leaf().exp()
    assert len(noting.packed) == 1


def test_a_step_of_the_optimizer():  # spec 4.29, case A4
    x, p = leaf(), leaf()
    optimizer = stowgrad.optim.SGD([p], lr=1.0)
    p.grad = stowgrad.ones(3)
    with allow_mutation_on_saved_tensors():
        y = (x * p).sum()
        optimizer.step()
        y.backward()
    assert p.tolist() == [0.0] * 3
    assert x.grad.tolist() == [1.0] * 3
