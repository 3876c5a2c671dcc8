"""Hooks of every kind: their order, what they may return, and how long they live."""

from __future__ import annotations

import gc
import weakref

import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.graph import register_multi_grad_hook


def leaf(*values):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def accumulator(x):
    return x.view(-1).grad_fn.next_functions[0][0]


def two_results():
    """A function of one input with two outputs."""

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g if h is None else h

    return Two.apply


# -- order -------------------------------------------------------------------------------------------------------------


def test_the_order_at_a_non_leaf():  # spec 7.23
    log = []

    class Node(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            log.append("runs")
            return g

    x = leaf()
    h = Node.apply(x)
    node = h.grad_fn
    node.register_hook(lambda grads, given: log.append("post"))
    node.register_prehook(lambda given: log.append(("pre", h.grad.tolist())))
    h.retain_grad()
    h.register_hook(lambda g: log.append("first"))
    h.register_hook(lambda g: g * 10)
    h.sum().backward()
    assert log == ["first", ("pre", [10.0, 10.0]), "runs", "post"]


def test_the_order_at_a_leaf():  # spec 7.24
    log = []
    x = leaf()
    node = accumulator(x)
    node.register_hook(lambda grads, given: log.append(("post", grads, given[0].tolist())))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t is x, t.grad.tolist())))
    node.register_prehook(lambda given: log.append(("pre", given[0].tolist(), x.grad)))
    x.register_hook(lambda g: log.append("tensor"))
    (x * 3).sum().backward()
    assert log == [
        "tensor",
        ("pre", [3.0, 3.0], None),
        ("accumulated", True, [3.0, 3.0]),
        ("post", (), [3.0, 3.0]),
    ]


def test_hooks_of_one_kind_run_in_the_order_of_registration():  # spec 7.23
    log = []
    h = leaf() * 2
    for number in range(3):
        h.grad_fn.register_prehook(lambda given, number=number: log.append(("pre", number)))
        h.grad_fn.register_hook(lambda grads, given, number=number: log.append(("post", number)))
    h.sum().backward()
    assert log == [("pre", 0), ("pre", 1), ("pre", 2), ("post", 0), ("post", 1), ("post", 2)]


def test_a_node_hook_of_several_outputs_sees_all():  # spec 7.23
    seen = []
    x = leaf()
    first, _ = two_results()(x)
    first.grad_fn.register_prehook(lambda given: seen.append([g if g is None else g.tolist() for g in given]))
    first.sum().backward()
    assert seen == [[[1.0, 1.0], None]]


# -- what they make of gradients ---------------------------------------------------------------------------------------


def test_a_pre_hook_replaces_what_the_node_gets():  # spec 7.26
    x = leaf()
    h = x * 2
    h.grad_fn.register_prehook(lambda given: (given[0] * 5,))
    h.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_post_hook_replaces_what_the_node_gives():  # spec 7.26
    x = leaf()
    h = x * 2
    seen = []
    h.grad_fn.register_hook(lambda grads, given: (grads[0] * 5, *grads[1:]))
    h.grad_fn.register_hook(lambda grads, given: seen.append((grads[0].tolist(), given[0].tolist())))
    h.sum().backward()
    assert seen == [([10.0, 10.0], [1.0, 1.0])]
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_pre_hook_replaces_what_a_leaf_gets():  # spec 7.24 7.26
    x = leaf()
    node = accumulator(x)
    node.register_prehook(lambda given: (given[0] * 5,))
    (x * 2).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_hooks_take_part_in_a_recorded_pass():  # spec 7.32
    x = leaf()
    h = x * x
    h.grad_fn.register_hook(lambda grads, given: (grads[0] * x, *grads[1:]))
    (first,) = grad(h.sum(), x, create_graph=True)
    assert first.tolist() == [2.0, 6.0]  # x * x from one slot of the product, x from the other
    assert grad(first.sum(), x)[0].tolist() == [3.0, 5.0]


def test_what_a_hook_keeps_is_not_changed_later():  # spec 7.18
    kept = []
    x = leaf()
    h = x * 2
    h.grad_fn.register_hook(lambda grads, given: kept.append(grads[0]))
    (h + x * 3).sum().backward()
    assert (kept[0].tolist(), x.grad.tolist()) == ([2.0, 2.0], [5.0, 5.0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_grad_mode_of_all_hooks_is_create_graph(create_graph):  # spec 7.32
    seen = []
    x = leaf()
    h = x * 2
    note = lambda *given: seen.append(stowgrad.is_grad_enabled())  # noqa: E731
    h.register_hook(note)
    h.grad_fn.register_prehook(note)
    h.grad_fn.register_hook(note)
    x.register_post_accumulate_grad_hook(note)
    h.sum().backward(create_graph=create_graph)
    x.grad = None
    assert seen == [create_graph] * 4


# -- what they may return ----------------------------------------------------------------------------------------------

RETURNS = {
    "pre: no tuple": ("register_prehook", lambda given: given[0], TypeError, "must return a tuple"),
    "pre: too many": ("register_prehook", lambda given: given * 2, RuntimeError, "incorrect number of values"),
    "pre: a number": ("register_prehook", lambda given: (1.0,), TypeError, "Tensor or None"),
    "pre: other size": ("register_prehook", lambda given: (stowgrad.ones(3),), RuntimeError, "changed the size"),
    "post: no tuple": ("register_hook", lambda grads, given: grads[0], TypeError, "must return a tuple"),
    "post: too few": ("register_hook", lambda grads, given: (), RuntimeError, "incorrect number of values"),
    "post: a number": ("register_hook", lambda grads, given: (1.0,), TypeError, "Tensor or None"),
    "post: other size": ("register_hook", lambda grads, given: (stowgrad.ones(3),), RuntimeError, "changed the size"),
}


@pytest.mark.parametrize(("register", "hook", "error", "words"), RETURNS.values(), ids=RETURNS.keys())
def test_what_a_node_hook_returns_is_checked(register, hook, error, words):  # spec 7.26
    h = leaf().exp()
    getattr(h.grad_fn, register)(hook)
    with pytest.raises(error, match=words):
        h.sum().backward()


def test_a_gradient_can_t_take_the_place_of_none():  # spec 7.26
    h = leaf() * stowgrad.ones(2)
    h.grad_fn.register_hook(lambda grads, given: (grads[0], grads[0]))
    with pytest.raises(RuntimeError, match="replace a None gradient"):
        h.sum().backward()


@pytest.mark.parametrize(
    ("hook", "words"),
    [(lambda g: g.to(stowgrad.float64), "changed the type"), (lambda g: g.to("sim:0"), "moved the gradient")],
)
def test_a_tensor_hook_keeps_dtype_and_device(hook, words):  # spec 7.26
    h = leaf() * 2
    h.register_hook(hook)
    with pytest.raises(RuntimeError, match=words):
        h.sum().backward()


def test_a_post_accumulate_hook_returns_nothing():  # spec 7.26
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(TypeError, match="must return None"):
        x.sum().backward()


def test_where_post_accumulate_hooks_can_be_registered():  # spec 7.27
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        stowgrad.ones(2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="non-leaf"):
        (leaf() * 2).register_post_accumulate_grad_hook(print)


# -- partial passes ----------------------------------------------------------------------------------------------------


def test_grad_of_a_leaf_runs_its_tensor_hooks_only():  # spec 7.25
    log = []
    x = leaf()
    node = accumulator(x)
    node.register_prehook(lambda given: log.append("pre"))
    node.register_hook(lambda grads, given: log.append("post"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    x.register_hook(lambda g: g * 10)
    assert grad((x * 2).sum(), x)[0].tolist() == [20.0, 20.0]
    assert log == []


def test_backward_of_some_leaves_runs_the_hooks_of_those():  # spec 7.25
    log = []
    x, w = leaf(), leaf()
    for name, t in (("x", x), ("w", w)):
        t.register_post_accumulate_grad_hook(lambda t, name=name: log.append(name))
    (x * w).sum().backward(inputs=[w])
    assert log == ["w"]


def test_grad_of_an_inner_value_does_not_run_its_node_s_hooks():  # spec 7.14
    log = []
    h = leaf() * 2
    h.grad_fn.register_prehook(lambda given: log.append("pre"))
    h.grad_fn.register_hook(lambda grads, given: log.append("post"))
    h.register_hook(lambda g: log.append("tensor"))
    h.retain_grad()
    grad((h * 3).sum(), h)
    assert log == ["tensor"]
    assert h.grad.tolist() == [3.0, 3.0]


def test_backward_to_an_inner_value_runs_its_node_and_goes_no_further():  # spec 7.14
    log = []
    x = leaf()
    h = x * 2
    h.grad_fn.register_prehook(lambda given: log.append("pre"))
    h.grad_fn.register_hook(lambda grads, given: log.append("post"))
    (h * 3).sum().backward(inputs=[h])
    assert log == ["pre", "post"]
    assert (h.grad.tolist(), x.grad) == ([3.0, 3.0], None)


# -- leaves ------------------------------------------------------------------------------------------------------------


def test_an_optimizer_step_inside_backward():  # spec 7.29
    weights = [leaf(1.0), leaf(2.0)]
    alive = []

    def step(w):
        with stowgrad.no_grad():
            w.sub_(w.grad * 0.5)
        w.grad = None
        alive.append(sum(other.grad is not None for other in weights))

    for w in weights:
        w.register_post_accumulate_grad_hook(step)
    (weights[0] * 2 + weights[1] * 4).sum().backward()
    assert [w.tolist() for w in weights] == [[0.0], [0.0]]
    assert alive == [0, 0]


def test_a_post_accumulate_hook_runs_once_a_pass():  # spec 7.24
    log = []
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda t: log.append(t.grad.tolist()))
    (x * 2 + x * 3).sum().backward()
    (x * 1).sum().backward()
    assert log == [[5.0, 5.0], [6.0, 6.0]]


# -- in-place ----------------------------------------------------------------------------------------------------------


def test_hooks_stay_with_the_node_that_was_current():  # spec 7.28
    log = []
    h = leaf() * 2
    h.register_hook(lambda g: log.append(("old", g.tolist())))
    h.grad_fn.register_prehook(lambda given: log.append(("node", given[0].tolist())))
    h.retain_grad()
    h.mul_(3)
    h.register_hook(lambda g: log.append(("new", g.tolist())))
    h.sum().backward()
    assert log == [("new", [1.0, 1.0]), ("old", [3.0, 3.0]), ("node", [3.0, 3.0])]
    assert h.grad.tolist() == [1.0, 1.0]  # it has moved on with the tensor


# -- handles and lifetimes ---------------------------------------------------------------------------------------------


def test_handles_take_hooks_away():
    log = []
    x = leaf()
    h = x * 2
    node = accumulator(x)
    handles = [
        h.register_hook(lambda g: log.append("tensor")),
        h.grad_fn.register_prehook(lambda given: log.append("pre")),
        h.grad_fn.register_hook(lambda grads, given: log.append("post")),
        x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated")),
        node.register_hook(lambda grads, given: log.append("at the leaf")),
        register_multi_grad_hook([x, h], lambda grads: log.append("multi")),
    ]
    for handle in handles:
        handle.remove()
        handle.remove()
    h.sum().backward()
    assert log == []


def test_a_handle_is_a_context():
    log = []
    x = leaf()
    with x.register_post_accumulate_grad_hook(lambda t: log.append("hook")):
        x.sum().backward()
    x.sum().backward()
    assert log == ["hook"]


def test_a_hook_may_remove_itself():
    log = []
    x = leaf()
    h = x * 2
    handle = h.register_hook(lambda g: (log.append("once"), handle.remove())[0])
    h.register_hook(lambda g: log.append("next"))
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    assert log == ["once", "next", "next"]


def test_a_handle_does_not_keep_a_hook_alive():  # P9
    class Watch:
        def __call__(self, *given):
            pass

    gc.disable()
    try:
        watch, h = Watch(), leaf() * 2
        alive = weakref.ref(watch)
        handles = [h.register_hook(watch), h.grad_fn.register_hook(watch), h.grad_fn.register_prehook(watch)]
        del watch, h
        assert alive() is None
        for handle in handles:
            handle.remove()
    finally:
        gc.enable()


def test_hooks_of_nodes_make_no_cycle():  # spec 7.33, P9
    gc.disable()
    try:
        before = stowgrad.memory.memory_allocated()
        x = stowgrad.ones(4096, requires_grad=True)
        h = x.exp()
        h.grad_fn.register_hook(lambda grads, given: None)
        h.grad_fn.register_prehook(lambda given: None)
        register_multi_grad_hook([x, h], lambda grads: None)
        h.sum().backward()
        del x, h
        assert stowgrad.memory.memory_allocated() == before
    finally:
        gc.enable()


def test_metadata_of_a_node_lives_with_it():
    x = leaf()
    h = x * 2
    h.grad_fn.metadata["note"] = 1
    assert h.grad_fn.metadata == {"note": 1}
    node = accumulator(x)
    node.metadata["note"] = 2
    assert (h * 1).grad_fn.next_functions[0][0].metadata["note"] == 1
    assert accumulator(x).metadata == {"note": 2}
    assert node.variable is x
