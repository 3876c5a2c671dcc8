"""The stack of hooks: which entries apply, in which order, and how they are left."""

from __future__ import annotations

import gc
import weakref

import pytest

import stowgrad
from stowgrad.autograd import grad
from stowgrad.autograd.graph import queue_callback
from stowgrad.saved_tensors import PolicyEntry, saved_tensors_hooks
from stowgrad.saved_tensors.state import current

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


def saves_something() -> None:
    """What a hook of a pass may do: an op that is recorded, and saves."""
    with stowgrad.enable_grad():
        leaf().exp()


class SavesInBackward(stowgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        saves_something()
        return g * 2


def through_a_function(x):
    return SavesInBackward.apply(x)


def through_a_tensor_hook(x):
    h = x * 2
    h.register_hook(lambda g: saves_something())
    return h


def through_a_pre_hook(x):
    h = x * 2
    h.grad_fn.register_prehook(lambda outputs: saves_something())
    return h


def through_a_post_hook(x):
    h = x * 2
    h.grad_fn.register_hook(lambda inputs, outputs: saves_something())
    return h


def through_a_post_accumulate_hook(x):
    x.register_post_accumulate_grad_hook(lambda leaf: saves_something())
    return x * 2


def through_a_callback(x):
    h = x * 2
    h.register_hook(lambda g: queue_callback(saves_something))
    return h


@pytest.mark.parametrize(
    "through",
    [
        through_a_function,
        through_a_tensor_hook,
        through_a_pre_hook,
        through_a_post_hook,
        through_a_post_accumulate_hook,
        through_a_callback,
    ],
)
def test_what_the_user_s_code_saves_in_a_pass_is_packed(through):  # spec 4.18
    noting, x = Noting(), leaf()
    y = through(x).sum()
    with noting.hooks():
        y.backward()
        assert len(noting.packed) == 1
        assert len(current().hooks) == 1


def test_a_node_that_is_called_by_itself_runs_the_user_s_code_under_the_hooks():  # spec 1.24, 4.18
    noting, y = Noting(), SavesInBackward.apply(leaf())
    with noting.hooks(), stowgrad.no_grad():
        y.grad_fn(stowgrad.ones(*y.shape))
        assert len(noting.packed) == 1
        assert len(current().hooks) == 1


def test_a_context_that_one_hook_of_a_pass_enters_another_may_leave():  # P5
    noting, x = Noting(), leaf()
    context = noting.hooks()
    h = x * 2
    y = (h * 3).sum()
    h.register_hook(lambda g: saves_something())
    h.grad_fn.register_prehook(lambda outputs: context.__exit__(None, None, None))
    y.grad_fn.register_prehook(lambda outputs: context.__enter__() and None)
    y.backward()
    assert len(noting.packed) == 1
    assert current().hooks == ()


def test_what_an_unpack_hook_leaves_of_the_state_does_not_stay():  # P5
    def unpack(tensor):
        stowgrad.set_grad_enabled(True)
        return tensor

    modes, noting, x = [], Noting(), leaf()
    with saved_tensors_hooks(lambda tensor: tensor, unpack):
        h = x * 2
        y = h.exp().sum()
    h.register_hook(lambda g: modes.append(stowgrad.is_grad_enabled()))
    h.register_hook(lambda g: saves_something())
    with noting.hooks():
        y.backward()
    assert modes == [False]
    assert len(noting.packed) == 1


def test_a_pass_inside_an_unpack_hook_does_not_see_the_hooks():  # P5
    noting = Noting()

    def unpack(tensor):
        with stowgrad.enable_grad():
            SavesInBackward.apply(leaf()).sum().backward()
        return tensor

    with saved_tensors_hooks(lambda tensor: tensor, unpack):
        y = leaf().exp().sum()
    with noting.hooks():
        y.backward()
    assert noting.packed == []


def test_hooks_are_let_go_of_after_a_pass_under_no_grad():  # law 5
    class Owner:
        def hook(self, tensor):
            return tensor

    owner = Owner()
    alive = weakref.ref(owner)
    y = leaf().exp().sum()
    gc.collect()
    gc.disable()
    try:
        with stowgrad.no_grad(), saved_tensors_hooks(owner.hook, owner.hook):
            y.backward()
        del owner
        assert alive() is None
    finally:
        gc.enable()


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
