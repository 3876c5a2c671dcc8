"""Law 5: graphs are freed by reference count; deep ones without recursion."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.memory import memory_allocated
from stowgrad.saved_tensors import saved_tensors_hooks

BIG = 4096  # floats: above the size that NumPy allocates


class Box:
    """A packed form that holds the tensor itself."""

    def __init__(self, tensor):
        self.tensor = tensor


HOOKS = {
    "plain": contextlib.nullcontext,
    "identity": lambda: saved_tensors_hooks(lambda t: t, lambda t: t),
    "boxing": lambda: saved_tensors_hooks(Box, lambda box: box.tensor),
    "numpy": lambda: saved_tensors_hooks(lambda t: t.detach().numpy().copy(), stowgrad.from_numpy),
}
under_hooks = pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS.keys())


@pytest.fixture(autouse=True)
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def mlp(x, w):
    """Ops that save inputs, outputs, masks and views."""
    h = (x @ w).tanh()
    h = (h * h + h).exp().softmax(-1)
    h = h.t().relu() + h.view(64, 64).sigmoid()
    return (h[:32] * 2).sum()


def operands():
    rng = np.random.default_rng(0)
    x, w = (stowgrad.tensor(rng.normal(size=(64, 64)).astype(np.float32), requires_grad=True) for _ in range(2))
    return x, w


@under_hooks
@pytest.mark.parametrize("ending", ["dropped", "backward", "retained", "grad", "create_graph", "no backward of a part"])
def test_memory_returns_to_where_it_was(hooks, ending):  # law 5, P9, case A1, spec 3.3
    x, w = operands()
    for _ in range(3):
        before = memory_allocated()
        with hooks():
            y = mlp(x, w)
        if ending == "backward":
            y.backward()
        elif ending == "retained":
            y.backward(retain_graph=True)
        elif ending == "grad":
            grad(y, x)
        elif ending == "create_graph":
            (first,) = grad(y, x, create_graph=True)
            grad(first.sum(), [x, w])
            del first
        elif ending == "no backward of a part":
            y.grad_fn.next_functions[0][0](stowgrad.ones(32, 64))
        x.grad = w.grad = None
        del y
        assert memory_allocated() == before


@under_hooks
def test_an_output_alone_is_freed(hooks):  # case A1
    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    with hooks():
        y = x.exp()
    del y
    assert memory_allocated() == before


@pytest.mark.parametrize("hooks", [HOOKS[name] for name in ("plain", "identity", "boxing")])
def test_saved_values_are_freed_node_by_node(hooks):  # spec 3.10
    x = stowgrad.ones(BIG, requires_grad=True)
    held = []
    with hooks():
        y = x.tanh()
        for _ in range(4):
            y = y.tanh()
            y.register_hook(lambda g: held.append(memory_allocated()))
        y = y.sum()
    y.backward()
    # The first gradient is an expanded number: from the second on, each node frees as much as it made.
    assert all(later == earlier - 4 * BIG for earlier, later in itertools.pairwise(held[1:]))


def test_packed_objects_die_at_the_release():  # spec 3.10
    alive = []

    def pack(tensor):
        box = Box(tensor.detach())
        alive.append(weakref.ref(box))
        return box

    x = stowgrad.ones(BIG, requires_grad=True)
    with saved_tensors_hooks(pack, lambda box: box.tensor):
        y = (x * x).sum()
    assert [box() is not None for box in alive] == [True, True]
    y.backward()
    assert [box() for box in alive] == [None, None]


@under_hooks
def test_an_in_place_write_over_a_saved_input_makes_no_cycle(hooks):  # spec 3.1, P9
    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    with hooks():
        h = x * x
        y = h * h
    with stowgrad.no_grad():
        h.add_(y)
    del h, y
    assert memory_allocated() == before


def test_a_function_s_graph_is_freed():  # spec 6.5
    class Squares(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y, y.view(-1)

        @staticmethod
        def backward(ctx, g, h):
            return g

    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    outputs = Squares.apply(x)
    del outputs
    assert memory_allocated() == before


def test_a_function_that_saves_views_of_its_outputs_is_freed():  # case G2, spec 6.24, P9
    class Views(Function):
        @staticmethod
        def forward(ctx, x):
            base = x * 2
            view = base.view(64, 64)
            ctx.save_for_backward(view[1:])
            return base, view

        @staticmethod
        def backward(ctx, g, h):
            return g

    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    out = Views.apply(x)
    del out
    assert memory_allocated() == before


def test_an_output_on_ctx_is_freed_by_the_collector():  # case G1, P9, spec 6.23
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x * 2
            return ctx.y

        @staticmethod
        def backward(ctx, g):
            return g

    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    y = Keeps.apply(x)
    del y
    gc.collect()
    assert memory_allocated() == before


def test_a_hook_that_holds_its_tensor_is_freed_by_the_collector():  # case G3, spec 7.33, P9
    before = memory_allocated()
    h = stowgrad.ones(BIG, requires_grad=True) * 2
    h.register_hook(lambda g, h=h: g * h)
    del h
    gc.collect()
    assert memory_allocated() == before


def test_a_hook_that_holds_its_node_still_fires():  # case G4
    seen = []
    h = stowgrad.ones(2, requires_grad=True) * 2
    h.register_hook(lambda g, node=h.grad_fn: seen.append(node.name()))
    y = h.sum()
    y.backward(retain_graph=True)
    gc.collect()
    y.backward()
    assert seen == ["MulBackward0"] * 2


def test_create_graph_with_grad_is_freed_by_the_collector():  # case G5, spec 7.21, P9
    before = memory_allocated()
    x = stowgrad.ones(BIG, requires_grad=True)
    (x * x).sum().backward(create_graph=True)
    del x
    gc.collect()
    assert memory_allocated() == before


def test_retain_grad_makes_no_cycle():
    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    h = x * 2
    h.retain_grad()
    h.sum().backward()
    x.grad = None
    del h
    assert memory_allocated() == before


def test_a_view_keeps_its_base_and_no_more():
    before = memory_allocated()
    x = stowgrad.ones(BIG)
    view = x[:1]
    del x
    assert memory_allocated() == before + 4 * BIG
    del view
    assert memory_allocated() == before


def test_a_failed_backward_drops_what_it_unpacked():  # P10
    def unpack(array):
        return stowgrad.tensor(array)

    x = stowgrad.ones(BIG, requires_grad=True)
    before = memory_allocated()
    with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), unpack):
        h = x.exp()
        y = h.exp()
    packed = memory_allocated()
    x_hook = h.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    x_hook.remove()
    assert memory_allocated() <= packed
    del h, y, x_hook
    assert memory_allocated() == before


# -- depth -------------------------------------------------------------------------------------------------------------


def chain(length):
    """A leaf of one element and the end of a chain of an even number of ops on it."""
    x = y = stowgrad.ones(1, requires_grad=True)
    for _ in range(length):
        y = y.neg()
    return x, y


LENGTHS = [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_deep_graph_runs_backward(length):  # P17, case G15, spec 1.25
    x, y = chain(length)
    y.backward()
    assert x.grad.tolist() == [1.0]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_deep_graph_is_freed(length):  # P17, case G15, spec 1.25
    before = memory_allocated()
    x, y = chain(length)
    del x, y
    assert memory_allocated() == before


@pytest.mark.parametrize("length", LENGTHS)
def test_a_deep_graph_that_saves_is_freed_after_backward(length):  # P17
    before = memory_allocated()
    x = y = stowgrad.ones(1, requires_grad=True)
    for _ in range(length):
        y = y.tanh()
    y.backward(retain_graph=True)
    del x, y
    assert memory_allocated() == before


@pytest.mark.parametrize("length", LENGTHS)
def test_a_search_in_a_deep_graph_needs_no_recursion(length):  # P17, spec 7.13
    x, y = chain(length)
    assert grad(y, x)[0].tolist() == [1.0]


def test_a_deep_graph_of_views_is_freed():  # P17
    before = memory_allocated()
    x = stowgrad.ones(2, requires_grad=True)
    y = x
    for _ in range(50_000):
        y = y.view(2)
    y.sum().backward()
    del x, y
    assert memory_allocated() == before


def test_a_deep_recorded_pass_is_freed():  # P17
    before = memory_allocated()
    x, y = chain(20_000)
    (found,) = grad((y * y).sum(), x, create_graph=True)
    assert grad(found.sum(), x)[0].tolist() == [2.0]
    del x, y, found
    assert memory_allocated() == before


def test_freeing_is_linear():  # P17
    def seconds(length):
        kept = chain(length)
        start = time.perf_counter()
        del kept
        return time.perf_counter() - start

    seconds(1000)
    assert seconds(80_000) < 100 * max(seconds(4_000), 1e-4)
