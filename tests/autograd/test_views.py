"""Views: what they share, and histories after a write through one of them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.memory import memory_allocated
from stowgrad.saved_tensors import saved_tensors_hooks


def leaf(*shape):
    return stowgrad.tensor(np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape), requires_grad=True)


# -- writes through a view ---------------------------------------------------------------------------------------------

VIEWS = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 2],
    "steps": lambda x: x[::2, 1::2],
    "one element": lambda x: x[1, 2],
    "turned": lambda x: x.t(),
    "turned and flat": lambda x: x.t()[1].view(3, 1),
    "flat": lambda x: x.view(-1)[3:9],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "new dimension": lambda x: x[:, None, 1:],
    "backwards": lambda x: x[::-1, ::-1],
    "of an expanded tensor": lambda x: x.expand(2, 3, 4)[1],
    "all": lambda x: x[...],
}
every_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())


def selected(view, shape):
    """Where a view looks: a mask."""
    mask = stowgrad.zeros(*shape)
    view(mask).fill_(1)
    return mask.numpy() > 0


@every_view
@pytest.mark.parametrize("turned", [False, True])
def test_a_write_through_a_view_changes_the_base(view, turned):  # spec 2.7
    if turned and view is VIEWS["flat"]:
        pytest.skip("no view of turned memory")
    w, u = leaf(3, 4), stowgrad.tensor(3.0, dtype=np.float64, requires_grad=True)
    x = (w.t() * 2).t() if turned else w * 2
    part = view(x)
    part.mul_(u)
    where = selected(view, (3, 4))
    base = x._base if turned else x
    assert (base.grad_fn.name(), part._base is base) == ("CopySlices", True)
    assert np.array_equal(x.detach().numpy(), w.detach().numpy() * np.where(where, 6, 2))
    (x * 5).sum().backward()
    assert np.array_equal(w.grad.numpy(), np.where(where, 30, 10))
    assert u.grad.item() == 10 * w.detach().numpy()[where].sum()


@every_view
def test_a_view_is_overwritten(view):  # spec 2.7: what is overwritten gets zero
    w, u = leaf(3, 4), stowgrad.tensor(3.0, dtype=np.float64, requires_grad=True)
    x = w * 2
    view(x).fill_(u)
    x.sum().backward()
    where = selected(view, (3, 4))
    assert np.array_equal(w.grad.numpy(), np.where(where, 0, 2))
    assert u.grad.item() == where.sum()


@every_view
def test_second_derivatives_of_a_write_through_a_view(view):
    w, u = leaf(3, 4), stowgrad.tensor(3.0, dtype=np.float64, requires_grad=True)
    x = w * 2
    view(x).mul_(u).square_()
    (g,) = grad(x.sum(), w, create_graph=True)  # where: 8 w u^2
    by_w, by_u = grad(g.sum(), (w, u))
    where, values = selected(view, (3, 4)), w.detach().numpy()
    assert np.allclose(by_w.numpy(), np.where(where, 8 * 9, 0))
    assert np.allclose(by_u.numpy(), (16 * 3 * values)[where].sum())


@pytest.mark.parametrize("layout", ["rows", "columns", "three dimensions"])
def test_the_base_may_lie_in_any_order(layout):
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3, 4, 2))
    array = {"rows": array, "columns": np.asfortranarray(array), "three dimensions": array.transpose(1, 2, 0)}[layout]
    x = stowgrad.from_numpy(array)
    w = leaf(2)
    flat = x.permute(*reversed(range(3))).view(-1) if layout == "columns" else x.permute(*np.argsort(x.stride())[::-1])
    flat.view(-1)[3:5].mul_(w)
    (x * stowgrad.from_numpy(array.copy())).sum().backward()
    assert np.all(w.grad.numpy() != 0)


def test_writes_through_several_views_follow_each_other():  # spec 2.7
    w = leaf(2, 2)
    x = w * 1
    x[0].mul_(2)
    x[:, 0].mul_(3)
    x.add_(1)
    x.t()[1].mul_(5)
    x.sum().backward()
    assert w.grad.tolist() == [[6.0, 10.0], [3.0, 5.0]]


def test_a_buffer_is_filled_row_by_row():  # spec 2.6
    w = leaf(3)
    buffer = stowgrad.zeros(4, 3, dtype=np.float64)
    h = w
    for number in range(4):
        h = h * 2
        buffer[number] = h
    assert (buffer.requires_grad, buffer.is_leaf, buffer.grad_fn.name()) == (True, False, "CopySlices")
    buffer.sum().backward()
    assert w.grad.tolist() == [30.0, 30.0, 30.0]


def test_a_write_of_one_row_leaves_gradients_of_the_others_alone():  # spec 2.7
    w = leaf(2, 2)
    x = w * 1
    x[0] = 7.0
    (x * x).sum().backward()
    assert w.grad.tolist() == [[0.0, 0.0], [6.0, 8.0]]


# -- views made again --------------------------------------------------------------------------------------------------


@every_view
def test_a_view_knows_of_a_write_to_its_base(view):  # spec 2.8
    w = leaf(3, 4)
    x = w * 2
    part = view(x)
    before = part.grad_fn
    x.mul_(3)
    assert part.grad_fn is not before
    part.sum().backward()
    assert np.array_equal(w.grad.numpy(), np.where(selected(view, (3, 4)), 6, 0))


def test_a_view_knows_of_a_write_through_another():  # spec 2.8
    w = leaf(2, 2)
    x = w * 1
    row, column = x[0], x[:, 0]
    row.mul_(3)
    column.sum().backward()
    assert w.grad.tolist() == [[3.0, 0.0], [1.0, 0.0]]


def test_a_view_of_a_view_knows_of_a_write_to_the_base():  # spec 2.8
    w = leaf(2, 2)
    x = w * 1
    inner = x.t()[0][1:]
    x.mul_(3)
    inner.backward()
    assert w.grad.tolist() == [[0.0, 0.0], [3.0, 0.0]]


def test_a_view_of_a_plain_tensor_gets_a_history():  # spec 2.6 2.8
    w = leaf(2)
    x = stowgrad.ones(2, 2, dtype=np.float64)
    row, other = x[0], x[1]
    row.mul_(w)
    assert (row.requires_grad, other.requires_grad, x.requires_grad) == (True, True, True)
    (row * 2 + other).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_what_was_computed_before_keeps_the_older_history():  # spec 2.8
    w = leaf(2)
    x = w * 2
    y = x + 1
    part = x[:1]
    z = part + 1
    x.mul_(10)
    (y.sum() + z.sum()).backward()
    assert w.grad.tolist() == [4.0, 2.0]


def test_a_write_under_no_grad_leaves_the_history_of_views():  # spec 2.8
    w = leaf(2)
    x = w * 2
    part = x[:1]
    with stowgrad.no_grad():
        x.mul_(0)
    part.sum().backward()
    assert w.grad.tolist() == [2.0, 0.0]


def test_retain_grad_of_a_view_moves_with_it():  # spec 7.28
    w = leaf(2)
    x = w * 2
    part = x[:1]
    part.retain_grad()
    x.mul_(3)
    (part * 7).sum().backward()
    assert part.grad.tolist() == [7.0]


def test_the_parts_of_a_split_know_of_a_write_to_their_base():  # spec 2.9 turned: PyTorch refuses to make them again
    w = leaf(4)
    x = w * 1
    first, second = x.split(2)
    x.mul_(stowgrad.tensor([1.0, 2.0, 3.0, 4.0], dtype=np.float64))
    (first.sum() + 10 * second.sum()).backward()
    assert w.grad.tolist() == [1.0, 2.0, 30.0, 40.0]


def test_a_view_whose_base_got_other_memory_is_left_alone():  # spec 2.3 turned by P16
    w = leaf(2)
    x = w * 2
    part = x[:1]
    x.data = stowgrad.ones(2, dtype=np.float64)
    x.mul_(3)
    part.mul_(5)
    assert (part.tolist(), x.tolist()) == ([10.0], [3.0, 3.0])
    part.sum().backward()
    assert w.grad.tolist() == [10.0, 0.0]


def test_many_views_come_and_go():
    w = leaf(50)
    x = w * 1
    kept = [x[number] for number in range(0, 50, 5)]
    for number in range(50):
        assert x[number].item() == number + 1
    x.mul_(2)
    stowgrad.stack(kept).sum().backward()
    assert w.grad.tolist() == [2.0 if number % 5 == 0 else 0.0 for number in range(50)]


# -- what must not be written ------------------------------------------------------------------------------------------

MULTI = {"split": lambda x: x.split(2)[0], "chunk": lambda x: x.chunk(2)[0], "unbind": lambda x: x.unbind()[0]}


@pytest.mark.parametrize("views", MULTI.values(), ids=MULTI.keys())
def test_one_of_several_views_is_not_written(views):  # spec 2.9
    x = leaf(4, 2) * 1
    for part in (views(x), views(x)[:1]):
        with pytest.raises(RuntimeError, match="returns multiple views"):
            part.mul_(2)
    assert x._version == 0
    with stowgrad.no_grad():
        views(x).mul_(2)


def test_one_of_several_views_is_written_where_nothing_requires_grad():  # spec 2.9
    x = stowgrad.ones(4)
    x.split(2)[0].mul_(2)
    assert x.tolist() == [2.0, 2.0, 1.0, 1.0]


MODES = [(stowgrad.no_grad, "created in no_grad mode"), (stowgrad.inference_mode, "created in inference mode")]


@pytest.mark.parametrize("base", [leaf(4), leaf(4) * 1], ids=["leaf", "result"])
@pytest.mark.parametrize(("mode", "words"), MODES, ids=["no_grad", "inference_mode"])
def test_a_view_made_without_recording_is_not_written(base, mode, words):  # spec 2.10
    with mode():
        part, (other, _) = base[:2], base.split(2)
        part.mul_(1)
    for view in (part, part[:1], other):
        with pytest.raises(RuntimeError, match=words):
            view.mul_(2)


def test_a_view_of_a_plain_tensor_made_under_no_grad_takes_no_history():  # spec 2.10
    with stowgrad.no_grad():
        part = stowgrad.ones(2)[:1]
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        part.mul_(stowgrad.ones(1, requires_grad=True))
    part.mul_(2)


def test_views_of_whole_numbers_are_written():  # spec 2.9 2.10: nothing is recorded
    x = stowgrad.zeros(4, dtype=np.int64)
    with stowgrad.no_grad():
        hidden = x[:1]
    for view in (hidden, x.split(2)[1]):
        view.copy_(stowgrad.ones(1, requires_grad=True))
    assert x.tolist() == [1, 0, 1, 1]


def test_a_view_made_under_no_grad_does_not_hide_a_write_to_its_base():  # spec 2.10: PyTorch raises at its next use
    w = leaf(2)
    x = w * 1
    with stowgrad.no_grad():
        part = x[:1]
    x.mul_(w)
    assert part.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        (part * 2).sum().backward()


class Sliced(Function):
    """Views of its input, and the input itself."""

    @staticmethod
    def forward(ctx, x, parts):
        ctx.shape = x.shape
        found = (x[:1], x[1:])[:parts]
        return (found if parts > 1 else found[0]) if parts else x

    @staticmethod
    def backward(ctx, *grads):
        return stowgrad.ones(*ctx.shape, dtype=np.float64), None


@pytest.mark.parametrize(("parts", "words"), [(0, "custom Function"), (1, "custom Function"), (2, "multiple views")])
def test_a_view_that_a_function_returned_is_not_written(parts, words):  # spec 2.11
    out = Sliced.apply(leaf(3) * 1, parts)
    with pytest.raises(RuntimeError, match=words):
        (out[0] if parts > 1 else out).mul_(2)


def test_a_view_that_a_function_returned_does_not_hide_a_write_to_its_base():  # spec 2.11
    x = leaf(3) * 1
    out = Sliced.apply(x, 1)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="custom Function"):
        out.sum().backward()


@pytest.mark.parametrize("how", [lambda x: x.expand(3, 2), lambda x: x[None].expand(3, -1)[1:]])
def test_memory_that_overlaps_is_not_written(how):  # spec 2.12
    x = leaf(2) * 1
    with pytest.raises(RuntimeError, match="single memory location"):
        how(x).mul_(2)
    assert x._version == 0


# -- views of leaves ---------------------------------------------------------------------------------------------------


def test_a_view_of_a_leaf_made_under_no_grad_requires_grad_like_it():  # spec 1.17
    x = leaf(2)
    with stowgrad.no_grad():
        part, other = x[:1], x * 2
    assert (part.requires_grad, part.is_leaf) == (True, True)
    assert not other.requires_grad


def test_a_copy_is_no_view():
    x = leaf(3, 4)
    assert x.t().reshape(12)._base is None
    assert not x.t().reshape(12)._is_view()


# -- lifetime ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def write_everything(x, w):
    """Writes of every kind."""
    x.mul_(w).sin_()
    row, turned = x[0], x.t()
    row.cos_()
    turned[1:].copy_(w.t()[1:])
    x[:, [0, 2]] = w[:, :2]
    x.masked_fill_(x > 1, w[0, 0])
    turned.exp_()
    return (x * turned.t()).sum()


@pytest.mark.parametrize("hooks", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_graphs_of_writes_are_freed_by_reference_count(without_gc, hooks, backward):  # P9, spec 3.5
    w = stowgrad.ones(64, 64, requires_grad=True)

    def step():
        if hooks:
            with saved_tensors_hooks(lambda t: t, lambda t: t):
                loss = write_everything(w * 0.5, w)
        else:
            loss = write_everything(w * 0.5, w)
        if backward:
            loss.backward()
            w.grad = None

    step()
    before = memory_allocated()
    for _ in range(20):
        step()
    assert memory_allocated() == before


def test_a_write_over_a_saved_input_makes_no_cycle(without_gc):  # P9, spec 3.1
    w = stowgrad.ones(64, 64, requires_grad=True)
    before = memory_allocated()
    for _ in range(20):
        h = w * 2
        y = h * h
        h.add_(y)
        del h, y
    assert memory_allocated() == before


def test_a_base_does_not_hold_its_views(without_gc):
    x = leaf(2) * 1
    part = x[:1]
    gone = weakref.ref(part)
    x.mul_(2)
    del part
    assert gone() is None


def test_what_a_write_through_a_view_saved_is_freed_after_the_pass():  # spec 3.10
    x = leaf(2) * 1
    x[:1].exp_()
    node = x.grad_fn
    x.sum().backward(retain_graph=True)
    assert node.saved_variables is not None
    x.sum().backward()
    assert node.saved_variables is None
    with pytest.raises(RuntimeError, match="second time"):
        x.sum().backward()


def test_a_long_chain_of_writes_needs_no_recursion():  # P17
    w = leaf(2)
    x = w * 1
    for _ in range(20_000):
        x[:1].add_(1)
    x.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_a_long_chain_of_views_needs_no_recursion():  # P17
    x = leaf(2, 2)
    y = x
    for _ in range(20_000):
        y = y.t()
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
