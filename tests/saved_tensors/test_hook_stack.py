"""The stack of hooks: which entries apply, in which order, and how they are left."""

from __future__ import annotations

import pytest

import stowgrad
from stowgrad.autograd import grad
from stowgrad.saved_tensors import PolicyEntry, saved_tensors_hooks

from .hook_support import Noting, Recording, leaf, same

# -- the stack ---------------------------------------------------------------------------------------------------------


def test_only_the_innermost_pair_is_asked():  # spec 4.1, P6, case A9
    outer, inner = Noting(), Noting()
    with outer.hooks(), inner.hooks():
        leaf().exp()
    assert (len(outer.packed), len(inner.packed)) == (0, 1)


def test_the_outer_pair_is_back_after_the_inner_one():  # spec 4.1
    outer = Noting()
    with outer.hooks():
        with Noting().hooks():
            pass
        leaf().exp()
    assert len(outer.packed) == 1


def test_an_exception_pops_the_pair():  # spec 4.4
    noting = Noting()
    with pytest.raises(KeyError), noting.hooks():
        raise KeyError
    leaf().exp()
    assert noting.packed == []


def test_one_context_may_be_entered_twice():  # spec 4.2
    noting = Noting()
    hooks = noting.hooks()
    with hooks, hooks:
        leaf().exp()
    leaf().exp()
    assert len(noting.packed) == 1


def first_pack(tensor):
    return tensor


def second_pack(tensor):
    return tensor


def test_leaving_out_of_order_names_both():  # spec 4.2 turned by P5, case A10
    first, second = saved_tensors_hooks(first_pack, same), saved_tensors_hooks(second_pack, same)
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match=r"out of order(.|\n)*first_pack(.|\n)*second_pack"):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)


def test_leaving_what_was_not_entered_is_an_error():  # spec 4.2
    with pytest.raises(RuntimeError, match="innermost now: none"):
        saved_tensors_hooks(same, same).__exit__(None, None, None)


def test_hooks_entered_before_a_pass_see_what_it_saves():  # spec 4.18
    noting, x = Noting(), leaf()
    y = x.exp().sum()
    with noting.hooks():
        grad(y, x, create_graph=True)
    assert noting.packed


def test_hooks_left_before_a_pass_do_not():  # spec 4.18
    noting, x = Noting(), leaf()
    with noting.hooks():
        y = x.exp().sum()
    seen = len(noting.packed)
    grad(y, x, create_graph=True)
    assert len(noting.packed) == seen


def test_a_pack_hook_does_not_call_itself():  # spec 4.17 turned by P5, case A17
    calls = []

    def pack(tensor):
        calls.append(1)
        with stowgrad.enable_grad():
            (tensor.detach().requires_grad_() * 2).exp()
        return tensor

    with saved_tensors_hooks(pack, same):
        leaf().exp()
    assert len(calls) == 1


def test_an_unpack_hook_does_not_call_itself():  # P5
    calls = []

    def unpack(tensor):
        calls.append(1)
        with stowgrad.enable_grad():
            leaf().exp()
        return tensor

    x = leaf()
    with saved_tensors_hooks(lambda t: calls.append(0) or t, unpack):
        x.log().sum().backward()
    assert calls == [0, 1]


def test_hooks_entered_inside_a_hook_work():  # P5, note 4
    inner = Noting()

    def pack(tensor):
        with stowgrad.enable_grad(), inner.hooks():
            leaf().exp()
        return tensor

    with saved_tensors_hooks(pack, same):
        leaf().exp()
    assert len(inner.packed) == 1


def test_hooks_are_in_force_again_after_a_hook_failed():  # P5
    def pack(tensor):
        raise KeyError

    noting = Noting()
    with noting.hooks():
        with pytest.raises(KeyError), saved_tensors_hooks(pack, same):
            leaf().exp()
        leaf().exp()
    assert len(noting.packed) == 1


# -- policies ----------------------------------------------------------------------------------------------------------


def test_policies_compose_from_the_inside_out():  # P6, case A9
    log = []
    with Recording("outer", log), Recording("inner", log):
        leaf().exp()
    assert log == [["inner", "outer"]]


def test_a_raw_pair_ends_the_chain():  # P6
    log = []
    with Recording("outer", log), saved_tensors_hooks(same, same), Recording("inner", log):
        leaf().exp()
    assert log == ["outer shadowed", ["inner"]]


def test_a_policy_outside_a_raw_pair_is_told_that_it_is_shadowed():  # P6
    log, noting = [], Noting()
    with Recording("outer", log), noting.hooks():
        leaf().exp()
    assert log == ["outer shadowed"]
    assert len(noting.packed) == 1


def test_a_policy_gives_back_the_value_at_save_time():  # P1
    x = leaf()
    h = x * 2
    with Recording("copy", []):
        y = h.log()
    with stowgrad.no_grad():
        h.add_(100)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_second_derivatives_through_a_policy():  # spec 3.8
    x = leaf()
    with Recording("copy", []):
        y = (x * x * x).sum()
    (first,) = grad(y, x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [6.0] * 3


def test_a_policy_may_decline():  # a handle of None keeps the value
    class Declines(PolicyEntry):
        def save(self, value, outer):
            return None

    x = leaf()
    with Declines():
        y = x.log()
    assert y.grad_fn.saved_variables[0].plain is x._array
