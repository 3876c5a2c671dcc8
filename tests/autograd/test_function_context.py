"""Functions with `setup_context`, `once_differentiable`, views as outputs, and what is saved for how long."""

from __future__ import annotations

import gc
import weakref
from typing import ClassVar

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.function import once_differentiable
from stowgrad.memory import memory_allocated

from .test_function import cube_forward, function, leaf

# -- setup_context -----------------------------------------------------------------------------------------------------


class Power(Function):
    """In two steps, with a default."""

    seen: ClassVar[list[object]] = []

    @staticmethod
    def forward(x, n=2):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.n = inputs
        ctx.save_for_backward(x)
        Power.seen[:] = [output, output.requires_grad, stowgrad.is_grad_enabled(), ctx.needs_input_grad]

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1), None


def test_setup_context_saves_what_backward_needs():  # spec 6.19
    x = leaf()
    Power.apply(x, 3).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_setup_context_sees_outputs_without_history():  # spec 6.19
    y = Power.apply(leaf(), 3)
    assert Power.seen[0] is y
    assert Power.seen[1:] == [False, False, (True, False)]


@pytest.mark.parametrize("call", [Power.apply, lambda x: Power.apply(x, n=2)])
def test_defaults_and_keywords_are_bound_before(call):  # spec 6.3
    x = leaf()
    call(x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_arguments_that_do_not_fit():  # spec 6.3
    with pytest.raises(TypeError):
        Power.apply(leaf(), 1, 2)


def test_keyword_only_arguments_are_refused():  # spec 6.3
    made = function(lambda x, *, n=2: x**n, setup_context=lambda ctx, inputs, output: None)
    with pytest.raises(TypeError, match=r"keyword-only arguments \(n\)"):
        made.apply(leaf())


def test_second_derivatives_with_setup_context():  # spec 6.19
    x = leaf()
    (first,) = grad(Power.apply(x, 3).sum(), x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [6.0, 12.0]


def test_saving_an_input_that_is_also_returned_is_refused():  # spec 6.19
    made = function(lambda x: x, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    with pytest.raises(RuntimeError, match="returned as-is as output is being saved"):
        made.apply(leaf())


def test_without_history_it_may_be_saved():  # spec 6.4 6.19
    made = function(lambda x: x, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    with stowgrad.no_grad():
        assert made.apply(leaf()).tolist() == [1.0, 2.0]


def test_a_child_inherits_setup_context():  # spec 6.19
    x = leaf()
    type("Child", (Power,), {}).apply(x, 3).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


# -- once_differentiable -----------------------------------------------------------------------------------------------


def once(backward, forward=cube_forward):
    return function(forward, once_differentiable(backward))


def slope(ctx, g):
    (x,) = ctx.saved_tensors
    return g * 3 * x * x


def test_backward_runs_with_grad_mode_off():  # spec 6.17
    seen = []
    x = leaf()
    made = once(lambda ctx, g: seen.append(stowgrad.is_grad_enabled()) or slope(ctx, g))
    (g,) = grad(made.apply(x).sum(), x, create_graph=True)
    assert seen == [False]
    assert g.tolist() == [3.0, 12.0]


def test_first_derivatives_are_as_usual():  # spec 6.17
    x = leaf()
    once(slope).apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


@pytest.mark.parametrize("wants_grad", [True, False])
def test_backward_through_backward_names_the_decorator(wants_grad):  # spec 6.17
    x = leaf()
    seed = stowgrad.ones(2, requires_grad=wants_grad)
    (g,) = grad(once(slope).apply(x), x, seed, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


def test_grad_of_grad_finds_nothing():  # spec 6.17
    x = leaf()
    (g,) = grad(once(slope).apply(x), x, stowgrad.ones(2, requires_grad=True), create_graph=True)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        grad(g.sum(), x)


def test_a_constant_gradient_is_a_constant():  # spec 6.17
    x = leaf()
    (g,) = grad(once(lambda ctx, g: g * 2, lambda ctx, x: x * 2).apply(x).sum(), x, create_graph=True)
    assert not g.requires_grad


def test_none_stays_none():  # spec 6.17
    x, c = leaf(), stowgrad.ones(2)

    def forward(ctx, x, c):
        ctx.save_for_backward(x)
        return x * x * x * c

    made = once(lambda ctx, g: (slope(ctx, g), None), forward)
    (g,) = grad(made.apply(x, c), x, stowgrad.ones(2, requires_grad=True), create_graph=True)
    assert g.tolist() == [3.0, 12.0]


# -- outputs that are views --------------------------------------------------------------------------------------------


def test_an_input_returned_unchanged_is_a_view_of_it():  # spec 6.7
    x = leaf()
    y = function(lambda ctx, x: x, lambda ctx, g: g * 2).apply(x)
    assert y._is_view()
    assert y._base is x
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_view_of_an_input_stays_one():  # spec 6.7
    x = leaf()
    y = function(lambda ctx, x: x.view(2, 1), lambda ctx, g: g.view(2) * 5).apply(x)
    assert y._base is x
    assert y.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("forward", [lambda ctx, x: x, lambda ctx, x: x.view(2, 1)])
def test_writing_through_such_a_view_is_refused(forward):  # spec 2.11 6.7
    h = leaf() * 1
    y = function(forward, lambda ctx, g: g.view(2)).apply(h)
    with pytest.raises(RuntimeError, match="custom Function"):
        y.add_(1)


def test_of_several_outputs_the_views_can_not_be_written():  # spec 2.11 6.7
    h = leaf() * 1
    y, z = function(lambda ctx, x: (x[:1], x[1:]), lambda ctx, g, h: stowgrad.cat([g, h])).apply(h)
    for view in (y, z):
        with pytest.raises(RuntimeError, match="returns multiple views"):
            view.add_(1)


def test_a_tensor_returned_twice_has_the_last_edge():  # spec 6.9
    seen = []

    def forward(ctx, x):
        y = x * 2
        return y, y

    y, z = function(forward, lambda ctx, g, h: seen.append((g.tolist(), h.tolist())) or h * 2).apply(leaf())
    assert y is z
    assert y.output_nr == 1
    y.sum().backward()
    assert seen == [([0.0, 0.0], [1.0, 1.0])]


# -- gradients that do not arrive --------------------------------------------------------------------------------------


def test_an_output_of_whole_numbers_sends_zeros_of_its_dtype():  # spec 6.11
    seen = []
    made = function(lambda ctx, x: (x * 2, x.long()), lambda ctx, g, h: seen.append(h) or g * 2)
    made.apply(leaf())[0].sum().backward()
    assert seen[0].dtype == np.int64
    assert seen[0].tolist() == [0, 0]


def test_a_marked_output_of_whole_numbers():  # spec 6.11
    seen = []

    def forward(ctx, x):
        index = x.long()
        ctx.mark_non_differentiable(index)
        return x * 2, index

    function(forward, lambda ctx, g, h: seen.append(h.dtype) or g * 2).apply(leaf())[0].sum().backward()
    assert seen == [np.int64]


def test_without_materializing_backward_runs_with_none():  # spec 6.12 6.15
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    inner = function(forward, lambda ctx, g: seen.append(g))
    function(lambda ctx, x: x * 2, lambda ctx, g: None).apply(inner.apply(leaf())).sum().backward()
    assert seen == [None]


# -- how long saved tensors stay ---------------------------------------------------------------------------------------


class Clears(Function):
    clear_saved_tensors_on_access = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 2)
        return x * 3

    @staticmethod
    def backward(ctx, g):
        (twice,) = ctx.saved_tensors
        gc.collect()  # so that nothing but this is freed here
        before = memory_allocated()
        nbytes = twice.nbytes
        del twice
        Clears.freed = before - memory_allocated() == nbytes
        return g * 3


def test_saved_tensors_stay_until_backward_returns():  # spec 3.17
    freed = []

    def forward(ctx, x):
        ctx.save_for_backward(x * 2)
        return x * 3

    def backward(ctx, g):
        tensors = ctx.saved_tensors
        gc.collect()
        before = memory_allocated()
        del tensors
        freed.append(before - memory_allocated())
        return g

    function(forward, backward).apply(stowgrad.ones(1000, requires_grad=True)).sum().backward()
    assert freed == [0]


def test_cleared_on_access_they_are_freed_early():  # spec 3.17
    Clears.apply(stowgrad.ones(1000, requires_grad=True)).sum().backward()
    assert Clears.freed


def test_cleared_on_access_they_are_read_once():  # spec 3.17
    y = Clears.apply(leaf())
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="accessed once when clear_saved_tensors_on_access=True"):
        y.sum().backward()


def test_cleared_on_access_outside_of_backward():  # spec 3.17
    node = Clears.apply(leaf()).grad_fn
    assert len(node.saved_tensors) == 1
    with pytest.raises(RuntimeError, match="accessed once"):
        _ = node.saved_tensors
    assert node._raw_saved_tensors == ()


def test_a_view_of_a_returned_view_does_not_leak():  # spec 6.24, P9, case G2
    def forward(ctx, x):
        base = x * 2
        view = base.view(2, -1)
        ctx.save_for_backward(view[0])
        return base, view

    made = function(forward, lambda ctx, g, h: g)
    x = stowgrad.ones(1000, requires_grad=True)
    gc.disable()
    try:
        before = memory_allocated()
        outputs = made.apply(x)
        node = weakref.ref(outputs[0].grad_fn)
        del outputs
        assert node() is None
        assert memory_allocated() == before
    finally:
        gc.enable()


# -- boxed gradients ---------------------------------------------------------------------------------------------------


def boxed(backward):
    """A Function of two outputs, the same and twice its input, whose backward takes a list."""

    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

    Boxed.backward = staticmethod(backward)
    return Boxed


@pytest.mark.parametrize("create_graph", [False, True])
def test_backward_gets_its_gradients_in_a_list(create_graph):  # spec 6.22
    kinds = []

    def backward(ctx, grads):
        kinds.append(type(grads))
        return grads[0] + grads[1] * 2

    x = stowgrad.ones(3, requires_grad=True)
    y, z = boxed(backward).apply(x)
    (g,) = grad((y * 3 + z).sum(), x, create_graph=create_graph)
    assert g.tolist() == [5.0] * 3
    assert issubclass(kinds[0], list)


def test_gradients_that_did_not_arrive_are_zeros_in_the_list():  # spec 6.12 6.22
    x = stowgrad.ones(3, requires_grad=True)
    y, _ = boxed(lambda ctx, grads: grads[0] + grads[1]).apply(x)
    assert grad(y.sum(), x)[0].tolist() == [1.0] * 3


def test_a_gradient_taken_out_of_the_list_is_freed():  # spec 6.22
    freed = []

    def backward(ctx, grads):
        before = memory_allocated()
        first = grads.pop()
        del first
        freed.append(before - memory_allocated())
        return grads.pop()

    x = stowgrad.ones(4096, requires_grad=True)
    y, z = boxed(backward).apply(x)
    (y.exp() + z.exp()).sum().backward()
    assert freed == [4 * 4096]


def test_hooks_after_the_node_see_the_gradients_all_the_same():  # spec 6.22
    seen = []

    def backward(ctx, grads):
        grads.pop()
        return grads.pop()

    x = stowgrad.ones(2, requires_grad=True)
    y, z = boxed(backward).apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.extend(g.tolist() for g in outputs))
    (y + z * 2).sum().backward()
    assert seen == [[1.0, 1.0], [2.0, 2.0]]
