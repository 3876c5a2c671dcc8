"""Leaves, nodes and edges: what is recorded, and what the graph looks like."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.node import AccumulateGrad
from stowgrad.autograd.order import count_dependencies


def leaf(*values, **options):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True, **options)


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_a_user_makes_is_a_leaf(requires_grad):  # spec 1.1
    x = stowgrad.ones(2, requires_grad=requires_grad)
    assert (x.grad_fn, x.is_leaf) == (None, True)


def test_a_recorded_result_is_no_leaf():  # spec 1.1
    y = leaf() * 2
    assert not y.is_leaf
    assert y.grad_fn is not None


def test_an_unrecorded_result_is_a_leaf():  # spec 1.1
    assert (stowgrad.ones(2) * 2).is_leaf


def test_a_plain_tensor_carries_no_autograd_state():  # spec 1.2
    x = stowgrad.ones(2)
    y = x + 1
    assert (x._meta, y._meta) == (None, None)


def test_a_leaf_gets_its_state_when_an_op_uses_it():  # spec 1.2
    x = leaf()
    assert x._meta is None
    y = x * 2
    assert x._meta is not None
    assert y._meta is None


def test_nothing_is_recorded_without_grad_mode():  # spec 1.3
    with stowgrad.no_grad():
        y = leaf() * 2
    assert (y.requires_grad, y.grad_fn) == (False, None)


def test_requiring_grad_later_does_not_change_results_already_made():  # spec 1.3
    x = stowgrad.ones(2)
    y = x * 2
    x.requires_grad_()
    assert (y.requires_grad, y.grad_fn) == (False, None)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.bool_])
def test_requires_grad_is_refused_for_whole_numbers(dtype):  # spec 1.4
    with pytest.raises(RuntimeError, match="floating point"):
        stowgrad.zeros(2, dtype=dtype).requires_grad_()


def test_a_factory_refuses_requires_grad_for_whole_numbers():  # spec 1.4
    with pytest.raises(RuntimeError, match="floating point"):
        stowgrad.tensor([1, 2], requires_grad=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_requires_grad_is_granted_to_floats(dtype):  # spec 1.4
    assert stowgrad.zeros(2, dtype=np.dtype(dtype)).requires_grad_().requires_grad


def test_requires_grad_is_granted_to_bfloat16():  # spec 1.4
    assert stowgrad.ones(2).bfloat16().requires_grad_().requires_grad


@pytest.mark.parametrize("function", [lambda x: x > 0, lambda x: x == x, lambda x: x.argmax()])
@pytest.mark.parametrize("size", [3, 3000])
def test_results_of_whole_numbers_are_not_differentiable(function, size):  # spec 1.5
    y = function(stowgrad.ones(size, requires_grad=True) * 2)
    assert (y.requires_grad, y.grad_fn) == (False, None)


def test_a_cast_to_whole_numbers_is_not_differentiable():  # spec 1.5
    assert not leaf().long().requires_grad


def test_a_non_leaf_can_not_stop_requiring_grad():  # spec 1.6
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        (leaf() * 2).requires_grad_(False)


def test_a_non_leaf_may_require_grad_again():  # spec 1.6
    y = leaf() * 2
    assert y.requires_grad_() is y


def test_a_leaf_may_stop_requiring_grad():  # spec 1.6
    x = leaf()
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_grad_fn_is_the_same_object_each_time():  # spec 1.7
    y = leaf() * 2
    assert y.grad_fn is y.grad_fn


def test_ctx_is_the_grad_fn_of_the_outputs():
    seen = []

    class Keeps(Twice):
        @staticmethod
        def forward(ctx, x):
            seen.append(ctx)
            return x * 2

    assert Keeps.apply(leaf()).grad_fn is seen[0]  # spec 1.7


def test_a_node_is_named_after_its_op():  # spec 1.8
    assert (leaf() * 2).grad_fn.name() == "MulBackward0"


def test_a_function_s_node_has_no_digit():  # spec 1.8
    assert Twice.apply(leaf())[0].grad_fn.name() == "TwiceBackward"


def test_next_functions_has_an_entry_for_each_argument():  # spec 1.9
    x, h = leaf(), leaf() * 2
    y = h * stowgrad.ones(2)
    z = y + x
    (first, one), (second, two) = z.grad_fn.next_functions
    assert first is y.grad_fn
    assert isinstance(second, AccumulateGrad)
    assert (one, two) == (0, 0)


def test_an_argument_without_gradient_has_no_edge():  # spec 1.9
    y = leaf() * stowgrad.ones(2)
    assert y.grad_fn.next_functions[1] == (None, 0)


def test_outputs_of_one_op_share_its_node():  # spec 1.10
    first, second = Twice.apply(leaf())
    assert first.grad_fn is second.grad_fn
    assert (first.output_nr, second.output_nr) == (0, 1)


def test_the_edge_names_the_output():  # spec 1.9 1.10
    second = Twice.apply(leaf())[1]
    assert (second * 2).grad_fn.next_functions[0] == (second.grad_fn, 1)


def test_a_leaf_s_edge_leads_to_its_accumulator():  # spec 1.11
    x = leaf()
    (accumulator, _), _ = (x * 2).grad_fn.next_functions
    assert isinstance(accumulator, AccumulateGrad)
    assert accumulator.accumulates_into is x


def test_the_accumulator_dies_with_the_last_graph():  # spec 1.11
    gc.disable()
    try:
        x = leaf()
        y = x * 2
        accumulator = weakref.ref(y.grad_fn.next_functions[0][0])
        assert accumulator() is not None
        del y
        assert accumulator() is None
    finally:
        gc.enable()


def test_a_graph_keeps_its_leaf():  # spec 1.11
    x = leaf()
    y = (x * 2).sum()
    found = weakref.ref(x)
    del x
    y.backward()
    assert found() is not None
    assert found().grad.tolist() == [2.0, 2.0]


def test_a_leaf_dies_with_its_graph():  # spec 1.11
    gc.disable()
    try:
        x = leaf()
        y = (x * 2).sum()
        found = weakref.ref(x)
        del x, y
        assert found() is None
    finally:
        gc.enable()


def test_graphs_share_the_accumulator_of_a_leaf():  # spec 1.12
    x = leaf()
    first, second = x * 2, x.exp()
    assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]


def test_hooks_of_a_leaf_survive_its_accumulator():  # spec 1.13
    x = leaf()
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    for factor in (2.0, 3.0):
        (x * factor).sum().backward()
    assert seen == [[2.0, 2.0], [3.0, 3.0]]


def test_later_nodes_have_larger_numbers():  # spec 1.14
    x = leaf()
    numbers = [(x * 2).grad_fn.sequence_nr for _ in range(3)]
    assert numbers == sorted(set(numbers))


def test_numbers_are_the_process_s():  # spec 1.14 turned by P16
    x = leaf()
    first = (x * 2).grad_fn.sequence_nr
    found = []
    thread = threading.Thread(target=lambda: found.append((leaf() * 2).grad_fn.sequence_nr))
    thread.start()
    thread.join()
    assert found[0] > first


def test_the_search_for_an_inner_input_stops_at_its_age():  # spec 1.15: the numbers serve as heights
    h = leaf() * 1
    for _ in range(100):
        h = h * 1
    y = (h.exp() + h).sum()
    assert len(count_dependencies([y.grad_fn], [h.grad_fn])) == 4


def test_a_search_that_stops_early_finds_the_same():  # spec 1.15
    x = leaf()
    h = x * 2
    y = (h.exp() * h.detach() + x).sum()
    assert grad(y, h)[0].tolist() == (h.detach().exp() * h.detach()).tolist()


def test_nodes_of_all_kinds_are_nodes():
    y = leaf() * 2
    accumulator = y.grad_fn.next_functions[0][0]
    assert all(isinstance(node, stowgrad.autograd.graph.Node) for node in (y.grad_fn, accumulator))


def test_the_accumulator_has_the_largest_number():  # spec 1.14
    y = leaf() * 2
    assert y.grad_fn.next_functions[0][0].sequence_nr > (leaf() * 2).grad_fn.sequence_nr


def test_reading_the_grad_of_a_non_leaf_warns():  # spec 1.19
    y = leaf() * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None


def test_reading_the_grad_of_a_leaf_does_not_warn():  # spec 1.19
    assert leaf().grad is None


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (1.0, TypeError, "Tensor or None"),
        (stowgrad.ones(3), RuntimeError, "different shape"),
        (stowgrad.ones(2, dtype=np.float64), RuntimeError, "different dtype"),
        (stowgrad.ones(2, device="sim:0"), RuntimeError, "different device"),
    ],
)
def test_an_assigned_grad_is_checked(value, error, words):  # spec 1.20
    with pytest.raises(error, match=words):
        leaf().grad = value


def test_a_tensor_is_not_its_own_grad():  # spec 1.20
    x = leaf()
    with pytest.raises(RuntimeError, match="own grad"):
        x.grad = x


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("of", ["node", "accumulator"])
def test_nodes_are_not_copied(copying, of):  # spec 1.21
    node = (leaf() * 2).grad_fn
    with pytest.raises(TypeError, match="pickle"):
        copying(node if of == "node" else node.next_functions[0][0])


def test_numpy_is_refused_where_grad_is_required():  # spec 1.21
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
        leaf().numpy()


def test_a_non_leaf_is_not_copied_deeply():  # spec 1.21
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(leaf() * 2)


@pytest.mark.parametrize("size", [2, 3000])
def test_only_what_a_gradient_needs_is_saved(size):  # spec 1.22
    y = stowgrad.ones(size)
    node = (stowgrad.ones(size, requires_grad=True) * y).grad_fn
    first, second = node.saved_variables
    assert first is None
    assert second.plain is y._array


def test_add_saves_no_tensor():  # spec 1.22
    node = (leaf() + leaf()).grad_fn
    assert [value for value in node.saved_variables if value is not None] == []


def test_a_released_graph_can_be_walked():  # spec 1.23
    y = (leaf() * leaf()).exp()
    y.sum().backward()
    inner = y.grad_fn.next_functions[0][0]
    assert inner.name() == "MulBackward0"
    assert [edge[0].name() for edge in inner.next_functions] == ["AccumulateGrad", "AccumulateGrad"]


def test_calling_a_node_runs_its_backward():  # spec 1.24
    x = leaf()
    node = x.exp().grad_fn
    assert np.allclose(node(stowgrad.ones(2)).detach().numpy(), np.exp([1.0, 2.0]))


def test_calling_a_node_of_two_inputs_gives_both_gradients():  # spec 1.24
    node = (leaf(1.0, 2.0) * leaf(3.0, 4.0)).grad_fn
    with stowgrad.no_grad():
        assert [g.tolist() for g in node(stowgrad.ones(2))] == [[3.0, 4.0], [1.0, 2.0]]


def test_calling_a_released_node_is_an_error():  # spec 1.24
    y = leaf().exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn(stowgrad.ones(2))


def test_calling_a_function_s_node_runs_its_backward():  # spec 1.24
    node = Twice.apply(leaf())[0].grad_fn
    assert node(stowgrad.ones(2), stowgrad.ones(2)).tolist() == [5.0, 5.0]


def test_detach_is_a_leaf_over_the_same_memory():  # spec 1.16
    y = leaf() * 2
    assert y.detach().is_leaf
    assert y.detach()._storage is y._storage


def test_an_edge_is_an_input_of_grad():  # spec 7.7
    y = leaf() * 2
    (found,) = grad((y * y).sum(), stowgrad.autograd.GradientEdge(y.grad_fn, 0))
    assert found.tolist() == [4.0, 8.0]


@pytest.mark.parametrize("size", [4, 200])
def test_elementwise_results_lie_in_c_order_whatever_their_size(size):
    x = stowgrad.randn(size, size).t()
    for y in (x + x, x.tanh(), x * 2.0):
        assert y.is_contiguous()
