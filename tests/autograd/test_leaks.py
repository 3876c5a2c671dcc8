"""100 rounds of what leaked elsewhere, without the collector: every byte comes back when the last name is gone.

What makes a cycle by the user's own hand is freed by one ``gc.collect()``.
"""

from __future__ import annotations

import contextlib
import gc

import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.graph import register_multi_grad_hook
from stowgrad.checkpoint import checkpoint
from stowgrad.memory import memory_allocated
from stowgrad.offload import save_on_cpu, save_on_disk
from stowgrad.saved_tensors import Compress, allow_mutation_on_saved_tensors, saved_tensors_hooks
from stowgrad.utils import clear_frames

ROUNDS = 100
SIDE = 32  # a square of 4 KiB


class Box:
    """A packed form that holds the tensor itself."""

    def __init__(self, tensor):
        self.tensor = tensor


HOOKS = {
    "plain": contextlib.nullcontext,
    "identity": lambda: saved_tensors_hooks(lambda t: t, lambda t: t),
    "boxing": lambda: saved_tensors_hooks(Box, lambda box: box.tensor),
    "numpy": lambda: saved_tensors_hooks(lambda t: t.detach().numpy().copy(), stowgrad.from_numpy),
    "save_on_cpu": save_on_cpu,
    "zstd": lambda: Compress("zstd", min_bytes=0),
    "disk": lambda: save_on_disk(min_bytes=0, staging=0),
}
under_hooks = pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS.keys())


@pytest.fixture(autouse=True)
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf():
    return stowgrad.full((SIDE, SIDE), 0.5, requires_grad=True)


def leaves_nothing(work, *args):
    """Run ``work`` many times; after each, as much memory is in use as before the first."""
    work(*args)  # what is made once
    before = memory_allocated()
    for number in range(ROUNDS):
        work(*args)
        assert memory_allocated() == before, f"after round {number}"


def leaves_what_the_collector_takes(work):
    """Run ``work`` many times; then one collection brings all memory back."""
    work()
    gc.collect()
    before = memory_allocated()
    for _ in range(ROUNDS):
        work()
    gc.collect()
    assert memory_allocated() == before


# -- hooks and policies ------------------------------------------------------------------------------------------------


def mixed(x):
    """Ops that save inputs, outputs, masks and views."""
    h = (x @ x.t()).tanh()
    return (h.exp().softmax(-1) * h.relu()).sum()


@under_hooks
def test_a_graph_that_nobody_runs(hooks):  # case A1, case A14, spec 3.3, P8
    def work():
        with hooks():
            mixed(leaf())

    leaves_nothing(work)


@under_hooks
def test_a_graph_that_was_run(hooks):  # case A14, P8
    def work():
        with hooks():
            y = mixed(leaf())
        y.backward()

    leaves_nothing(work)


@under_hooks
def test_a_graph_that_was_run_and_kept(hooks):  # P9
    def work():
        with hooks():
            y = mixed(leaf())
        y.backward(retain_graph=True)

    leaves_nothing(work)


@under_hooks
def test_a_graph_of_which_a_part_was_run(hooks):  # case A12, P8
    def work():
        x = leaf()
        with hooks():
            h = x.exp()
            y = mixed(h)
        grad(y, h)

    leaves_nothing(work)


@under_hooks
def test_second_derivatives(hooks):  # P9
    def work():
        x = leaf()
        with hooks():
            (g,) = grad(mixed(x), x, create_graph=True)
            grad(g.sum(), x)

    leaves_nothing(work)


@pytest.mark.parametrize("hooks", [HOOKS["disk"], HOOKS["zstd"]], ids=["disk", "zstd"])
def test_what_is_packed_is_not_kept_alive_by_the_table_that_shares_it(hooks):  # case B3, P7
    x = leaf()
    with hooks():
        h = x * 1
        y = h.t().sin().sum() + h.cos().sum()
        before = memory_allocated()
        del h
    assert memory_allocated() == before - 4 * SIDE * SIDE
    y.backward()


@under_hooks
def test_writes_over_saved_inputs(hooks):  # spec 3.1, P9
    def work():
        with hooks():
            h = leaf() * 1
            y = h * h
            with stowgrad.no_grad():
                h.add_(y)

    leaves_nothing(work)


@under_hooks
def test_recorded_writes_through_views(hooks):  # spec 3.5, P9
    def work():
        with hooks():
            h = leaf() * 1
            h[0].sin_()
            h.t().mul_(h.detach().clone())
            h.sum().backward()

    leaves_nothing(work)


def test_mutation_of_saved_tensors():  # spec 4.29, P8
    def work():
        with allow_mutation_on_saved_tensors():
            h = leaf() * 1
            y = (h * h).sum()
            h.add_(1)
            y.backward()

    leaves_nothing(work)


# -- Functions ---------------------------------------------------------------------------------------------------------


class SavesViews(Function):
    """Returns a tensor and a view of it, and saves a view of that view."""

    @staticmethod
    def forward(ctx, x):
        base = x * 2
        flat = base.view(-1)
        ctx.save_for_backward(flat[1:])
        return base, flat

    @staticmethod
    def backward(ctx, g, h):
        return g + h.view(SIDE, SIDE) + ctx.saved_tensors[0].sum()


@under_hooks
@pytest.mark.parametrize("run", [False, True])
def test_a_function_that_saves_views_of_its_outputs(hooks, run):  # case G2, spec 6.24, P9
    def work():
        with hooks():
            base, flat = SavesViews.apply(leaf())
        if run:
            (base.sum() + flat.sum()).backward()

    leaves_nothing(work)


class SavesBoth(Function):
    """Saves its input and its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * x / x


@under_hooks
def test_a_function_that_saves_its_output(hooks):  # P9
    def work():
        with hooks():
            SavesBoth.apply(leaf() * 1)

    leaves_nothing(work)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_a_function_last_in_a_checkpointed_region():  # case F3
    leaves_nothing(lambda: checkpoint(lambda x: SavesBoth.apply(x * 2), leaf()).sum().backward())


def test_a_checkpointed_region_that_nobody_runs():  # P9
    leaves_nothing(lambda: checkpoint(mixed, leaf()))


def test_a_partial_pass_over_a_region_that_stays():  # case G8, P14
    x = leaf()
    a, b = checkpoint(lambda x: (x.exp().sin(), x.tanh().cos()), x)
    a, b = a.sum(), b.sum()
    leaves_nothing(lambda: grad(a, x, retain_graph=True))
    b.backward()


def test_passes_over_a_region_that_stays():  # case G9, P14
    x = leaf()
    y = checkpoint(mixed, x)
    leaves_nothing(lambda: grad(y, x, retain_graph=True))


# -- failures ----------------------------------------------------------------------------------------------------------


class Fails(Function):
    """Fails in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise ArithmeticError(ctx.saved_tensors[0].shape)


@under_hooks
def test_a_pass_that_fails(hooks):  # case G12, P10
    def work():  # without pytest.raises, which keeps the exception and with it the frames
        try:
            with hooks():
                y = mixed(Fails.apply(leaf().exp()))
            y.backward()
        except ArithmeticError:
            return
        raise AssertionError("it did not fail")

    leaves_nothing(work)


def test_exceptions_that_are_kept_with_their_frames_cleared():  # case G12, P10, spec 12.5
    kept = []

    def work():
        try:
            mixed(Fails.apply(leaf().exp())).backward()
        except ArithmeticError as error:
            clear_frames(error)
            kept.append(error)

    leaves_nothing(work)


def test_a_graph_that_stays_after_a_failed_pass_is_not_loaded_twice():  # case G12, P10
    y = mixed(Fails.apply(leaf().exp()))

    def work():
        with contextlib.suppress(ArithmeticError):
            y.backward(retain_graph=True)

    leaves_nothing(work)


# -- hooks of tensors and nodes ----------------------------------------------------------------------------------------


def test_hooks_of_every_kind():  # P9
    def work():
        x = leaf()
        h = x * 2
        h.retain_grad()
        h.register_hook(lambda g: g * 2)
        h.grad_fn.register_prehook(lambda outputs: None)
        h.grad_fn.register_hook(lambda inputs, outputs: None)
        x.register_post_accumulate_grad_hook(lambda leaf: None)
        register_multi_grad_hook([x, h], lambda gradients: None)
        h.exp().sum().backward()

    leaves_nothing(work)


def test_deep_graphs():  # case G15, P17
    def work():
        y = leaf()[0, :1]
        for _ in range(1500):
            y = y.tanh()

    leaves_nothing(work)


# -- cycles of the user's own ------------------------------------------------------------------------------------------


class KeepsItsOutput(Function):
    """Its output is an attribute of its node, whose output it is."""

    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_an_output_on_ctx():  # case G1, spec 6.23, P9
    leaves_what_the_collector_takes(lambda: KeepsItsOutput.apply(leaf()))


@pytest.mark.parametrize("inner", [False, True])
def test_a_hook_that_holds_its_tensor(inner):  # case G3, spec 7.33, P9
    def work():
        x = leaf() * 2 if inner else leaf()
        x.register_hook(lambda g: g * x)
        x.exp().sum().backward()

    leaves_what_the_collector_takes(work)


def test_a_hook_that_holds_its_node_fires_after_a_collection():  # case G4, spec 7.33
    fired = []
    h = leaf() * 2
    h.register_hook(lambda g, node=h.grad_fn: fired.append(node.name()))
    y = h.sum()
    del h
    for _ in range(ROUNDS):
        y.backward(retain_graph=True)
        gc.collect(0)
    gc.collect()
    y.backward()
    assert len(fired) == ROUNDS + 1


def test_grad_that_is_part_of_a_graph():  # case G5, spec 7.21, P9
    leaves_what_the_collector_takes(lambda: mixed(leaf()).backward(create_graph=True))


class Solves(Function):
    """Keeps a function, which may keep anything."""

    @staticmethod
    def forward(ctx, function, x):
        ctx.function = function
        return function(x)

    @staticmethod
    def backward(ctx, g):
        return None, g


class Problem:
    """Holds the solution, whose node holds a method of it."""

    def __init__(self):
        self.solution = Solves.apply(self.function, leaf())

    def function(self, x):
        return x * 2


def test_an_object_that_holds_what_its_method_made():  # case G14, P9
    leaves_what_the_collector_takes(Problem)
