"""Versions, and writing in place."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import grad
from stowgrad.saved_tensors import saved_tensors_hooks

WRITES = {
    "add_": lambda t: t.add_(1),
    "sub_": lambda t: t.sub_(1),
    "mul_": lambda t: t.mul_(2),
    "div_": lambda t: t.div_(2),
    "copy_": lambda t: t.copy_(stowgrad.ones(2)),
    "copy_ of itself": lambda t: t.copy_(t),
    "add_ of 0": lambda t: t.add_(0),
    "fill_": lambda t: t.fill_(3),
    "zero_": lambda t: t.zero_(),
    "normal_": lambda t: t.normal_(),
    "uniform_": lambda t: t.uniform_(),
    "setitem": lambda t: t.__setitem__(0, 5.0),
    "iadd": lambda t: t.__iadd__(1),
    "imul": lambda t: t.__imul__(2),
    "isub": lambda t: t.__isub__(2),
    "itruediv": lambda t: t.__itruediv__(2),
    "ipow": lambda t: t.__ipow__(2),
    "pow_": lambda t: t.pow_(2),
    "neg_": lambda t: t.neg_(),
    "abs_": lambda t: t.abs_(),
    "square_": lambda t: t.square_(),
    "sqrt_": lambda t: t.sqrt_(),
    "reciprocal_": lambda t: t.reciprocal_(),
    "exp_": lambda t: t.exp_(),
    "log_": lambda t: t.log_(),
    "sin_": lambda t: t.sin_(),
    "cos_": lambda t: t.cos_(),
    "tanh_": lambda t: t.tanh_(),
    "sigmoid_": lambda t: t.sigmoid_(),
    "relu_": lambda t: t.relu_(),
    "masked_fill_": lambda t: t.masked_fill_(t > 0, 2.0),
    "fill_ with a tensor": lambda t: t.fill_(stowgrad.tensor(3.0)),
    "setitem of a slice": lambda t: t.__setitem__(slice(None), 5.0),
    "setitem of a list": lambda t: t.__setitem__([0, 1], 5.0),
    "setitem of a mask": lambda t: t.__setitem__(t > 0, 5.0),
}
every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


def test_a_version_starts_at_zero():  # spec 2.1
    assert stowgrad.ones(2)._version == 0


@every_write
def test_a_write_counts_once(write):  # spec 2.1
    x = stowgrad.ones(2)
    write(x)
    assert x._version == 1


@pytest.mark.parametrize("write", [lambda t: t.copy_(t), lambda t: t.add_(0), lambda t: t.mul_(1)])
def test_a_write_that_changes_no_value_counts(write):  # spec 2.2
    x = stowgrad.ones(2)
    write(x)
    assert x._version == 1


@every_write
def test_a_write_counts_under_no_grad(write):  # spec 2.1
    x = stowgrad.ones(2, requires_grad=True)
    with stowgrad.no_grad():
        write(x)
    assert x._version == 1


@pytest.mark.parametrize(
    "alias",
    [lambda t: t.detach(), lambda t: t.data, lambda t: t.view(2, 1), lambda t: t[:1], lambda t: t.expand(3, 2)],
    ids=["detach", "data", "view", "slice", "expand"],
)
def test_aliases_share_the_version(alias):  # spec 2.1, P16: `.data` too
    x = stowgrad.ones(2)
    other = alias(x)
    x.add_(1)
    assert other._version == 1


def test_a_write_through_a_view_counts_for_the_base():  # spec 2.1
    x = stowgrad.ones(2)
    x[:1].add_(1)
    assert (x._version, x.tolist()) == (1, [2.0, 1.0])


def test_a_copy_has_a_version_of_its_own():  # spec 2.1
    x = stowgrad.ones(2)
    x.add_(1)
    assert x.clone()._version == 0


def test_assigning_data_counts():  # spec 2.3 turned by P16
    x = stowgrad.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    x.data = stowgrad.ones(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@every_write
def test_a_leaf_that_requires_grad_is_not_written(write):  # spec 2.5
    x = stowgrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad.*in-place"):
        write(x)
    assert (x._version, x.tolist()) == (0, [1.0, 1.0])


@every_write
def test_a_view_of_such_a_leaf_is_not_written(write):  # spec 2.5
    x = stowgrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"a view of a leaf Variable"):
        write(x.view(2))
    assert (x._version, x.tolist()) == (0, [1.0, 1.0])


def test_a_view_of_such_a_leaf_is_written_under_no_grad():  # spec 2.5
    x = stowgrad.ones(2, requires_grad=True)
    with stowgrad.no_grad():
        x[:1].add_(1)
    assert x.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("size", [2, 3000])
def test_using_a_changed_value_is_an_error(size):  # spec 2.15
    x = stowgrad.ones(size, requires_grad=True)
    h = x * 2
    y = h * h
    with stowgrad.no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        y.sum().backward()
    for words in ("float32", str([size]), "output 0 of MulBackward0", "version 1", "expected version 0"):
        assert words in str(caught.value)


def test_a_changed_output_is_an_error():  # spec 2.15
    y = stowgrad.ones(2, requires_grad=True).exp()
    with stowgrad.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match=r"output 0 of ExpBackward0.*version 1; expected version 0"):
        y.sum().backward()


def test_the_check_is_at_use_not_at_the_change():  # spec 2.15
    x = stowgrad.ones(2, requires_grad=True)
    h = x * 2
    y = h * h
    with stowgrad.no_grad():
        h.add_(1)
    h.sum().backward()  # does not use the changed value
    assert x.grad.tolist() == [2.0, 2.0]
    assert y.grad_fn is not None


def test_a_change_of_what_nobody_saved_is_no_error():  # spec 2.15
    x = stowgrad.ones(2, requires_grad=True)
    h = x * 2
    y = h + 1
    with stowgrad.no_grad():
        h.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_change_through_memory_that_a_numpy_user_handed_in_twice():  # spec P1: one storage, one version
    array = np.ones(2, np.float32)
    x = stowgrad.from_numpy(array)
    w = stowgrad.ones(2, requires_grad=True)
    y = (w * x).sum()
    stowgrad.from_numpy(array).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_expanded_tensor_is_not_written():  # spec 2.12
    x = stowgrad.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


def test_a_write_does_not_widen_its_target():  # spec 2.14
    x = stowgrad.ones(2, dtype=np.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.add_(1.5)
    assert (x.tolist(), x._version) == ([1, 1], 0)


@pytest.mark.parametrize("other", [(3,), (2, 2)])
def test_a_write_does_not_change_the_shape(other):
    x = stowgrad.ones(2)
    with pytest.raises(RuntimeError, match="shape"):
        x.add_(stowgrad.ones(*other))
    assert x._version == 0


def test_a_write_from_another_device_is_refused():
    x = stowgrad.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        x.add_(stowgrad.ones(2, device="sim:0"))


OVERLAPPING = {
    "add_": (lambda t: t.add_(t.t()), lambda a: a + a.T),
    "mul_": (lambda t: t.mul_(t.t()), lambda a: a * a.T),
    "copy_": (lambda t: t.copy_(t.t()), lambda a: a.T),
    "setitem": (lambda t: t.__setitem__(slice(1, None), t[:-1]), lambda a: np.concatenate([a[:1], a[:-1]])),
}


@pytest.mark.parametrize(("write", "expected"), OVERLAPPING.values(), ids=OVERLAPPING.keys())
@pytest.mark.parametrize("size", [3, 300])
def test_a_target_may_overlap_the_operand(write, expected, size):
    values = np.random.default_rng(0).normal(size=(size, size))
    x = stowgrad.tensor(values)
    write(x)
    assert np.array_equal(x.numpy(), expected(values))


def test_a_strided_target_is_written_through():
    x = stowgrad.zeros(70, 70)
    x.t()[::2].add_(stowgrad.arange(70).float())
    expected = np.zeros((70, 70), np.float32)
    expected.T[::2] += np.arange(70)
    assert np.array_equal(x.numpy(), expected)


# -- recorded ----------------------------------------------------------------------------------------------------------


def operands(*shape):
    """A leaf, what is written, and an operand that requires grad."""
    rng = np.random.default_rng(5)
    w = stowgrad.tensor(rng.uniform(0.5, 1.5, shape), requires_grad=True)
    u = stowgrad.tensor(rng.uniform(0.5, 1.5, shape), requires_grad=True)
    return w, w * 1.5, u


def gradients_of(function, size):
    """Gradients of two leaves, with and without ``create_graph``, and of their squares."""
    w, x, u = operands(3, size)
    loss = function(x, u).square().sum()
    plain = grad(loss, (w, u), retain_graph=True, allow_unused=True)
    recorded = grad(loss, (w, u), create_graph=True, allow_unused=True)
    total = sum((g * g).sum() for g in recorded if g is not None)
    second = grad(total, (w, u), allow_unused=True)
    return [np.zeros((3, size)) if g is None else g.detach().numpy() for g in (*plain, *recorded, *second)]


# In place, and the same by other means.
RECORDED = {
    "add_": (lambda x, u: x.add_(u), lambda x, u: x + u),
    "add_ alpha": (lambda x, u: x.add_(u, alpha=3), lambda x, u: x + 3 * u),
    "add_ number": (lambda x, u: x.add_(2), lambda x, u: x + 2),
    "add_ row": (lambda x, u: x.add_(u[0]), lambda x, u: x + u[0]),
    "sub_": (lambda x, u: x.sub_(u), lambda x, u: x - u),
    "mul_": (lambda x, u: x.mul_(u), lambda x, u: x * u),
    "mul_ number": (lambda x, u: x.mul_(2), lambda x, u: x * 2),
    "div_": (lambda x, u: x.div_(u), lambda x, u: x / u),
    "pow_": (lambda x, u: x.pow_(u), lambda x, u: x**u),
    "pow_ number": (lambda x, u: x.pow_(3), lambda x, u: x**3),
    "neg_": (lambda x, u: x.neg_(), lambda x, u: -x),
    "abs_": (lambda x, u: x.neg_().abs_(), lambda x, u: abs(-x)),
    "square_": (lambda x, u: x.square_(), lambda x, u: x.square()),
    "sqrt_": (lambda x, u: x.sqrt_(), lambda x, u: x.sqrt()),
    "reciprocal_": (lambda x, u: x.reciprocal_(), lambda x, u: x.reciprocal()),
    "exp_": (lambda x, u: x.exp_(), lambda x, u: x.exp()),
    "log_": (lambda x, u: x.log_(), lambda x, u: x.log()),
    "sin_": (lambda x, u: x.sin_(), lambda x, u: x.sin()),
    "cos_": (lambda x, u: x.cos_(), lambda x, u: x.cos()),
    "tanh_": (lambda x, u: x.tanh_(), lambda x, u: x.tanh()),
    "sigmoid_": (lambda x, u: x.sigmoid_(), lambda x, u: x.sigmoid()),
    "relu_": (lambda x, u: x.sub_(1).relu_(), lambda x, u: (x - 1).relu()),
    "zero_": (lambda x, u: x.zero_() + u, lambda x, u: x * 0 + u),
    "fill_": (lambda x, u: x.fill_(3.0) * u, lambda x, u: (x * 0 + 3) * u),
    "fill_ tensor": (lambda x, u: x.fill_(u[0, 0]), lambda x, u: x * 0 + u[0, 0]),
    "copy_": (lambda x, u: x.copy_(u), lambda x, u: x * 0 + u),
    "copy_ row": (lambda x, u: x.copy_(u[:1]), lambda x, u: x * 0 + u[:1]),
    "masked_fill_": (lambda x, u: x.masked_fill_(u > 1, 2.0), lambda x, u: stowgrad.where(u > 1, 2.0, x)),
    "masked_fill_ tensor": (
        lambda x, u: x.masked_fill_(u > 1, u[0, 0]),
        lambda x, u: stowgrad.where(u > 1, u[0, 0], x),
    ),
    "several": (lambda x, u: x.mul_(u).sin_().add_(u), lambda x, u: (x * u).sin() + u),
}


@pytest.mark.parametrize("size", [2, 1500])
@pytest.mark.parametrize(("write", "instead"), RECORDED.values(), ids=RECORDED.keys())
def test_a_recorded_write_has_the_gradients_of_the_operation(write, instead, size):  # spec 2.6 2.16
    for got, expected in zip(gradients_of(write, size), gradients_of(instead, size), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11)


def test_a_write_returns_the_tensor_itself():
    _, x, u = operands(2)
    assert x.add_(u) is x
    assert x.grad_fn.name() == "AddBackward0"


def test_a_leaf_that_takes_an_operand_s_gradient_is_a_leaf_no_more():  # spec 2.6
    x = stowgrad.ones(2)
    w = stowgrad.ones(2, requires_grad=True)
    x.mul_(w)
    assert (x.is_leaf, x.requires_grad, x.grad_fn.name()) == (False, True, "MulBackward0")


def test_a_write_of_whole_numbers_is_not_recorded():  # spec 1.4 1.5
    x = stowgrad.zeros(2, dtype=np.int64)
    x.copy_(stowgrad.ones(2, requires_grad=True))
    assert (x.tolist(), x.requires_grad) == ([1, 1], False)


def test_a_write_under_no_grad_changes_no_history():  # spec 2.8
    _, x, u = operands(2)
    before = x.grad_fn
    with stowgrad.no_grad():
        x.add_(u)
    assert x.grad_fn is before


def test_the_operand_that_is_the_target_is_noticed():  # spec 2.16
    y = operands(2)[1]
    y *= y
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_stay_with_the_older_node_and_retain_grad_moves():  # spec 7.28
    w, x, _ = operands(2)
    seen = []
    x.register_hook(lambda g: seen.append(("older", g.tolist())))
    x.retain_grad()
    x.mul_(3)
    x.register_hook(lambda g: seen.append(("newer", g.tolist())))
    x.sum().backward()
    assert seen == [("newer", [1.0, 1.0]), ("older", [3.0, 3.0])]
    assert x.grad.tolist() == [1.0, 1.0]
    assert w.grad.tolist() == [4.5, 4.5]


def test_an_edge_from_before_denotes_the_older_value():  # spec 7.7
    _, x, _ = operands(2)
    edge = stowgrad.autograd.graph.get_gradient_edge(x)
    x.mul_(3)
    assert grad(x.sum(), edge)[0].tolist() == [3.0, 3.0]


def test_a_copy_to_another_device_and_dtype_sends_its_gradient_back():
    w = stowgrad.ones(3, requires_grad=True)
    x = stowgrad.zeros(2, 3, dtype=np.float64, device="sim:0")
    x.copy_(w)
    (x * 2).sum().backward()
    assert (w.grad.tolist(), w.grad.dtype, w.grad.device.type) == ([4.0, 4.0, 4.0], np.float32, "cpu")


def test_an_operand_of_another_dtype_gets_its_gradient_in_its_own():
    w = stowgrad.ones(2, dtype=np.float64, requires_grad=True)
    x = stowgrad.ones(2, requires_grad=True) * 2
    x.mul_(w)
    x.sum().backward()
    assert (w.grad.tolist(), w.grad.dtype, x.dtype) == ([2.0, 2.0], np.float64, np.float32)


def test_a_write_is_refused_for_a_result_of_a_wider_kind():  # spec 2.14
    with pytest.raises(RuntimeError, match="can't be cast"):
        stowgrad.ones(2, dtype=np.int64).exp_()
    with pytest.raises(RuntimeError, match="cannot be converted"):
        stowgrad.ones(2).masked_fill_(stowgrad.ones(2) > 0, 1.5j)


@pytest.mark.parametrize("mask", [stowgrad.ones(2), None, [True, False]], ids=["floats", "nothing", "list"])
def test_only_a_tensor_of_bools_is_a_mask(mask):
    with pytest.raises(RuntimeError, match="boolean masks"):
        stowgrad.ones(2).masked_fill_(mask, 1.0)


def test_masked_fill_leaves_the_tensor_as_it_is():
    w, x, u = operands(4)
    y = x.masked_fill(u > 1, u[0])
    assert x._version == 0
    y.sum().backward()
    masked = (u.detach() > 1).numpy()
    assert np.array_equal(w.grad.numpy(), np.where(masked, 0, 1.5))


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2, lambda x: (x * 2)[1:]])
def test_what_requires_grad_is_not_resized(make):  # spec 2.18
    x = make(stowgrad.ones(2, requires_grad=True))
    for size in (1, 2, 7):
        with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
            x.resize_(size)
        with stowgrad.no_grad(), pytest.raises(RuntimeError, match="require grad"):
            x.resize_(size)
    assert x._version == 0


# -- failing (P3) ------------------------------------------------------------------------------------------------------


class Failure(BaseException):
    """What a pack hook raises: not even an Exception, like Ctrl-C."""


def fail_at(number):
    """A pack hook that fails at its call of that number."""
    calls = []

    def pack(tensor):
        calls.append(tensor)
        if len(calls) > number:
            raise Failure
        return tensor.detach().clone()

    return pack


FAILING = {
    "an output": (0, lambda x, u: x.exp_()),
    "a mask": (0, lambda x, u: x.relu_()),
    "an input": (0, lambda x, u: x.sin_()),
    "the second input": (1, lambda x, u: x.mul_(u)),
    "an output after inputs": (2, lambda x, u: x.pow_(u)),
    "an output, through a view": (0, lambda x, u: x.t()[:1].tanh_()),
    "an output, with strides": (0, lambda x, u: x[:, ::2].sigmoid_()),
}


@pytest.mark.parametrize(("number", "write"), FAILING.values(), ids=FAILING.keys())
@pytest.mark.parametrize("size", [3, 1500])
def test_a_write_that_can_not_be_saved_leaves_everything_as_it_was(number, write, size):  # spec 4.16 turned by P3
    w, x, u = operands(3, size)
    before, node, values = x._version, x.grad_fn, x.detach().numpy().copy()
    with pytest.raises(Failure), saved_tensors_hooks(fail_at(number), lambda t: t):
        write(x, u)
    assert (x._version, x.grad_fn) == (before, node)
    assert np.array_equal(x.detach().numpy(), values)
    x.sum().backward()
    assert np.array_equal(w.grad.numpy(), np.full((3, size), 1.5))


def test_outputs_are_packed_after_they_were_written():  # P2
    _, x, _ = operands(2)
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t.tolist()) or t, lambda t: t):
        x.exp_()
    assert seen == [x.tolist()]


def test_the_former_value_is_packed_with_its_history():  # spec 2.16 4.5
    _, x, _ = operands(2)
    node, values, seen = x.grad_fn, x.tolist(), []
    with saved_tensors_hooks(lambda t: seen.append((t.grad_fn, t.tolist())) or t, lambda t: t):
        x.sin_()
    assert seen == [(node, values)]


# -- detach_ -----------------------------------------------------------------------------------------------------------


def test_detach_in_place_makes_a_leaf():  # spec 1.18
    _, x, _ = operands(2)
    assert x.detach_() is x
    assert (x.is_leaf, x.requires_grad, x.grad_fn) == (True, False, None)


def test_a_view_is_not_detached_in_place():  # spec 1.18
    with pytest.raises(RuntimeError, match="detach views"):
        operands(2)[1][:1].detach_()


@pytest.mark.parametrize("create_graph", [False, True])
def test_detach_in_place_does_not_concern_who_saved_the_tensor(
    create_graph,
):  # spec 2.17 turned by P9: it kept the edge
    w, x, _ = operands(2)
    y = (x * x).sum()
    x.detach_()
    (g,) = grad(y, w, create_graph=create_graph)
    assert np.allclose(g.detach().numpy(), 2 * 1.5**2 * w.detach().numpy())
    if create_graph:
        assert np.allclose(grad(g.sum(), w)[0].numpy(), 2 * 1.5**2)
