"""Versions, and writing in place."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad

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
}
every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


def test_a_version_starts_at_zero():  # spec 2.1
    assert stowgrad.ones(2)._version == 0


@every_write
def test_a_write_counts_once(write):  # spec 2.1 2.2
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


def test_assigning_data_counts():  # P16 over 2.3
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
