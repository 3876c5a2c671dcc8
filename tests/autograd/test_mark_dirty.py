"""`ctx.mark_dirty`: Functions that change their arguments."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad


class Scale(Function):
    """Multiplies its argument in place."""

    @staticmethod
    def forward(ctx, x, by):
        x.mul_(by)
        ctx.mark_dirty(x)
        ctx.by = by
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.by, None


class Exp(Function):
    """The exponential in place, which saves what it wrote."""

    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True,)
        return g * y


def leaf():
    return stowgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


def test_the_same_object_comes_back_with_a_new_history():  # spec 6.10
    w = leaf()
    x = w * 1
    y = Scale.apply(x, 3.0)
    assert y is x
    assert (x.grad_fn.name(), x.grad_fn.next_functions[0][0].name()) == ("ScaleBackward", "MulBackward0")
    x.sum().backward()
    assert w.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_the_version_counts():  # spec 6.10
    w = leaf()
    x = w * 1
    y = (x * x).sum()
    before = x._version
    Scale.apply(x, 3.0)
    assert x._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_saved_argument_that_was_changed_is_an_output():  # spec 6.10
    w = leaf()
    x = w * 1
    Exp.apply(x)
    (g,) = grad(x.sum(), w, create_graph=True)
    (second,) = grad(g.sum(), w)
    assert np.allclose(g.detach().numpy(), np.exp(w.detach().numpy()))
    assert np.allclose(second.numpy(), np.exp(w.detach().numpy()))


@pytest.mark.parametrize("inputs", [False, True])
def test_a_view_is_changed_and_its_base_knows(inputs):  # spec 6.10 2.7
    w = leaf()
    x = w * 1
    Exp.apply(x[0])
    assert x.grad_fn.name() == "CopySlices"
    if inputs:
        (g,) = grad(x.sum(), w)
    else:
        x.sum().backward()
        g = w.grad
    assert np.allclose(g.numpy(), [np.exp([1.0, 2.0]), [1.0, 1.0]])


def test_second_derivatives_through_a_changed_view():  # spec 6.10
    w = leaf()
    x = w * 1
    Exp.apply(x[0])
    (g,) = grad((x * 2).sum(), w, create_graph=True)
    (second,) = grad(g.sum(), w)
    assert np.allclose(second.numpy(), [2 * np.exp([1.0, 2.0]), [0.0, 0.0]])


def test_other_views_follow():  # spec 6.10 2.8
    w = leaf()
    x = w * 1
    column = x[:, 0]
    Scale.apply(x, 5.0)
    column.sum().backward()
    assert w.grad.tolist() == [[5.0, 0.0], [5.0, 0.0]]


def test_nothing_is_recorded_without_grad_mode():  # spec 6.10
    w = leaf()
    with stowgrad.no_grad():
        assert Scale.apply(w, 3.0) is w
    assert (w.is_leaf, w.tolist()) == (True, [[3.0, 6.0], [9.0, 12.0]])


@pytest.mark.parametrize("argument", [lambda w: w, lambda w: w[0]], ids=["leaf", "view"])
def test_a_leaf_is_not_changed(argument):  # spec 6.10 2.5
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Scale.apply(argument(leaf()), 3.0)


def test_one_of_several_views_is_not_changed():  # spec 2.9
    with pytest.raises(RuntimeError, match="multiple views"):
        Scale.apply((leaf() * 1).unbind()[0], 3.0)


class Odd(Function):
    """Marks and returns what it is told to."""

    @staticmethod
    def forward(ctx, x, returned, marked):
        found = {"x": x, "other": stowgrad.ones(2, 2), "copy": x * 1}
        ctx.mark_dirty(*[found[name] for name in marked])
        return tuple(found[name] for name in returned)

    @staticmethod
    def backward(ctx, *grads):
        return grads[0], None, None


def test_what_is_changed_must_be_returned():  # spec 6.10
    with pytest.raises(RuntimeError, match="not returned as output"):
        Odd.apply(leaf() * 1, ("copy",), ("x",))


def test_what_is_no_input_warns():  # spec 6.10
    with pytest.warns(UserWarning, match="Only input Tensors"):
        Odd.apply(leaf() * 1, ("x", "other"), ("x", "other"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Odd.apply(leaf() * 1, ("x", "copy"), ("x",))


def test_a_changed_view_must_be_the_only_output():  # spec 6.10
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        Odd.apply((leaf() * 1)[:1], ("x", "copy"), ("x",))
