"""The stack of hooks: who is asked, with what, and what happens if they fail."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.memory import events, memory_allocated
from stowgrad.saved_tensors import saved_tensors_hooks

from .hook_support import Noting, Recording, leaf, same

SIZES = pytest.mark.parametrize("size", [3, 3000])


@pytest.fixture(autouse=True)
def no_collection_in_between():
    """Garbage of other tests must not be freed while this one compares what is allocated."""
    enabled = gc.isenabled()
    gc.disable()
    yield
    if enabled:
        gc.enable()


# -- what a pack hook gets ---------------------------------------------------------------------------------------------


@SIZES
def test_pack_gets_the_original_object_of_an_input(size):  # spec 4.5
    x, noting = leaf(size), Noting()
    with noting.hooks():
        x.log()
    assert noting.packed[0] is x


def test_pack_gets_the_parameter_itself():  # spec 4.5
    parameter, noting = stowgrad.nn.Parameter(stowgrad.ones(3)), Noting()
    with noting.hooks():
        parameter.log()
    assert noting.packed[0] is parameter


@SIZES
def test_pack_gets_a_detached_alias_of_an_output(size):  # spec 4.5 turned by P9
    noting = Noting()
    with noting.hooks():
        y = leaf(size).exp()
    (given,) = noting.packed
    assert given is not y
    assert given._storage is y._storage
    assert not given.requires_grad


@SIZES
def test_pack_runs_with_grad_mode_off(size):  # spec 4.5
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(stowgrad.is_grad_enabled()), same):
        leaf(size).exp()
    assert seen == [False]
    assert stowgrad.is_grad_enabled()


@pytest.mark.parametrize("create_graph", [False, True])
def test_unpack_runs_with_the_grad_mode_of_the_pass(create_graph):  # spec 4.11
    seen = []
    x = leaf()
    with saved_tensors_hooks(same, lambda t: seen.append(stowgrad.is_grad_enabled()) or t):
        y = x.log().sum()
    grad(y, x, create_graph=create_graph)
    assert seen == [create_graph]


def test_pack_gets_views_with_their_base_and_strides():  # spec 4.5
    x, noting = stowgrad.ones(2, 3, requires_grad=True), Noting()
    with noting.hooks():
        x.t().log()
    assert noting.packed[0]._base is x
    assert noting.packed[0].stride() == (1, 3)


@SIZES
def test_what_an_op_writes_is_packed_after_it_was_written(size):  # P2, case A2
    copies = []
    x = stowgrad.tensor(np.linspace(-1, 1, size, dtype=np.float32), requires_grad=True)
    with saved_tensors_hooks(lambda t: copies.append(t.numpy().copy()) or t, same):
        y = x.relu()
    assert np.array_equal(np.unpackbits(copies[0], count=size).astype(bool), y.detach().numpy() > 0)


def test_statistics_are_packed_after_they_were_written():  # P2, case A2
    copies = []
    x = stowgrad.tensor(np.random.default_rng(0).normal(size=(4, 5)), requires_grad=True)
    with saved_tensors_hooks(lambda t: copies.append(t.detach().numpy().copy()) or t, same):
        stowgrad.nn.functional.layer_norm(x, (5,))
    assert any(c.shape == (4,) and np.allclose(c, x.detach().numpy().mean(1)) for c in copies)


def test_whole_numbers_are_packed_too():  # spec 4.6
    noting = Noting()
    with noting.hooks():
        leaf()[stowgrad.tensor([0, 2])]
    assert [t.dtype for t in noting.packed] == [np.int64]


def test_python_numbers_are_not_packed():  # spec 4.6
    noting = Noting()
    with noting.hooks():
        leaf() * 3.0
    assert noting.packed == []


def test_a_tensor_of_no_dimension_is_packed():  # spec 4.6
    noting = Noting()
    with noting.hooks():
        leaf() * stowgrad.tensor(3.0)
    assert [t.shape for t in noting.packed] == [()]


@pytest.mark.parametrize("what", ["no_grad", "no input requires grad", "an op that needs nothing"])
def test_nothing_is_packed_where_nothing_is_saved(what):  # spec 4.7
    noting = Noting()
    with noting.hooks():
        if what == "no_grad":
            with stowgrad.no_grad():
                leaf().exp()
        elif what == "no input requires grad":
            stowgrad.ones(3).exp()
        else:
            leaf() + leaf()
    assert noting.packed == []


@pytest.mark.parametrize("held", [None, 5, "text", (1, 2)])
def test_pack_may_return_anything(held):  # spec 4.8
    seen = []
    x = leaf()
    with saved_tensors_hooks(lambda t: held, lambda h: seen.append(h) or stowgrad.ones(3)):
        y = x.log().sum()
    y.backward()
    assert seen == [held]


@SIZES
def test_a_pack_hook_that_writes_to_its_input_is_an_error(size):  # spec 4.9, case A5
    with saved_tensors_hooks(lambda t: t.add_(1), same), pytest.raises(RuntimeError, match="modifying its input"):
        (leaf(size) * 1).log()


def test_the_same_tensor_in_two_slots_is_packed_twice():  # spec 3.19: raw hooks are never de-duplicated
    x, noting = leaf(), Noting()
    with noting.hooks():
        x * x
    assert noting.packed[0] is noting.packed[1] is x


def test_a_function_s_tensors_are_packed_in_order_after_forward():  # spec 4.20
    log = []

    class Saves(Function):
        @staticmethod
        def forward(ctx, x, w):
            y = x * 2
            ctx.save_for_backward(w, y, x)
            log.append("forward done")
            return y

    x, w = leaf(), leaf()
    with saved_tensors_hooks(lambda t: log.append(t) or t, same):
        y = Saves.apply(x, w)
    assert log[0] == "forward done"
    assert log[1] is w
    assert log[2]._storage is y._storage
    assert log[3] is x


# -- when unpack runs --------------------------------------------------------------------------------------------------


def test_unpack_runs_at_every_read():  # spec 4.11
    noting, x = Noting(), leaf()
    with noting.hooks():
        y = x.log()
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    y.grad_fn.saved_variables[0].tensor(y.grad_fn, stowgrad.Tensor)
    assert len(noting.unpacked) == 3


def test_what_is_never_read_is_never_unpacked():  # spec 4.12
    noting, x = Noting(), leaf()
    with noting.hooks():
        unused = x.log()
        y = (x * 2).sum()
    y.backward()
    assert (len(noting.packed), len(noting.unpacked)) == (1, 0)
    assert unused.requires_grad


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyError("mine"), MemoryError("mine"), KeyboardInterrupt("mine")])
@SIZES
def test_an_exception_of_pack_keeps_its_type(error, size):  # spec 4.15, case A8
    def pack(tensor):
        raise error

    with pytest.raises(type(error), match="mine"), saved_tensors_hooks(pack, same):
        leaf(size).exp()


def test_an_exception_of_unpack_keeps_its_type():  # spec 4.15, case A8
    def unpack(packed):
        raise KeyError("mine")

    with saved_tensors_hooks(same, unpack):
        y = leaf().exp()
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()


OPS = {
    "exp": lambda x: x.exp(),
    "mul": lambda x: x * x,
    "matmul": lambda x: x @ x,
    "softmax": lambda x: x.softmax(0),
    "relu": lambda x: x.relu(),
}


@pytest.mark.parametrize("op", OPS.values(), ids=OPS.keys())
@SIZES
def test_a_failed_save_changes_nothing(op, size):  # P3, law 8
    h = leaf(size) * 2
    before = (memory_allocated(), h.tolist(), h._version, h.grad_fn)

    def pack(tensor):
        raise KeyError

    with pytest.raises(KeyError), saved_tensors_hooks(pack, same):
        op(h)
    assert (memory_allocated(), h.tolist(), h._version, h.grad_fn) == before


def test_after_a_failed_save_the_op_can_be_run_again():  # P3
    x, failures = leaf(), [1]

    def pack(tensor):
        if failures:
            failures.pop()
            raise KeyError
        return tensor

    with saved_tensors_hooks(pack, same):
        with pytest.raises(KeyError):
            x.exp()
        x.exp().sum().backward()
    assert np.allclose(x.grad.numpy(), np.e)


def test_the_second_slot_may_fail():  # P3
    x, calls = leaf(3000), []
    before = memory_allocated()

    def pack(tensor):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError
        return tensor.detach().clone()

    with pytest.raises(KeyError), saved_tensors_hooks(pack, same):
        x * x
    assert memory_allocated() == before


def test_a_failed_save_in_a_function_changes_nothing():  # P3
    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

    def pack(tensor):
        raise KeyError

    x = leaf(3000)
    before = memory_allocated()
    with pytest.raises(KeyError), saved_tensors_hooks(pack, same):
        Saves.apply(x)
    assert memory_allocated() == before


@pytest.mark.parametrize("pair", [(None, same), (same, 5)])
def test_hooks_must_be_callable(pair):  # spec 4.22
    with pytest.raises(TypeError, match="must be callable"), saved_tensors_hooks(*pair):
        pass


def test_hooks_that_are_not_callable_leave_nothing_behind():  # spec 4.22
    noting = Noting()
    with pytest.raises(TypeError), saved_tensors_hooks(None, same):
        pass
    with noting.hooks():
        leaf().exp()
    assert len(noting.packed) == 1


# -- reports -----------------------------------------------------------------------------------------------------------


class Watching(events.Observer):
    def __init__(self):
        self.log = []

    def saved(self, record):
        self.log.append((record.op, record.slot, record.shape, record.raw_bytes, record.policy))

    def unpacked(self, record, seconds):
        self.log.append((record.op, record.slot, "unpacked", seconds >= 0))


@pytest.fixture
def watching():
    observer = Watching()
    events.add_observer(observer)
    yield observer.log
    events.remove_observer(observer)


@SIZES
def test_what_is_kept_is_reported(watching, size):
    leaf(size).exp()
    assert watching == [("exp", "result", (size,), 4 * size, "keep")]


def test_what_hooks_take_is_reported(watching):
    with saved_tensors_hooks(same, same):
        y = leaf().exp()
    y.sum().backward()
    assert watching == [("exp", "result", (3,), 12, "hooks"), ("exp", "result", "unpacked", True)]


def test_a_policy_is_reported_by_name(watching):
    with Recording("mine", []):
        leaf().exp()
    assert watching[0][-1] == "mine"


def test_descriptions_name_the_functions():
    assert saved_tensors_hooks(leaf, same).describe() == "saved_tensors_hooks(leaf, same)"


# -- order and surroundings --------------------------------------------------------------------------------------------


def test_unpacking_follows_the_engine():  # spec 4.19
    unpacked = []
    with saved_tensors_hooks(lambda t: (t.shape, t), lambda p: unpacked.append(p[0][0]) or p[1]):
        first = leaf(1).exp().sum()
        second = leaf(2).exp().sum()
        third = leaf(4).exp().sum()
    (third + (first + second)).backward()
    assert unpacked == [4, 2, 1]  # the latest recorded first, whatever the order of packing


def test_a_pack_hook_that_draws_changes_what_is_drawn_next():  # spec 4.21
    def drawn(pack):
        stowgrad.manual_seed(0)
        with saved_tensors_hooks(pack, same):
            leaf().exp()
        return stowgrad.rand(3).tolist()

    assert drawn(same) != drawn(lambda t: stowgrad.rand(1) is None or t)


def test_an_in_place_op_on_a_view_makes_no_cycle():  # spec 3.5
    x = leaf(1000)
    before = memory_allocated()
    h = x * 1
    view = h[:500]
    view.exp_()
    del h, view
    assert memory_allocated() == before
