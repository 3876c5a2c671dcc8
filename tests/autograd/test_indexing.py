"""Index keys of all forms, read and written, beside PyTorch's rules as NumPy can say them."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import grad

VALUES = np.arange(24.0).reshape(2, 3, 4)
MASK = VALUES[0] % 5 < 2
# A key for a tensor of shape (2, 3, 4), and the same for NumPy if its rules differ.
KEYS = {
    "integer": (1, None),
    "slices": ((slice(None), slice(1, None), slice(None, None, 2)), None),
    "backwards": ((..., slice(None, None, -1)), None),
    "ellipsis": ((..., 2), None),
    "new dimension": ((None, 0, None), None),
    "element": ((1, 2, 3), None),
    "numpy integer": (np.int64(1), None),
    "list": ([1, 0], None),
    "negative list": ([-1], None),
    "array": (np.array([[0, 1], [1, 0]]), None),
    "no dimension": (np.array(1), None),
    "empty list": ([], None),
    "second dimension": ((slice(None), [2, 0]), None),
    "last dimension": ((..., [3, 1]), None),
    "two lists": (([1, 0], [2, 0]), None),
    "two lists, broadcast": (([[1], [0]], [2, 0, 1]), None),
    "lists apart": (([1, 0], slice(None), [2, 0]), None),
    "list and integer": ((slice(None), 1, [2, 0]), None),
    "integer and list, apart": ((0, slice(None), [2, 0]), (0,)),
    "list and new dimension": (([1, 0], None, [2, 0]), None),
    "list and slice": (([1, 0], slice(0, 2)), None),
    "mask of all": (VALUES % 5 < 2, None),
    "mask of the first": (np.array([False, True]), None),
    "mask of the last two": ((slice(None), MASK), None),
    "mask of the middle": ((slice(None), np.array([True, False, True])), None),
    "true": (True, None),
    "false": (False, None),
    "bool without dimensions": (np.array(True), None),
    "mask and list": ((np.array([True, True]), slice(None), [2, 0]), None),
}
every_key = pytest.mark.parametrize("name", KEYS)


def keyed(name, array):
    """What NumPy selects."""
    key, first = KEYS[name]
    # PyTorch applies an integer first; NumPy takes it for an array beside others.
    return array[first][key[1:]] if first is not None else array[key]


def as_tensors(key):
    """Arrays in a key as tensors."""
    if isinstance(key, tuple):
        return tuple(as_tensors(part) for part in key)
    return stowgrad.tensor(key) if isinstance(key, np.ndarray) else key


@every_key
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_key_selects(name, device):
    x = stowgrad.tensor(VALUES, device=device)
    expected = keyed(name, VALUES)
    for key in (KEYS[name][0], as_tensors(KEYS[name][0])):
        assert np.array_equal(x[key].cpu().numpy(), expected)


@every_key
def test_a_selection_has_gradients(name):
    x = stowgrad.tensor(VALUES, requires_grad=True)
    (x[KEYS[name][0]] ** 2).sum().backward()
    expected = np.zeros_like(VALUES)
    numbers = keyed(name, np.arange(24).reshape(VALUES.shape))
    np.add.at(expected.reshape(-1), numbers, (2 * VALUES.reshape(-1))[numbers])
    assert np.array_equal(x.grad.numpy(), expected)


def test_a_selection_sums_what_comes_twice():
    x = stowgrad.tensor(VALUES, requires_grad=True)
    x[[0, 0, 1], [1, 1, 1]].sum().backward()
    assert x.grad[0, 1].tolist() == [2.0] * 4
    assert x.grad[1, 1].tolist() == [1.0] * 4


@every_key
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("kind", ["number", "tensor", "row", "long lead"])
def test_a_key_is_written(name, kind, device):  # spec 2.6 2.7
    w = stowgrad.tensor(VALUES, device=device, requires_grad=True)
    x = w * 2
    numbers = keyed(name, np.arange(24).reshape(VALUES.shape))
    full = numbers.shape
    shape = {"number": (), "tensor": full, "row": full[-1:], "long lead": (1, 1, *full)}[kind]
    u = stowgrad.tensor(np.arange(100.0, 100.0 + np.prod(shape)).reshape(shape), device=device, requires_grad=True)
    x[KEYS[name][0]] = 5.0 if kind == "number" else u
    expected = VALUES.reshape(-1) * 2
    expected[numbers] = 5.0 if kind == "number" else u.detach().cpu().numpy().reshape(shape[-numbers.ndim or 9 :])
    assert np.array_equal(x.detach().cpu().numpy().reshape(-1), expected)
    assert x._version == 1
    weights = np.arange(1.0, 25.0).reshape(VALUES.shape)
    (x * stowgrad.tensor(weights, device=device)).sum().backward()
    left = 2 * weights.reshape(-1)
    left[numbers] = 0
    assert np.array_equal(w.grad.cpu().numpy().reshape(-1), left)
    if kind != "number":
        received = weights.reshape(-1)[numbers]
        axes = tuple(range(max(received.ndim - len(shape), 0)))
        assert np.array_equal(u.grad.cpu().numpy(), received.sum(axes).reshape(shape))


@every_key
def test_second_derivatives_of_a_written_key(name):
    w = stowgrad.tensor(VALUES + 1, requires_grad=True)
    x = w * 1
    x[KEYS[name][0]] = w[KEYS[name][0]] ** 3
    (g,) = grad(x.sum(), w, create_graph=True)
    (second,) = grad(g.sum(), w)
    where = np.zeros(24)
    # A place that is written twice sends its gradient to both values.
    np.add.at(where, keyed(name, np.arange(24).reshape(VALUES.shape)), 1)
    assert np.allclose(second.numpy().reshape(-1), where * 6 * (VALUES + 1).reshape(-1))


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (1.5, "valid indices"),
        ("a", "valid indices"),
        (([0], 1.5), "valid indices"),
        (([0], [0], [0], [0]), "too many indices"),
        (([0], [3]), "out of bounds"),
        (([0], [-4]), "out of bounds"),
        (([0, 1], [0, 1, 2]), "could not be broadcast"),
        ((slice(None), np.array([True, False])), "mask"),
        ((slice(None), stowgrad.tensor([0.5])), "integer or bool"),
        (9, "index 9"),
    ],
)
def test_a_key_that_does_not_fit_is_an_error(key, words):
    x = stowgrad.tensor(VALUES)
    with pytest.raises(IndexError, match=words):
        x[key]
    with pytest.raises(IndexError, match=words):
        x[key] = 1.0
    assert x._version == 0


@pytest.mark.parametrize("key", [0, [0, 1], (slice(None), [0, 1]), VALUES > 3])
def test_a_value_that_does_not_fit_is_an_error(key):
    x = stowgrad.tensor(VALUES)
    with pytest.raises(RuntimeError, match=r"shape|size"):
        x[key] = stowgrad.ones(5, dtype=np.float64)
    assert (x._version, x.tolist()) == (0, VALUES.tolist())


@pytest.mark.parametrize("value", [[1, 2, 3, 4], np.arange(1, 5), stowgrad.arange(1, 5)])
def test_a_value_is_cast_under_a_basic_key(value):
    x = stowgrad.tensor(VALUES)
    x[0, 1] = value
    assert x[0, 1].tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("key", [([0], [1]), VALUES > 3])
def test_a_tensor_of_another_dtype_is_not_written_under_an_advanced_key(key):
    x = stowgrad.tensor(VALUES)
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[key] = stowgrad.tensor(1)
    x[key] = [1]
    assert np.all(x[key].numpy() == 1)


def test_a_selection_of_the_tensor_itself_may_be_written_to_it():
    x = stowgrad.tensor(VALUES)
    x[[1, 0]] = x
    assert np.array_equal(x.numpy(), VALUES[::-1])


@pytest.mark.parametrize("value", [None, "a", {}, [None] * 3], ids=str)
@pytest.mark.parametrize("key", [0, [True, False]], ids=["basic", "mask"])
def test_what_is_no_number_is_not_assigned(key, value):
    x = stowgrad.zeros(2, 3)
    with pytest.raises(TypeError, match="expected numbers or bools"):
        x[key] = value
    assert x.tolist() == [[0.0] * 3] * 2


def test_what_is_no_number_is_refused_elsewhere():
    x = stowgrad.zeros(3)
    for call in (
        lambda: x.fill_(None),
        lambda: stowgrad.isin(x, None),
        lambda: stowgrad.where(x > 0, x, None),
        lambda: stowgrad.where(x > 0, None, x),
    ):
        with pytest.raises(TypeError, match="expected"):
            call()
    assert x._version == 0
