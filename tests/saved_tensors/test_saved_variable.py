"""The door: what is kept, what comes back, and when it is refused."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.memory import memory_allocated, storage_of
from stowgrad.saved_tensors import saved_tensors_hooks

SIZES = pytest.mark.parametrize("size", [3, 3000])


class Keep(Function):
    """Saves its arguments and its output."""

    @staticmethod
    def forward(ctx, *xs):
        y = xs[0] * 2
        ctx.save_for_backward(*xs, y)
        return y

    @staticmethod
    def backward(ctx, g):
        return (g * 2, *[None] * (len(ctx.saved_tensors) - 2))


def leaf(size=3):
    return stowgrad.ones(size, requires_grad=True)


def slots(node):
    """The values of a node's slots as tensors, None where nothing was saved."""
    return [None if s is None else s.tensor(node, stowgrad.Tensor) for s in node.saved_variables]


@pytest.fixture(autouse=True)
def no_collection_in_between():
    """Garbage of other tests must not be freed while this one compares what is allocated."""
    enabled = gc.isenabled()
    gc.disable()
    yield
    if enabled:
        gc.enable()


# -- what is kept ------------------------------------------------------------------------------------------------------


@SIZES
def test_a_saved_input_comes_back_as_the_same_object(size):  # spec 3.1
    x, w = leaf(size), leaf(size)
    first, second = slots((x * w).grad_fn)
    assert first is x
    assert second is w


def test_a_saved_inner_value_comes_back_as_the_same_object():  # spec 3.1
    h = leaf() * 2
    assert slots(h.exp().log().grad_fn)[0] is not h
    assert slots(h.log().grad_fn)[0] is h


def test_a_saved_parameter_stays_a_parameter():  # spec 3.1
    parameter = stowgrad.nn.Parameter(stowgrad.ones(3))
    assert slots((leaf() * parameter).grad_fn)[1] is parameter


def test_the_saved_object_is_held_weakly():  # spec 3.1 turned by P9
    h = leaf() * 2
    y = h * h
    found = weakref.ref(h)
    del h
    assert found() is None
    assert y.requires_grad


def test_a_dead_object_is_made_again_with_its_history():  # spec 3.1 turned by P9
    h = leaf() * 2
    node = h.grad_fn
    y = h * h
    del h
    again = slots(y.grad_fn)[0]
    assert again.grad_fn is node
    assert again.tolist() == [2.0] * 3


def test_what_is_made_again_shares_storage_and_version():  # spec 3.1 turned by P9
    h = leaf() * 2
    y = h * h
    storage = h._storage
    del h
    assert slots(y.grad_fn)[0]._storage is storage


def test_a_dead_leaf_is_kept_by_its_accumulator():  # spec 3.1 1.11
    x = leaf()
    found = weakref.ref(x)
    y = x.log()
    del x
    assert slots(y.grad_fn)[0] is found()


def test_an_input_without_grad_stays_without():  # spec 3.1
    x, c = leaf(), stowgrad.ones(3)
    y = x * c
    del c
    assert not slots(y.grad_fn)[1].requires_grad


@SIZES
def test_a_saved_output_is_another_tensor_over_the_same_memory(size):  # spec 3.2
    y = leaf(size).exp()
    (found,) = slots(y.grad_fn)
    assert found is not y
    assert found._storage is y._storage


def test_a_saved_output_comes_from_the_node_that_is_read():  # spec 3.2
    y = leaf().exp()
    (found,) = slots(y.grad_fn)
    assert found.grad_fn is y.grad_fn


def test_a_saved_output_of_a_function_comes_from_its_node():  # spec 3.2
    y = Keep.apply(leaf())
    assert y.grad_fn.saved_tensors[1].grad_fn is y.grad_fn


def test_a_saved_output_is_no_view():  # spec 3.2
    assert not slots(leaf().exp().grad_fn)[0]._is_view()


def test_a_made_up_saved_view_is_no_view():  # spec 3.4
    h = leaf(4) * 2
    y = h.view(2, 2).log()
    assert not slots(y.grad_fn)[0]._is_view()


@SIZES
def test_a_node_with_saved_output_does_not_outlive_it(size):  # spec 3.3
    y = leaf(size).exp()
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_the_version_at_saving_is_recorded():  # spec 3.6
    x = leaf()
    with stowgrad.no_grad():
        x.add_(1)
    assert x.log().grad_fn.saved_variables[0].version == 1


# -- release -----------------------------------------------------------------------------------------------------------


def test_saved_values_are_released_by_the_pass():  # spec 3.10
    y = leaf().exp()
    y.sum().backward()
    assert y.grad_fn.saved_variables is None


def test_a_retained_graph_keeps_them():  # spec 3.10
    y = leaf().exp()
    y.sum().backward(retain_graph=True)
    assert slots(y.grad_fn)[0].tolist() == y.tolist()


def test_a_released_slot_is_an_error():  # spec 3.11
    y = leaf().exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match=r"second time \(or directly access saved tensors.*retain_graph=True"):
        y.grad_fn.saved_values()


def test_only_nodes_that_ran_are_released():  # spec 3.13
    x = leaf()
    h = x.exp()
    y = h.exp()
    grad(y.sum(), h)
    assert y.grad_fn.saved_variables is None
    assert h.grad_fn.saved_variables is not None


def test_what_lies_behind_can_still_run():  # spec 3.13
    x = leaf()
    h = x.exp()
    grad(h.exp().sum(), h)
    h.sum().backward()
    assert np.allclose(x.grad.numpy(), np.e)


@pytest.mark.parametrize("retain", [False, True])
def test_two_losses_over_one_graph(retain):  # spec 3.14
    h = leaf().exp()
    first, second = (h * 2).sum(), (h * 3).sum()
    first.backward(retain_graph=retain)
    if retain:
        second.backward()
    else:
        with pytest.raises(RuntimeError, match="second time"):
            second.backward()


def failing_at(h, fails):
    """``h`` again; backward fails here while ``fails`` has something in it."""

    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if fails:
                raise KeyError
            return g

    return Fails.apply(h)


def test_after_a_failure_nodes_that_ran_are_released():  # spec 3.15
    y = failing_at(leaf().exp(), [1]).exp()
    with pytest.raises(KeyError):
        y.sum().backward()
    assert y.grad_fn.saved_variables is None


def test_after_a_failure_the_others_keep_what_they_saved():  # spec 3.15
    h = leaf().exp()
    with pytest.raises(KeyError):
        failing_at(h, [1]).exp().sum().backward()
    assert slots(h.grad_fn)[0].tolist() == h.tolist()


def test_a_pass_is_retried_where_nothing_was_released():  # spec 3.15
    x, fails = leaf(), [1]
    y = failing_at(x.exp(), fails).sum()
    with pytest.raises(KeyError):
        y.backward()
    fails.clear()
    y.backward()
    assert np.allclose(x.grad.numpy(), np.e)


def test_gradients_that_arrived_before_a_failure_stay():  # spec 3.15
    x, w = leaf(), leaf()
    behind = failing_at(x * 2, [1])
    with pytest.raises(KeyError):
        (behind + w * 3).sum().backward()
    assert w.grad.tolist() == [3.0] * 3


# -- checks ------------------------------------------------------------------------------------------------------------


def copy_of(tensor):
    return tensor.detach().clone()


@SIZES
def test_without_hooks_a_change_is_an_error(size):  # P1
    x = leaf(size)
    h = x * 1
    y = h.log()
    with stowgrad.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@SIZES
def test_with_an_identity_hook_a_change_is_an_error(size):  # spec 3.7 turned by P1, case A3
    h = leaf(size) * 1
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = h.log()
    with stowgrad.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*version 1; expected version 0"):
        y.sum().backward()


def test_with_a_view_in_the_hooks_a_change_is_an_error():  # P1, case A3
    h = leaf(4) * 1
    with saved_tensors_hooks(lambda t: t.view(2, 2), lambda t: t.view(4)):
        y = h.log()
    with stowgrad.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_with_numpy_s_view_in_the_hooks_a_change_is_an_error():  # P1, case A3
    h = leaf() * 1
    with saved_tensors_hooks(lambda t: t.detach().numpy(), stowgrad.from_numpy):
        y = h.log()
    with stowgrad.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@SIZES
def test_a_copy_in_the_hooks_gives_the_value_at_save_time(size):  # P1, case A3
    x = leaf(size)
    h = x * 2
    with saved_tensors_hooks(copy_of, lambda t: t):
        y = h.log()
    with stowgrad.no_grad():
        h.add_(100)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * size


def test_an_optimizer_step_between_the_passes_is_an_error():  # case A4
    x, p = leaf(), leaf()
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * p
    with stowgrad.no_grad():
        p.add_(100)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda t: stowgrad.ones(1), r"expected: shape \[2\], float32, on cpu\s+got: shape \[1\]"),
        (lambda t: t.double(), "got: shape .2., float64"),
        (lambda t: t.to("sim:0"), "on sim:0"),
        (lambda t: t.view(1, 2), r"shape \[1, 2\]"),
    ],
)
def test_what_unpack_returns_is_checked(other, words, create_graph):  # spec 4.13 turned by P4, case A7
    x = leaf(2)
    with saved_tensors_hooks(lambda t: t, other):
        y = x.exp()
    with pytest.raises(RuntimeError, match="ExpBackward0, saved value 'result'") as caught:
        grad(y.sum(), x, create_graph=create_graph)
    assert caught.match(words)


@pytest.mark.parametrize("other", [None, 1.0, np.ones(2)])
def test_unpack_must_return_a_tensor(other):  # spec 4.13
    with saved_tensors_hooks(lambda t: t, lambda t: other):
        y = leaf(2).exp()
    with pytest.raises(TypeError, match=f"must return a Tensor, got {type(other).__name__}"):
        y.sum().backward()


def test_an_unpack_hook_that_writes_does_not_reach_the_user_s_tensor_unseen():  # spec 4.14 turned by P4
    h = leaf() * 1
    with saved_tensors_hooks(lambda t: t, lambda t: t.add_(1)):
        y = h.log()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# -- history -----------------------------------------------------------------------------------------------------------

NUMPY = (lambda t: t.detach().numpy().copy(), stowgrad.from_numpy)
PICKLE = (lambda t: pickle.dumps(t.detach().numpy()), lambda data: stowgrad.from_numpy(pickle.loads(data)))
pairs = pytest.mark.parametrize("pair", [NUMPY, PICKLE, (copy_of, copy_of)], ids=["numpy", "pickle", "copy"])


def nested(x, w):
    h = (x * w).exp() * x
    return (h * h.tanh()).sum()


@pairs
@SIZES
def test_second_derivatives_through_hooks_are_the_same(pair, size):  # spec 3.8, case I9
    found = []
    for hooked in (False, True):
        x, w = (stowgrad.tensor(np.linspace(0.1, 1, size), requires_grad=True) for _ in range(2))
        if hooked:
            with saved_tensors_hooks(*pair):
                y = nested(x, w)
        else:
            y = nested(x, w)
        first = grad(y, [x, w], create_graph=True)
        found.append([g.tolist() for g in grad((first[0] * first[1]).sum(), [x, w])])
    assert found[0] == found[1]


@pairs
def test_a_leaf_behind_hooks_still_gets_its_gradient(pair):  # spec 3.8
    x = leaf()
    with saved_tensors_hooks(*pair):
        y = (x * x).sum()
    grad(y, x, create_graph=True)[0].sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_what_comes_back_has_the_history_of_what_went_in():  # spec 3.8
    x = leaf()
    h = x * 2
    with saved_tensors_hooks(*NUMPY):
        y = h.log()
    again = slots(y.grad_fn)[0]
    assert again.grad_fn is h.grad_fn
    assert again.output_nr == h.output_nr


def test_a_leaf_that_comes_back_accumulates_into_the_leaf():  # spec 3.8
    x = leaf()
    with saved_tensors_hooks(*NUMPY):
        y = x.log()
    (slots(y.grad_fn)[0] * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_nothing_to_attach_gives_back_the_same_object():  # spec 3.9, case A23
    given = stowgrad.ones(3)
    x = leaf()
    with saved_tensors_hooks(lambda t: None, lambda nothing: given):
        y = x * stowgrad.ones(3)
    assert slots(y.grad_fn)[1] is given


# -- odd shapes --------------------------------------------------------------------------------------------------------


@pairs
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_odd_shapes_through_hooks_and_twice_differentiated(pair, shape):  # case I8
    x = stowgrad.tensor(np.full(shape, 0.5), requires_grad=True)
    with saved_tensors_hooks(*pair):
        y = (x.exp() * x).sum()
    (first,) = grad(y, x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert (second.shape, second.dtype) == (shape, np.float64)
    assert np.allclose(second.numpy(), 2.5 * np.exp(0.5))


def test_strided_values_come_back_with_their_values():
    x = stowgrad.tensor(np.arange(6.0).reshape(2, 3) + 1, requires_grad=True)
    with saved_tensors_hooks(*NUMPY):
        y = x.t().log().sum()
    y.backward()
    assert np.allclose(x.grad.numpy(), 1 / x.detach().numpy())


def test_saved_values_lie_in_a_pool():
    (saved,) = leaf(3000).exp().grad_fn.saved_variables
    assert storage_of(saved.plain) is saved.storage


def test_saving_costs_no_memory_without_hooks():
    x = leaf(3000)
    before = memory_allocated()
    y = x.log()
    assert memory_allocated() - before == y.nbytes
