"""Saved values by name: ``_saved_<slot>``, ``_raw_saved_<slot>``, and hooks of a single one."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.saved_slots import SavedTensor
from stowgrad.saved_tensors import Compress, saved_tensors_hooks


def leaf(*values):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def same(value):
    return value


def slots_of(node):
    return {name for name in dir(node) if name.startswith("_saved_")}


# -- values ------------------------------------------------------------------------------------------------------------


def test_a_slot_gives_the_value():  # spec 4.23
    x = leaf()
    assert x.exp().grad_fn._saved_result.tolist() == x.exp().tolist()


def test_a_saved_input_is_the_object_itself():  # spec 4.23 3.1
    x = leaf()
    assert x.log().grad_fn._saved_self is x


def test_a_saved_output_has_the_node_as_its_history():  # spec 4.23 3.2
    y = leaf().exp()
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn


def test_what_is_not_needed_is_none():  # spec 4.23 1.22
    x, c = leaf(), stowgrad.ones(2)
    node = (x * c).grad_fn
    assert node._saved_self is None
    assert node._saved_other is c


def test_a_number_is_a_tensor_without_dimensions():  # spec 4.26
    node = (leaf() * 3).grad_fn
    assert node._saved_other.shape == ()
    assert node._saved_other.item() == 3


def test_each_read_unpacks():  # spec 4.11 4.23
    reads = []
    with saved_tensors_hooks(same, lambda t: reads.append(1) or t):
        y = leaf().exp()
    _ = y.grad_fn._saved_result, y.grad_fn._saved_result
    assert len(reads) == 2


def test_what_policies_packed_is_unpacked():  # spec 4.23
    x = stowgrad.ones(100_000, requires_grad=True)
    with Compress("zstd"):
        y = x.sin()
    assert y.grad_fn._saved_self.tolist() == x.tolist()


def test_a_released_slot_is_an_error():  # spec 4.23 3.11
    y = leaf().exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match=r"second time.*directly access saved tensors.*retain_graph=True"):
        _ = y.grad_fn._saved_result


def test_a_changed_slot_is_an_error():  # spec 4.23 2.15
    x = leaf()
    y = x.log()
    with stowgrad.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _ = y.grad_fn._saved_self


def test_an_op_has_its_own_slots_only():  # spec 4.23
    x = leaf()
    assert slots_of((x * x).grad_fn) == {"_saved_self", "_saved_other"}
    assert slots_of(x.exp().grad_fn) == {"_saved_result"}
    assert slots_of((x + x).grad_fn) == set()


def test_another_slot_is_an_attribute_error():  # spec 4.23
    with pytest.raises(AttributeError, match="ExpBackward0 has no attribute '_saved_self'"):
        _ = leaf().exp().grad_fn._saved_self


def test_a_slot_can_not_be_set():  # spec 4.23
    with pytest.raises(AttributeError):
        leaf().exp().grad_fn._saved_result = 1


def test_layer_norm_has_pytorch_s_names():  # spec 4.23
    x, w = stowgrad.ones(3, 2, requires_grad=True), leaf()
    node = stowgrad.nn.functional.layer_norm(x, (2,), w).grad_fn
    assert slots_of(node) == {f"_saved_{name}" for name in ("input", "weight", "bias", "result1", "result2")}
    assert node._saved_weight is w


# -- places ------------------------------------------------------------------------------------------------------------


def test_a_raw_slot_unpacks():  # spec 4.23
    x = leaf()
    place = x.log().grad_fn._raw_saved_self
    assert isinstance(place, SavedTensor)
    assert place.unpack() is x


def test_a_raw_slot_shows_what_hooks_keep():  # spec 4.23
    x = leaf()
    with saved_tensors_hooks(lambda t: ("packed", t.tolist()), lambda p: stowgrad.tensor(p[1])):
        place = x.log().grad_fn._raw_saved_self
    assert place.data == ("packed", [1.0, 2.0])
    assert place.unpack_hook(place.data).tolist() == [1.0, 2.0]


def test_without_hooks_data_is_the_value():  # spec 4.23
    place = leaf().exp().grad_fn._raw_saved_result
    assert place.data.grad_fn is None
    assert place.unpack_hook is None


def test_data_of_nothing_is_none():  # spec 4.23
    node = (leaf() * stowgrad.ones(2)).grad_fn
    assert (node._raw_saved_self.data, node._raw_saved_self.unpack_hook, node._raw_saved_self.unpack()) == (None,) * 3


def test_data_is_gone_after_the_pass():  # spec 3.10 4.23
    y = leaf().exp()
    place = y.grad_fn._raw_saved_result
    y.sum().backward()
    assert place.data is None
    with pytest.raises(RuntimeError, match="second time"):
        place.unpack()


def test_the_place_of_an_output_can_not_unpack():  # spec 4.27
    with pytest.raises(RuntimeError, match=r"output 0 of ExpBackward0 without its grad_fn.*_saved_result"):
        leaf().exp().grad_fn._raw_saved_result.unpack()


# -- hooks of one slot -------------------------------------------------------------------------------------------------


def test_hooks_are_registered_for_one_slot():  # spec 4.24
    x, w = leaf(), leaf(3.0, 4.0)
    y = x * w
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t.numpy().copy(), lambda a: stowgrad.tensor(a * 10))
    y.sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([3.0, 4.0], [10.0, 20.0])


def test_registering_packs_at_once_and_detached():  # spec 4.24
    seen = []
    h = leaf() * 2
    y = h.log()
    y.grad_fn._raw_saved_self.register_hooks(lambda t: seen.append((t, stowgrad.is_grad_enabled())) or t, same)
    ((given, mode),) = seen
    assert (given is h, given.requires_grad, mode) == (False, False, False)
    assert given.tolist() == h.tolist()


def test_a_leaf_is_detached_too():  # spec 4.24
    x, seen = leaf(), []
    x.log().grad_fn._raw_saved_self.register_hooks(lambda t: seen.append(t) or t, same)
    assert seen[0] is not x
    assert not seen[0].requires_grad


def test_second_derivatives_go_through_hooks_of_a_slot():  # spec 3.8 4.24
    x = leaf()
    y = x * x * x
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        for place in (node._raw_saved_self, node._raw_saved_other):
            place.register_hooks(lambda t: t.numpy().copy(), stowgrad.from_numpy)
    (first,) = grad(y.sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]


def test_a_saved_output_may_have_hooks():  # spec 4.24
    x = leaf(0.0, 0.0)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t.numpy() * 2, stowgrad.from_numpy)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_hooks_twice_are_an_error():  # spec 4.25
    place = leaf().log().grad_fn._raw_saved_self
    place.register_hooks(same, same)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        place.register_hooks(same, same)


def test_hooks_over_a_default_pair_are_an_error():  # spec 4.25
    with saved_tensors_hooks(same, same):
        y = leaf().log()
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        y.grad_fn._raw_saved_self.register_hooks(same, same)


def test_hooks_of_a_freed_slot_are_an_error():  # spec 4.25
    y = leaf().log()
    place = y.grad_fn._raw_saved_self
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after it has been freed"):
        place.register_hooks(same, same)


def test_hooks_of_none_are_an_error():  # spec 4.25
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        (leaf() * stowgrad.ones(2)).grad_fn._raw_saved_self.register_hooks(same, same)


@pytest.mark.parametrize("pair", [(1, same), (same, 1)])
def test_hooks_must_be_callable(pair):  # spec 4.25
    with pytest.raises(TypeError, match="must be callable"):
        leaf().log().grad_fn._raw_saved_self.register_hooks(*pair)


def test_a_number_may_have_hooks():  # spec 4.26
    x, seen = leaf(), []
    y = x * 3
    y.grad_fn._raw_saved_other.register_hooks(lambda t: seen.append(t.item()) or t, lambda t: t * 2)
    y.sum().backward()
    assert seen == [3]
    assert x.grad.tolist() == [6.0, 6.0]


def test_hooks_on_a_changed_value_are_an_error():  # P1
    x = leaf()
    y = x.log()
    with stowgrad.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.grad_fn._raw_saved_self.register_hooks(same, same)


def test_a_change_under_identity_hooks_is_noticed():  # P1
    x = leaf()
    y = x.log()
    y.grad_fn._raw_saved_self.register_hooks(same, same)
    with stowgrad.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_pack_hook_must_not_write():  # spec 4.9
    with pytest.raises(RuntimeError, match="modifying its input in place"):
        leaf().exp().grad_fn._raw_saved_result.register_hooks(lambda t: t.add_(1), same)


def test_a_pack_hook_that_fails_changes_nothing():  # P3
    x = leaf()
    y = x.log()
    with pytest.raises(ZeroDivisionError):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: 1 / 0, same)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.5]


def test_what_unpack_returns_is_checked():  # P4
    x = leaf()
    y = x.log()
    y.grad_fn._raw_saved_self.register_hooks(same, lambda t: stowgrad.ones(3))
    with pytest.raises(RuntimeError, match=r"LogBackward0, saved value 'self'.*\n.*\[2\].*\n.*\[3\]"):
        y.sum().backward()


def test_identity_hooks_of_an_output_make_no_cycle():  # P9, spec 4.10
    gc.disable()
    try:
        before = stowgrad.memory.memory_allocated()
        y = stowgrad.ones(1000, requires_grad=True).exp()
        y.grad_fn._raw_saved_result.register_hooks(same, same)
        del y
        assert stowgrad.memory.memory_allocated() == before
    finally:
        gc.enable()


# -- Functions ---------------------------------------------------------------------------------------------------------


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, None, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, _, y = ctx.saved_tensors
        return g * y, g * x


def test_a_function_has_the_places_of_its_saved_tensors():  # spec 4.23
    x, y = leaf(), leaf(3.0, 4.0)
    places = Product.apply(x, y).grad_fn._raw_saved_tensors
    assert [place.unpack() for place in places][1] is None
    assert places[0].unpack() is x


def test_hooks_of_a_saved_tensor_of_a_function():  # spec 4.24
    x, y = leaf(), leaf(3.0, 4.0)
    out = Product.apply(x, y)
    out.grad_fn._raw_saved_tensors[2].register_hooks(lambda t: np.asarray(t) * 10, stowgrad.from_numpy)
    out.sum().backward()
    assert x.grad.tolist() == [30.0, 40.0]


def test_a_function_s_empty_place_takes_no_hooks():  # spec 4.25
    with pytest.raises(RuntimeError, match="value None is forbidden"):
        Product.apply(leaf(), leaf()).grad_fn._raw_saved_tensors[1].register_hooks(same, same)


def test_a_function_s_places_are_gone_after_the_pass():  # spec 3.11 4.23
    out = Product.apply(leaf(), leaf())
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = out.grad_fn._raw_saved_tensors


def test_a_ctx_may_have_attributes_of_these_names():
    class Own(Function):
        @staticmethod
        def forward(ctx, x):
            ctx._saved_self = "mine"
            return x * 2

    assert Own.apply(leaf()).grad_fn._saved_self == "mine"
