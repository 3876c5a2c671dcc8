"""Functions that users write."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.function_node import FunctionNode
from stowgrad.saved_tensors import saved_tensors_hooks


def leaf(*values):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def function(forward, backward=None, **more):
    """A Function of two plain functions."""
    methods = {name: staticmethod(method) for name, method in more.items()} | {"forward": staticmethod(forward)}
    if backward is not None:
        methods["backward"] = staticmethod(backward)
    return type("Made", (Function,), methods)


def cube_forward(ctx, x):
    ctx.save_for_backward(x)
    return x * x * x


def cube_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * 3 * x * x


Cube = function(cube_forward, cube_backward)


# -- the class ---------------------------------------------------------------------------------------------------------


def test_instantiating_warns():  # spec 6.1
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        Cube()


def test_calling_an_instance_is_an_error():  # spec 6.1
    with pytest.warns(DeprecationWarning, match="instantiated"):
        made = Cube()
    with pytest.raises(RuntimeError, match="apply"):
        made(leaf())


def test_a_missing_forward_is_an_error():  # spec 6.1
    with pytest.raises(NotImplementedError, match="forward"):
        type("Empty", (Function,), {}).apply(leaf())


def test_a_missing_backward_is_an_error_when_it_is_needed():  # spec 6.1
    y = function(lambda ctx, x: x * 2).apply(leaf())
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        y.sum().backward()


def test_vjp_is_another_name_of_backward():  # spec 6.1
    x = leaf()
    function(cube_forward, vjp=cube_backward).apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_vjp_is_inherited():  # spec 6.1
    x = leaf()
    type("Child", (function(cube_forward, vjp=cube_backward),), {}).apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_vjp_and_backward_together_are_refused():  # spec 6.1
    with pytest.raises(RuntimeError, match="'backward' and 'vjp'"):
        function(cube_forward, cube_backward, vjp=cube_backward)


# -- modes -------------------------------------------------------------------------------------------------------------


def test_forward_runs_with_grad_mode_off():  # spec 6.2
    seen = []
    function(lambda ctx, x: seen.append(stowgrad.is_grad_enabled()) or x * 2).apply(leaf())
    assert seen == [False]
    assert stowgrad.is_grad_enabled()


@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_runs_with_the_grad_mode_of_create_graph(create_graph):  # spec 6.2
    seen = []
    made = function(lambda ctx, x: x * 2, lambda ctx, g: seen.append(stowgrad.is_grad_enabled()) or g * 2)
    x = leaf()
    grad(made.apply(x).sum(), x, create_graph=create_graph)
    assert seen == [create_graph]


def test_second_derivatives_follow_from_backward():  # spec 6.2
    x = leaf()
    (first,) = grad(Cube.apply(x).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_tensors_in_lists_are_not_tracked():  # spec 6.3
    y = function(lambda ctx, xs: xs[0] * 2, lambda ctx, g: None).apply([leaf()])
    assert not y.requires_grad


def test_keyword_arguments_reach_forward():  # spec 6.3
    y = function(lambda ctx, x, factor=1: x * factor, lambda ctx, g: g * 5).apply(leaf(), factor=5)
    assert y.tolist() == [5.0, 10.0]


def test_an_unknown_keyword_is_an_error():  # spec 6.3
    with pytest.raises(TypeError, match="unexpected keyword"):
        Cube.apply(leaf(), factor=5)


@pytest.mark.parametrize("value", [1.0, "x", [1]])
def test_only_tensors_are_saved(value):  # spec 6.4
    made = function(lambda ctx, x: ctx.save_for_backward(value) or x * 2)
    with pytest.raises(TypeError, match="can only save"):
        made.apply(leaf())


def test_none_may_be_saved():  # spec 6.4
    seen = []
    made = function(
        lambda ctx, x: ctx.save_for_backward(None, x) or x * 2,
        lambda ctx, g: seen.append(ctx.saved_tensors[0]) or g * 2,
    )
    made.apply(leaf()).sum().backward()
    assert seen == [None]


def test_the_last_save_counts():  # spec 6.4
    seen = []

    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_backward(x, x)
        return x * 2

    function(forward, lambda ctx, g: seen.append(len(ctx.saved_tensors)) or g).apply(leaf()).sum().backward()
    assert seen == [2]


def test_nothing_is_saved_without_grad_mode():  # spec 6.4
    contexts = []

    def forward(ctx, x):
        contexts.append(ctx)
        ctx.save_for_backward(x)
        return x * 2

    with stowgrad.no_grad():
        function(forward).apply(leaf())
    assert contexts[0].saved_tensors == ()


def test_saved_tensors_is_read_only():  # spec 6.5
    made = function(lambda ctx, x: x * 2)
    with pytest.raises(AttributeError):
        made.apply(leaf()).grad_fn.saved_tensors = ()


def test_a_saved_input_is_the_same_object():  # spec 3.1 6.5
    x = leaf()
    assert Cube.apply(x).grad_fn.saved_tensors[0] is x


def test_reads_from_outside_unpack_each_time():  # spec 6.5, P16
    reads = []
    with saved_tensors_hooks(lambda t: t, lambda t: reads.append(1) or t):
        y = Cube.apply(leaf())
    _ = y.grad_fn.saved_tensors, y.grad_fn.saved_tensors
    assert len(reads) == 2


def test_within_one_run_a_slot_is_unpacked_once():  # P16, case A20
    reads = []

    def backward(ctx, g):
        assert len(ctx.saved_tensors) == 1
        (x,) = ctx.saved_tensors
        return g * x

    with saved_tensors_hooks(lambda t: t, lambda t: reads.append(1) or t):
        y = function(cube_forward, backward).apply(leaf())
    y.sum().backward()
    assert len(reads) == 1


def test_each_run_unpacks_anew():  # P16
    reads = []
    with saved_tensors_hooks(lambda t: t, lambda t: reads.append(1) or t):
        y = Cube.apply(leaf())
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert len(reads) == 2


def test_a_changed_saved_tensor_is_an_error():  # spec 6.5
    x = leaf()
    y = Cube.apply(x).sum()
    with stowgrad.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_saved_tensors_are_gone_after_the_pass():  # spec 6.5 3.11
    y = Cube.apply(leaf())
    y.sum().backward()
    with pytest.raises(RuntimeError, match=r"directly access saved tensors.*retain_graph=True"):
        _ = y.grad_fn.saved_tensors


def test_attributes_of_ctx_stay():  # spec 3.16
    def forward(ctx, x):
        ctx.factor = 3
        return x * 3

    y = function(forward, lambda ctx, g: g * ctx.factor).apply(leaf())
    y.sum().backward()
    assert y.grad_fn.factor == 3


CTX_NAMES = ["op", "edges", "needs", "attrs", "saved", "outputs", "device", "number", "hooks", "leaf", "args", "shape"]


@pytest.mark.parametrize("name", CTX_NAMES)
def test_common_attribute_names_are_free(name):  # spec 3.16
    def forward(ctx, x):
        setattr(ctx, name, "mine")
        return x * 2

    x = leaf()
    y = function(forward, lambda ctx, g: g * 2 if getattr(ctx, name) == "mine" else None).apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


# -- outputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "kind"), [(tuple, tuple), (list, list), (lambda xs: xs[0], stowgrad.Tensor)])
def test_the_kind_of_output_stays(make, kind):  # spec 6.6
    y = function(lambda ctx, x: make([x * 2]), lambda ctx, g: g * 2).apply(leaf())
    assert type(y) is kind


def test_an_output_that_is_no_tensor_is_passed_through():  # spec 6.6
    assert function(lambda ctx, x: (x * 2, "text")).apply(leaf())[1] == "text"


def test_an_output_that_is_no_tensor_gets_none():  # spec 6.6
    seen = []
    made = function(lambda ctx, x: (x * 2, "text"), lambda ctx, g, nothing: seen.append(nothing) or g * 2)
    made.apply(leaf())[0].sum().backward()
    assert seen == [None]


def test_an_input_returned_unchanged_comes_back_as_another_tensor():  # spec 6.7
    x = leaf()
    y = function(lambda ctx, x: x, lambda ctx, g: g * 2).apply(x)
    assert y is not x
    assert x.is_leaf
    assert y.grad_fn.name() == "MadeBackward"


def test_an_input_returned_unchanged_shares_its_memory():  # spec 6.7
    x = leaf()
    assert function(lambda ctx, x: x, lambda ctx, g: g).apply(x)._storage is x._storage


def test_a_leaf_from_outside_that_is_returned_stays_a_leaf():  # spec 6.8 turned: PyTorch rewrites it
    outside = leaf(5.0, 6.0)
    y = function(lambda ctx, x: outside, lambda ctx, g: g).apply(leaf())
    assert outside.is_leaf
    assert y.grad_fn is not None


def test_an_output_of_whole_numbers_is_not_differentiable():  # spec 6.11
    y = function(lambda ctx, x: (x * 2, x.long()), lambda ctx, g, h: g * 2).apply(leaf())
    assert [t.requires_grad for t in y] == [True, False]


def marked_forward(ctx, x):
    y, z = x * 2, x * 3
    ctx.mark_non_differentiable(z)
    return y, z


def test_a_marked_output_is_not_differentiable():  # spec 6.11
    assert [t.requires_grad for t in function(marked_forward).apply(leaf())] == [True, False]


def test_a_marked_output_sends_zeros():  # spec 6.11
    seen = []
    made = function(marked_forward, lambda ctx, g, h: seen.append(h.tolist()) or g * 2)
    made.apply(leaf())[0].sum().backward()
    assert seen == [[0.0, 0.0]]


# -- gradients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("materialize", [True, False])
def test_what_did_not_arrive_is_zeros_or_none(materialize):  # spec 6.12
    seen = []

    def forward(ctx, x):
        if not materialize:
            ctx.set_materialize_grads(False)
        return x * 2, x * 3

    made = function(forward, lambda ctx, g, h: seen.append(None if h is None else h.tolist()) or g * 2)
    made.apply(leaf())[0].sum().backward()
    assert seen == [[0.0, 0.0] if materialize else None]


def test_too_few_gradients_are_an_error():  # spec 6.13
    made = function(lambda ctx, x, y: x * y, lambda ctx, g: g)
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        made.apply(leaf(), leaf()).sum().backward()


def test_nones_too_many_are_fine():  # spec 6.13
    x = leaf()
    function(lambda ctx, x: x * 2, lambda ctx, g: (g * 2, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_gradients_too_many_are_an_error():  # spec 6.13
    made = function(lambda ctx, x: x * 2, lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        made.apply(leaf()).sum().backward()


def test_a_gradient_that_is_no_tensor_is_an_error():  # spec 6.13
    made = function(lambda ctx, x: x * 2, lambda ctx, g: 2.0)
    with pytest.raises(RuntimeError, match="expected a Tensor"):
        made.apply(leaf()).sum().backward()


def test_a_gradient_of_a_plain_argument_is_an_error():  # spec 6.13
    made = function(lambda ctx, x, n: x * n, lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match=r"position 1.*not a Variable"):
        made.apply(leaf(), 2).sum().backward()


def test_a_gradient_that_nobody_needs_is_ignored():  # spec 6.13
    x, c = leaf(), stowgrad.ones(2)
    function(lambda ctx, x, c: x * c, lambda ctx, g: (g, g)).apply(x, c).sum().backward()
    assert c.grad is None


def test_a_gradient_is_summed_to_the_input_s_shape():  # spec 6.14
    x = leaf(1.0)
    function(lambda ctx, x: x.expand(2, 3) * 1, lambda ctx, g: g).apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_a_gradient_of_another_dtype_is_cast():  # spec 6.14
    x = leaf()
    function(lambda ctx, x: x * 2, lambda ctx, g: g.double()).apply(x).sum().backward()
    assert x.grad.dtype == np.float32


def test_a_gradient_of_a_wrong_shape_is_an_error():  # spec 6.14
    made = function(lambda ctx, x: x * 2, lambda ctx, g: stowgrad.ones(3))
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[3\] but expected.*\[2\]"):
        made.apply(leaf()).sum().backward()


def test_none_leaves_grad_unset():  # spec 6.15
    x = leaf()
    function(lambda ctx, x: x * 2, lambda ctx, g: None).apply(x).sum().backward()
    assert x.grad is None


def test_none_still_runs_the_nodes_behind():  # spec 6.15
    seen = []
    x = leaf()
    inner = function(lambda ctx, x: x * 2, lambda ctx, g: seen.append(g.tolist()) or g * 2)
    function(lambda ctx, x: x * 2, lambda ctx, g: None).apply(inner.apply(x)).sum().backward()
    assert seen == [[0.0, 0.0]]


def test_hooks_behind_none_get_none():  # spec 6.15
    seen = []
    h = leaf().exp()
    h.register_hook(seen.append)
    function(lambda ctx, x: x * 2, lambda ctx, g: None).apply(h).sum().backward()
    assert seen == [None]


# -- needs_input_grad --------------------------------------------------------------------------------------------------


def needs_of(run, *args):
    """What backward sees as ``needs_input_grad`` when ``run`` starts a pass from the result."""
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return (g,) * len(ctx.needs_input_grad)

    run(function(lambda ctx, x, *rest: x * 2, backward).apply(*args).sum())
    return seen[-1]


def test_needs_input_grad_says_which_arguments_require_grad():  # spec 6.16
    assert needs_of(lambda y: y.backward(), leaf(), stowgrad.ones(2)) == (True, False)


def test_needs_input_grad_is_set_without_grad_mode():  # spec 6.16
    seen = []
    with stowgrad.no_grad():
        function(lambda ctx, x, n: seen.append(ctx.needs_input_grad) or x * 2).apply(leaf(), 3)
    assert seen == [(True, False)]


def test_needs_input_grad_is_narrowed_by_inputs():  # spec 6.16 turned by P16
    x, w = leaf(), leaf()
    assert needs_of(lambda y: grad(y, w), x, w) == (False, True)


def test_needs_input_grad_is_narrowed_by_inputs_of_backward():  # spec 6.16 turned by P16
    x, w = leaf(), leaf()
    assert needs_of(lambda y: y.backward(inputs=[w]), x, w) == (False, True)


def test_needs_input_grad_is_whole_again_after_the_pass():  # P16
    x, w = leaf(), leaf()
    y = function(lambda ctx, x, w: x * w, lambda ctx, g: (g, g)).apply(x, w)
    grad(y.sum(), w, retain_graph=True)
    assert y.grad_fn.needs_input_grad == (True, True)


# -- lifetime ----------------------------------------------------------------------------------------------------------


def test_ctx_dies_with_the_output():
    gc.disable()
    try:
        y = Cube.apply(leaf())
        node = weakref.ref(y.grad_fn)
        assert isinstance(node(), FunctionNode)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_an_intermediate_warns_when_a_second_derivative_runs_through_it():  # spec 6.18 turned by P16
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x, square)
        return square * x

    def backward(ctx, g):
        _, square = ctx.saved_tensors
        return g * 3 * square

    x = leaf()
    with pytest.warns(UserWarning, match="neither an input nor an output"):
        grad(function(forward, backward).apply(x).sum(), x, create_graph=True)
