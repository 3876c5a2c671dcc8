"""The engine's edges: gradient edges, batches, errors, interruption, what is released, order, depth."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import warnings

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, GradientEdge, backward, grad
from stowgrad.autograd.graph import (
    current_graph_task_execution_order,
    current_graph_task_id,
    get_gradient_edge,
    increment_version,
)
from stowgrad.memory import memory_allocated, pool

BIG = 4096


def leaf(*values):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise KeyError("mine")


# -- gradient edges ----------------------------------------------------------------------------------------------------


def test_an_edge_is_a_root():  # spec 7.7
    x = leaf()
    y = x * 3
    edge = get_gradient_edge(y)
    del y
    backward(edge, stowgrad.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [3.0, 30.0]


def test_an_edge_of_one_element_needs_no_gradient():  # spec 7.1 7.7
    x = leaf()
    backward([get_gradient_edge((x * 3).sum()), get_gradient_edge((x * 2).sum())])
    assert x.grad.tolist() == [5.0, 5.0]


def test_an_edge_of_several_elements_needs_one():  # spec 7.1 7.7
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        backward(get_gradient_edge(leaf() * 3))
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        backward(get_gradient_edge(leaf() * 3), stowgrad.ones(3))


def test_an_edge_made_by_hand_needs_a_gradient():  # spec 7.7
    x = leaf()
    y = x * 3
    edge = GradientEdge(y.grad_fn, 0)
    with pytest.raises(RuntimeError, match="get_gradient_edge"):
        backward(edge)
    backward(edge, stowgrad.ones(2))
    assert x.grad.tolist() == [3.0, 3.0]


def test_edges_are_outputs_and_inputs_of_grad():  # spec 7.7
    x = leaf()
    h = x * 2
    at_leaf, inner, out = get_gradient_edge(x), get_gradient_edge(h), get_gradient_edge((h * 3).sum())
    found = grad(out, [at_leaf, inner])
    assert [g.tolist() for g in found] == [[6.0, 6.0], [3.0, 3.0]]
    assert x.grad is None


def test_an_edge_of_a_leaf_is_an_input_of_backward():  # spec 7.6 7.7
    x, w = leaf(), leaf()
    (x * w).sum().backward(inputs=[get_gradient_edge(w)])
    assert (x.grad, w.grad.tolist()) == (None, [1.0, 2.0])


def test_an_edge_of_an_inner_value_is_an_input_of_backward():  # spec 7.6 7.7
    x = leaf()
    h = x * 2
    (h * 3).sum().backward(inputs=[get_gradient_edge(h)])
    assert x.grad is None


def test_zeros_for_an_unused_edge():  # spec 7.5 7.7
    other = leaf(1.0, 2.0, 3.0)
    found = grad(leaf().sum(), get_gradient_edge(other * 2), materialize_grads=True)
    assert found[0].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="materialize_grads"):
        grad(leaf().sum(), GradientEdge((other * 2).grad_fn, 0), materialize_grads=True)


def test_something_else_is_no_root():  # spec 7.1
    with pytest.raises(TypeError, match="GradientEdges"):
        backward([1.0])


# -- batches -----------------------------------------------------------------------------------------------------------


def test_batched_gradients_give_batched_results():  # spec 7.8
    x, w = leaf(), leaf()
    rows = stowgrad.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = grad(x * w * w, [x, w], rows, is_grads_batched=True)
    assert found[0].tolist() == [[1.0, 0.0], [0.0, 4.0], [1.0, 4.0]]
    assert found[1].tolist() == [[2.0, 0.0], [0.0, 8.0], [2.0, 8.0]]


def test_a_batch_frees_the_graph_at_its_end():  # spec 7.3 7.8
    x = leaf()
    y = x * x
    grad(y, x, stowgrad.ones(3, 2), is_grads_batched=True, retain_graph=True)
    grad(y, x, stowgrad.ones(3, 2), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x, stowgrad.ones(3, 2), is_grads_batched=True)


def test_a_recorded_batch_can_be_differentiated():  # spec 7.8
    x = leaf()
    seeds = stowgrad.tensor([[1.0, 1.0], [2.0, 3.0]], requires_grad=True)
    (found,) = grad(x * x, x, seeds, is_grads_batched=True, create_graph=True)
    first, second = grad(found.sum(), [x, seeds])
    assert first.tolist() == [6.0, 8.0]
    assert second.tolist() == [[2.0, 4.0], [2.0, 4.0]]


def test_an_unused_input_of_a_batch():  # spec 7.5 7.8
    x, other = leaf(), leaf()
    options = {"grad_outputs": stowgrad.ones(3, 2), "is_grads_batched": True}
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(x * 2, other, **options)
    assert grad(x * 2, other, allow_unused=True, **options) == (None,)
    assert grad(x * 2, other, materialize_grads=True, **options)[0].tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        (None, "no gradients"),
        ([stowgrad.ones(3, 2), stowgrad.ones(2, 2)], "one length"),
        ([stowgrad.ones(0, 2), stowgrad.ones(0, 2)], "at least 1"),
        ([stowgrad.ones(()), stowgrad.ones(3, 2)], "no dimension"),
        ([stowgrad.ones(3, 3), stowgrad.ones(3, 2)], "Mismatch in shape"),
    ],
)
def test_batches_must_fit(seeds, words):  # spec 7.8
    x = leaf()
    with pytest.raises(RuntimeError, match=words):
        grad([x * 2, x * 3], x, seeds, is_grads_batched=True)


@pytest.mark.parametrize("call", [lambda y: y.backward(create_graph=True), lambda y: backward(y, create_graph=True)])
def test_of_the_cycle_that_a_recorded_backward_makes_is_warned_once(call, monkeypatch):  # spec 7.21
    monkeypatch.setattr(sys.modules["stowgrad.autograd.backward"], "_has_warned_of_a_cycle", False)
    x = leaf()
    with pytest.warns(UserWarning, match="reference cycle") as caught:
        call((x * x).sum())
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call((x * x).sum())
    x.grad = None


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["node", "tensor hook", "pre-hook", "post-hook", "leaf hook", "post-accumulate"])
def test_an_error_says_at_which_node(where):  # spec 7.34
    x = leaf()
    h = Fails.apply(x) if where == "node" else x.exp()

    def fail(*given):
        raise KeyError("mine")

    if where == "tensor hook":
        h.register_hook(fail)
    elif where == "pre-hook":
        h.grad_fn.register_prehook(fail)
    elif where == "post-hook":
        h.grad_fn.register_hook(fail)
    elif where == "leaf hook":
        x.register_hook(fail)
    elif where == "post-accumulate":
        x.register_post_accumulate_grad_hook(fail)
    with pytest.raises(KeyError) as caught:
        h.sum().backward()
    assert caught.value.args == ("mine",)
    name = "AccumulateGrad" if where in ("leaf hook", "post-accumulate") else h.grad_fn.name()
    assert caught.value.__notes__ == [f"This happened in backward, at {name}."]


@pytest.mark.parametrize("kind", ["tensor", "pre", "post"])
def test_what_a_failed_pass_leaves(kind):  # spec 3.15
    x, w = leaf(), leaf()
    early = x.exp()
    late = early.exp()
    y = (late * w).sum()

    def fail(*given):
        raise ZeroDivisionError

    node = late.grad_fn
    register = {"tensor": late.register_hook, "pre": node.register_prehook, "post": node.register_hook}[kind]
    handle = register(fail)
    product = y.grad_fn.next_functions[0][0]
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert product.saved_variables is None
    assert node.saved_variables is not None
    assert early.grad_fn.saved_variables is not None
    assert w.grad.tolist() == late.tolist()  # it came before the failure, and stays
    assert x.grad is None
    handle.remove()
    with pytest.raises(RuntimeError, match="second time"):  # a released node lies on the path
        y.backward()
    late.sum().backward()  # none lies here
    np.testing.assert_allclose(x.grad.numpy(), (early * late).detach().numpy(), rtol=1e-6)


@contextlib.contextmanager
def without_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def kept_error(call, *args, **options):
    try:
        call(*args, **options)
    except Exception as error:  # noqa: BLE001
        del call, args, options  # this frame is the user's: what it holds is not the library's to drop
        return error
    raise AssertionError("it did not fail")


def failing_graph(device="cpu"):
    x = stowgrad.ones(BIG, device=device, requires_grad=True)
    h = (x * x).exp()
    return x, Fails.apply(h).exp()


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("entry", ["method", "function", "grad", "batched", "create_graph"])
def test_a_kept_exception_keeps_no_tensors(entry, device):  # P10, spec 12.5
    with without_collector():
        before = pool(device).used_bytes()
        x, y = failing_graph(device)
        seed = stowgrad.ones(BIG, device=device)
        if entry == "method":
            error = kept_error(y.backward, seed)
        elif entry == "function":
            error = kept_error(backward, [y, y * 2], [seed, seed])
        elif entry == "grad":
            error = kept_error(grad, y, x, seed)
        elif entry == "batched":
            error = kept_error(grad, y, x, stowgrad.ones(3, BIG, device=device), is_grads_batched=True)
        else:
            error = kept_error(grad, y, x, seed, create_graph=True)
        del x, y, seed
        assert isinstance(error, KeyError)
        # The frame of the user's backward is the user's: it has its ctx, with one saved value, and the gradient.
        own = [frame for frame in frames(error) if frame.f_code.co_filename != __file__]
        assert [name for frame in own for name, value in frame.f_locals.items() if holds_a_tensor(value)] == []
        stowgrad.utils.clear_frames(error)
        assert pool(device).used_bytes() == before


def frames(error):
    found, traceback = [], error.__traceback__
    while traceback is not None:
        found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return found


def holds_a_tensor(value):
    if isinstance(value, (list, tuple, set)):
        return any(map(holds_a_tensor, value))
    if isinstance(value, dict):
        return any(map(holds_a_tensor, [*value, *value.values()]))
    return isinstance(value, (stowgrad.Tensor, np.ndarray)) or type(value).__name__ in ("Node", "GraphTask")


def test_errors_of_the_library_itself_keep_nothing_at_all():  # P10, spec 12.5
    with without_collector():
        before = memory_allocated()
        x = stowgrad.ones(BIG, requires_grad=True)
        y = (x * x).exp()
        y.backward(stowgrad.ones(BIG))
        errors = [
            kept_error(y.backward, stowgrad.ones(BIG)),  # a second time
            kept_error(y.backward, stowgrad.ones(BIG + 1)),  # another shape
            kept_error(y.backward),  # no gradient
            kept_error(grad, y + 1, stowgrad.ones(BIG, requires_grad=True), stowgrad.ones(BIG)),  # unused
        ]
        h = x.exp()
        z = h.exp().sum()
        with stowgrad.no_grad():
            h.mul_(2)
        errors.append(kept_error(z.backward))  # changed in place
        h.register_hook(lambda g: 1)
        errors.append(kept_error((h * 2).sum().backward))  # a hook's result
        del x, y, h, z
        assert memory_allocated() == before
        assert [type(error) for error in errors] == [RuntimeError] * 5 + [TypeError]


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_ctrl_c_in_a_hook(device):  # law 8
    def interrupt(g):
        raise KeyboardInterrupt

    with without_collector():
        before = pool(device).used_bytes()
        x = stowgrad.ones(BIG, device=device, requires_grad=True)
        h = x.exp()
        y = h.exp().sum()
        handle = h.register_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            y.backward(retain_graph=True)
        assert (current_graph_task_id(), stowgrad.is_grad_enabled()) == (-1, True)
        handle.remove()
        y.backward()
        x.grad = None
        del x, h, y
        assert pool(device).used_bytes() == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_ctrl_c_anywhere_in_a_step(device, monkeypatch):  # law 8
    # The interpreter swallows what is raised in a callback that runs while it frees something.
    swallowed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: swallowed.append(1))

    def step(x, w):
        h = x
        for _ in range(10):
            h = (h * w).tanh()
        h.sum().backward()

    def interrupt(number, frame):
        raise KeyboardInterrupt

    def gradients(x, w):
        x.grad = w.grad = None
        step(x, w)
        return x.grad.tolist(), w.grad.tolist()

    x, w = (stowgrad.full((BIG,), 0.5, device=device, requires_grad=True) for _ in range(2))
    expected = gradients(x, w)
    x.grad = w.grad = None
    gc.collect()  # what other tests left goes now, not between the two counts
    before = pool(device).used_bytes()
    old = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for number in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.00005 * number)
                for _ in range(100):
                    step(x, w)
            except KeyboardInterrupt:
                interrupted += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert (current_graph_task_id(), stowgrad.is_grad_enabled()) == (-1, True)
            x.grad = w.grad = None
    finally:
        signal.signal(signal.SIGALRM, old)
    assert interrupted + len(swallowed) >= 60
    gc.collect()
    assert pool(device).used_bytes() == before
    assert gradients(x, w) == expected


# -- order and ids -----------------------------------------------------------------------------------------------------


def test_the_order_of_a_pass_can_be_asked_for():  # surface 4
    found = []
    x, w = leaf(), leaf()
    h = x * 2
    y = (h.exp() + w).sum()
    h.register_hook(lambda g: found.append([node.name() for node in current_graph_task_execution_order()]))
    y.backward(retain_graph=True)
    grad(y, x)
    whole = ["SumBackward0", "AddBackward0", "AccumulateGrad", "ExpBackward0", "MulBackward0", "AccumulateGrad"]
    assert found == [whole, whole[:2] + whole[3:]]


def test_the_order_is_the_order():  # surface 4
    ran, order = [], []
    x = leaf()
    h = x
    for number in range(5):
        h = (h * 2).tanh() + x * number
    nodes, pending = set(), [h.grad_fn]
    while pending:
        node = pending.pop()
        if node not in nodes:
            nodes.add(node)
            node.register_prehook(lambda given, node=node: ran.append(node))
            pending += [edge[0] for edge in node.next_functions if edge[0] is not None]
    h.register_hook(lambda g: order.extend(current_graph_task_execution_order()))
    h.sum().backward()
    assert ran == order[1:]  # the sum has no hook


def test_outside_of_a_pass_there_is_no_order():  # surface 4
    with pytest.raises(RuntimeError, match="during a backward pass"):
        current_graph_task_execution_order()


def test_versions_can_be_moved_by_hand():  # spec 2.4, surface 3
    x = leaf()
    h, other = x * 1, stowgrad.ones(2)
    y = h * h
    increment_version([h, other])
    increment_version(other)
    assert (h._version, other._version) == (1, 2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
