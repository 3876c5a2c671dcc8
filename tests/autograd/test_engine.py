"""`backward` and `grad`: what arrives where, in which order, and what they refuse."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, backward, current_graph_task_id, grad


def leaf(*values):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def logging(log, name, count=1):
    """A function of ``count`` inputs that notes when its node runs."""

    class Logged(Function):
        @staticmethod
        def forward(ctx, *xs):
            return sum(x * 1 for x in xs)

        @staticmethod
        def backward(ctx, g):
            log.append(name)
            return (g,) * count

    return Logged.apply


# -- seeds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_needs_no_gradient(shape):  # spec 7.1
    x = stowgrad.ones(*shape, requires_grad=True)
    (x * 3).backward()
    assert x.grad.tolist() == np.full(shape, 3.0).tolist()


def test_several_elements_need_one():  # spec 7.1
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (leaf() * 2).backward()


def test_a_gradient_must_have_the_shape():  # spec 7.1
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (leaf() * 2).backward(stowgrad.ones(3))


def test_a_gradient_is_cast():  # spec 7.1
    x = leaf()
    (x * 2).backward(stowgrad.ones(2, dtype=np.float64))
    assert x.grad.dtype == np.float32


def test_a_complex_output_of_one_element_needs_a_gradient():  # spec 7.1
    x = stowgrad.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(RuntimeError, match="real scalar outputs"):
        (x * x).backward()
    assert x.grad is None


def test_a_numpy_array_as_gradient_is_refused_by_name():  # spec 7.1
    with pytest.raises(TypeError, match="got ndarray"):
        (leaf() * 2).backward(np.ones(2))


def test_a_complex_gradient_of_a_real_output_is_refused():  # spec 7.1
    with pytest.raises(RuntimeError, match="complex"):
        (leaf() * 2).backward(stowgrad.ones(2, dtype=np.complex64))


def test_a_gradient_must_be_a_tensor():  # spec 7.1
    with pytest.raises(TypeError, match="Tensors or None"):
        (leaf() * 2).backward(1.0)


def test_a_root_without_grad_is_named():  # spec 7.1
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        backward([leaf(1.0) * 2, stowgrad.ones(1)])


@pytest.mark.parametrize("count", [2, 0])
def test_as_many_gradients_as_roots(count):  # spec 7.2 turned by P16, case I7
    y = leaf() * 2
    gradients = [stowgrad.ones(2)] * count
    with pytest.raises(RuntimeError, match=r"one gradient for each output|only for scalar"):
        backward([y], gradients)


def test_several_roots_add_up():  # spec 7.2
    x = leaf()
    backward([x * 2, x * 3], [stowgrad.ones(2), stowgrad.ones(2)])
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_leaf_is_its_own_root():  # spec 7.1
    x = leaf()
    x.backward(stowgrad.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]


def test_one_root_may_lie_behind_another():  # spec 7.10
    x = leaf()
    h = x * 2
    backward([h, h * 3], [stowgrad.ones(2), stowgrad.ones(2)])
    assert x.grad.tolist() == [8.0, 8.0]


# -- retain_graph and create_graph -------------------------------------------------------------------------------------


def test_a_second_pass_is_an_error():  # spec 3.11 7.3
    y = (leaf() * leaf()).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"a second time \(or directly access saved tensors.*retain_graph=True"):
        y.backward()


def test_retain_graph_allows_a_second_pass():  # spec 7.3
    x = leaf()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_create_graph_retains():  # spec 7.3
    x = leaf()
    y = (x * x).sum()
    grad(y, x, create_graph=True)
    grad(y, x)


def test_create_graph_without_retain_releases():  # spec 7.3
    x = leaf()
    y = x.exp().sum()
    (first,) = grad(y, x, create_graph=True, retain_graph=False)
    assert first.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_second_pass_over_nodes_that_saved_nothing_is_fine():  # spec 3.12
    x = leaf()
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_the_gradient_of_a_gradient():  # spec 7.3
    x = leaf()
    (first,) = grad((x * x * x).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x, create_graph=True)
    (third,) = grad(second.sum(), x)
    assert third.tolist() == [6.0, 6.0]


def test_a_recorded_pass_of_backward_gives_grad_a_history():  # spec 7.3
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    x.grad = None  # or the graph and the leaf hold each other


# -- grad --------------------------------------------------------------------------------------------------------------


def test_grad_gives_one_tensor_for_each_input():  # spec 7.4
    x, y = leaf(), leaf()
    found = grad((x * y).sum(), [y, x])
    assert [g.tolist() for g in found] == [[1.0, 2.0], [1.0, 2.0]]


def test_grad_touches_no_leaf():  # spec 7.4
    x, w = leaf(), leaf()
    grad((x * w).sum(), x)
    assert (x.grad, w.grad) == (None, None)


def test_outputs_given_twice_add_up():  # spec 7.4
    x = leaf()
    y = (x * 2).sum()
    assert grad([y, y], x)[0].tolist() == [4.0, 4.0]


def test_inputs_may_repeat():  # spec 7.4
    x = leaf()
    assert [g.tolist() for g in grad((x * 2).sum(), [x, x])] == [[2.0, 2.0]] * 2


@pytest.mark.parametrize("of", ["leaf", "result"])
def test_an_input_may_be_the_output(of):  # spec 7.4
    y = leaf() if of == "leaf" else leaf() * 2
    assert grad(y, y, stowgrad.tensor([3.0, 4.0]))[0].tolist() == [3.0, 4.0]


def test_grad_of_an_inner_value():  # spec 7.4
    h = leaf() * 2
    assert grad((h * h).sum(), h)[0].tolist() == [4.0, 8.0]


def test_an_unreachable_input_is_an_error():  # spec 7.5
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        grad((leaf() * 2).sum(), leaf())


def test_an_unreachable_input_gives_none_if_allowed():  # spec 7.5
    assert grad((leaf() * 2).sum(), leaf(), allow_unused=True) == (None,)


def test_an_unreachable_input_gives_zeros_if_asked():  # spec 7.5
    assert grad((leaf() * 2).sum(), leaf(), materialize_grads=True)[0].tolist() == [0.0, 0.0]


def test_zeros_and_errors_for_the_unreachable_exclude_each_other():  # spec 7.5
    with pytest.raises(ValueError, match="materialize_grads"):
        grad((leaf() * 2).sum(), leaf(), materialize_grads=True, allow_unused=False)


@pytest.mark.parametrize("options", [{}, {"allow_unused": True}, {"materialize_grads": True}])
def test_an_input_must_require_grad(options):  # spec 7.5
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad((leaf() * 2).sum(), stowgrad.ones(2), **options)


def test_grad_needs_inputs():  # spec 7.5
    with pytest.raises(RuntimeError, match="non-empty inputs"):
        grad((leaf() * 2).sum(), [])


def test_an_input_must_be_a_tensor():  # spec 7.5
    with pytest.raises(TypeError, match="position 0"):
        grad((leaf() * 2).sum(), [1.0])


def test_what_grad_gives_is_not_the_user_s_seed_s_memory_after_more_is_added():  # spec 7.4
    seed = stowgrad.ones(2)
    x = leaf()
    found = grad([x * 1.0, x * 1.0], x, [seed, seed])[0]
    assert (seed.tolist(), found.tolist()) == ([1.0, 1.0], [2.0, 2.0])


# -- inputs= -----------------------------------------------------------------------------------------------------------


def test_backward_accumulates_only_into_inputs():  # spec 7.6
    x, w = leaf(), leaf()
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    assert w.grad.tolist() == [1.0, 2.0]


def test_a_leaf_among_the_roots_is_no_input():  # spec 7.6
    x, w = leaf(), leaf()
    backward([x, w * 2], [stowgrad.ones(2)] * 2, inputs=[w])
    assert x.grad is None


def test_a_non_leaf_among_inputs_gets_grad():  # spec 7.6
    x = leaf()
    h = x * 2
    (h * h).sum().backward(inputs=[h])
    assert h.grad.tolist() == [4.0, 8.0]
    assert x.grad is None


def test_inputs_of_backward_must_require_grad():  # spec 7.5 7.6
    with pytest.raises(RuntimeError, match="does not require grad"):
        (leaf() * 2).sum().backward(inputs=[stowgrad.ones(2)])


def test_inputs_of_backward_are_not_empty():  # spec 7.6
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (leaf() * 2).sum().backward(inputs=[])


def test_only_nodes_on_a_path_to_the_inputs_run():  # spec 7.13
    log = []
    x, w = leaf(), leaf()
    y = logging(log, "join", 2)(logging(log, "left")(x), logging(log, "right")(w))
    grad(y.sum(), w)
    assert log == ["join", "right"]


def test_the_node_of_an_input_does_not_run():  # spec 7.14
    log = []
    h = logging(log, "behind")(leaf())
    grad((h * 2).sum(), h)
    assert log == []


def test_an_input_behind_another_is_reached():  # spec 7.13
    x = leaf()
    h = x * 2
    found = grad((h * h).sum(), [h, x])
    assert [g.tolist() for g in found] == [[4.0, 8.0], [8.0, 16.0]]


# -- order -------------------------------------------------------------------------------------------------------------


def test_a_node_waits_for_all_its_gradients():  # spec 7.10
    log = []
    h = logging(log, "shared")(leaf())
    y = logging(log, "late")(logging(log, "early")(h)) + h
    y.sum().backward()
    assert log == ["late", "early", "shared"]


def test_what_the_roots_do_not_reach_is_not_waited_for():  # spec 7.10
    x = leaf()
    h = x * 2
    unused = h * 5
    (h * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert unused.requires_grad


def test_the_latest_node_runs_first():  # spec 7.11
    log = []
    x = leaf()
    branches = [logging(log, name)(x) for name in "abc"]
    (branches[2] + branches[0] + branches[1]).sum().backward()
    assert log == ["c", "b", "a"]


def test_accumulators_run_as_soon_as_they_are_ready():  # spec 7.11 1.14
    log = []
    x, w = leaf(), leaf()
    w.register_hook(lambda g: log.append("w"))
    early = logging(log, "early")(x)
    late = logging(log, "late")(w)
    (early + late).sum().backward()
    assert log == ["late", "w", "early"]


# -- hooks and retained gradients --------------------------------------------------------------------------------------


def test_tensor_hooks_run_in_order_and_may_change_the_gradient():  # spec 7.23
    x = leaf()
    h = x * 2
    seen = []
    h.register_hook(lambda g: g * 10)
    h.register_hook(lambda g: seen.append(g.tolist()))
    h.sum().backward()
    assert seen == [[10.0, 10.0]]
    assert x.grad.tolist() == [20.0, 20.0]


def test_a_hook_can_be_removed():
    x = leaf()
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_grad_captures_after_tensor_hooks():  # spec 7.14 7.25
    x = leaf()
    h = x * 2
    h.register_hook(lambda g: g * 10)
    assert grad(h.sum(), h)[0].tolist() == [10.0, 10.0]


def test_retain_grad_sees_what_hooks_made():  # spec 7.23
    x = leaf()
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 10)
    h.sum().backward()
    assert h.grad.tolist() == [10.0, 10.0]


def test_a_retained_gradient_accumulates():  # as in PyTorch
    h = leaf() * 2
    h.retain_grad()
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    assert h.grad.tolist() == [2.0, 2.0]


def test_retaining_needs_a_gradient():
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        stowgrad.ones(2).retain_grad()


@pytest.mark.parametrize(
    ("hook", "error", "words"),
    [(lambda g: 1.0, TypeError, "Tensor or None"), (lambda g: stowgrad.ones(3), RuntimeError, "changed the size")],
)
def test_what_a_hook_returns_is_checked(hook, error, words):  # spec 7.26
    h = leaf() * 2
    h.register_hook(hook)
    with pytest.raises(error, match=words):
        h.sum().backward()


def test_a_hook_needs_a_tensor_that_requires_grad():  # spec 7.27
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        stowgrad.ones(2).register_hook(lambda g: None)


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_grad_mode_of_hooks_is_create_graph(create_graph):  # spec 7.32
    seen = []
    x = leaf()
    h = x * 2
    h.register_hook(lambda g: seen.append(stowgrad.is_grad_enabled()))
    grad(h.sum(), x, create_graph=create_graph)
    assert seen == [create_graph]


# -- passes in passes, ids, threads ------------------------------------------------------------------------------------


def test_a_pass_has_an_id():  # spec 7.16
    seen = []
    h = leaf() * 2
    h.register_hook(lambda g: seen.append(current_graph_task_id()))
    h.sum().backward()
    assert seen[0] >= 0
    assert current_graph_task_id() == -1


def test_a_pass_inside_a_pass_has_its_own_id_and_gives_it_back():  # spec 7.15
    seen = []
    inner = leaf()

    def hook(g):
        seen.append(current_graph_task_id())
        with stowgrad.enable_grad():
            (inner * 2).sum().backward()
        seen.append(current_graph_task_id())

    h = leaf() * 2
    h.register_hook(hook)
    inner.register_hook(lambda g: seen.append(current_graph_task_id()))
    h.sum().backward()
    assert seen[0] == seen[2] != seen[1]


def test_passes_work_without_grad_mode():  # spec 7.9
    x = leaf()
    y = (x * x).sum()
    with stowgrad.no_grad():
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_threads_add_exactly_into_one_leaf():  # spec 7.22
    x = stowgrad.ones(64, requires_grad=True)

    def work():
        for _ in range(50):
            (x * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [200.0] * 64


# -- errors ------------------------------------------------------------------------------------------------------------


def test_an_exception_keeps_its_type():  # spec 7.34
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Fails.apply(leaf()).sum().backward()


def test_a_failed_pass_leaves_no_trace_in_the_thread():  # spec 7.34, case F6
    h = leaf() * 2
    h.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        h.sum().backward()
    assert (current_graph_task_id(), stowgrad.is_grad_enabled()) == (-1, True)
