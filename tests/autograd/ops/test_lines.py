"""What reductions, scans and sorting keep and need, and points where differences do not help."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import CPU, pool
from stowgrad.saved_tensors import saved_tensors_hooks

MIB = 1 << 20


def kept(function, *arrays):
    """The dtypes and shapes that nodes keep for a function of leaves."""
    found = []

    def pack(tensor):
        found.append((tensor.dtype.name, tuple(tensor.shape)))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*[stowgrad.tensor(array, requires_grad=True) for array in arrays])
    return found


X = np.random.default_rng(0).standard_normal((5, 300))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.sum(1), []),
        (lambda x: x.mean(0), []),
        (lambda x: x.cumsum(1), []),
        (lambda x: x.diff(), []),
        (stowgrad.trapezoid, []),
        (lambda x: x.max(0), [("uint8", (300,))]),
        (lambda x: x.median(1), [("uint16", (5,))]),
        (lambda x: x.sort(0), [("uint8", (5, 300))]),
        (lambda x: x.sort(1), [("uint16", (5, 300))]),
        (lambda x: x.topk(7, 1), [("uint16", (5, 7))]),
        (lambda x: x.cummax(0), [("uint8", (5, 300))]),
        (lambda x: x.softmax(1), [("float64", (5, 300))]),
        (lambda x: x.prod(1), [("float64", (5, 300))]),
        (lambda x: x.cumprod(1), [("float64", (5, 300))]),
        (lambda x: x.amax(1), [("uint8", (188,)), ("float64", (5,))]),
        (lambda x: x.var(1), [("float64", (5, 300)), ("float64", (5,))]),
        (lambda x: x.logsumexp(1), [("float64", (5, 300)), ("float64", (5,))]),
        (
            lambda x: stowgrad.cdist(x, x[:2].detach()),
            [("float64", (5, 300)), ("float64", (2, 300)), ("float64", (5, 2))],
        ),
    ],
)
def test_a_node_keeps_no_more_than_it_needs(function, expected):
    assert kept(function, X) == expected


LARGE = np.random.default_rng(1).standard_normal((2048, 2048)).astype("float32")  # 16 MiB


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.var(1),
        lambda x: x.var(0),
        lambda x: x.std(),
        lambda x: x.logsumexp(1),
        lambda x: x.amax(0),
        lambda x: x.all(1),
        lambda x: x.max(1),
        lambda x: x.median(0),
        lambda x: x.prod(0),
        lambda x: x.norm(dim=1),
    ],
    ids=["var 1", "var 0", "std", "logsumexp", "amax", "all", "max", "median", "prod", "norm"],
)
def test_scratch_does_not_grow_with_the_tensor(function):
    x = stowgrad.tensor(LARGE)
    stowgrad.set_num_threads(2)
    function(x[:64])
    with pool(CPU).peak_scope() as scope:
        result = function(x)
    assert scope.peak_bytes - scope.begin_bytes < 15 * MIB  # tiles of two workers; the tensor has 16 MiB
    assert result is not None


def test_distances_need_no_array_of_all_differences():
    x = stowgrad.tensor(LARGE[:600, :500], requires_grad=True)
    with pool(CPU).peak_scope() as scope:
        stowgrad.cdist(x, x).sum().backward()
    assert scope.peak_bytes - scope.begin_bytes < 30 * MIB  # the differences would have 687 MiB


# -- ties, zeros, and the like -----------------------------------------------------------------------------------------


def gradient(function, values):
    x = stowgrad.tensor(values, requires_grad=True)
    function(x).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.max(), [0.5, 0.0, 0.5]),
        (lambda x: x.amax(0), [0.5, 0.0, 0.5]),
        (lambda x: x.max(0)[0], [1.0, 0.0, 0.0]),
        (lambda x: x.median(), [0.5, 0.0, 0.5]),
        (lambda x: x.cummax(0)[0], [2.0, 0.0, 1.0]),
        (lambda x: x.mode(0)[0], [0.0, 0.0, 1.0]),
        (lambda x: x.topk(1)[0], [1.0, 0.0, 0.0]),
    ],
)
def test_equal_elements(function, expected):
    assert gradient(function, [2.0, 1.0, 2.0]) == expected


def test_the_deviation_of_equal_elements_has_no_slope():
    assert gradient(lambda x: x.std(), [3.0, 3.0, 3.0]) == [0.0, 0.0, 0.0]


def test_log_sums_of_nothing():
    assert gradient(lambda x: x.logsumexp(0), [-np.inf, -np.inf]) == [0.0, 0.0]
    assert stowgrad.zeros(0, 3).logsumexp(0).tolist() == [-np.inf] * 3


def test_nan_gets_no_gradient_of_a_sum_without_it():
    assert gradient(lambda x: x.nansum(0), [1.0, np.nan, 2.0]) == [1.0, 0.0, 1.0]
    assert gradient(lambda x: x.nanmean(), [1.0, np.nan, 2.0]) == [0.5, 0.0, 0.5]


def test_products_of_nothing():
    x = stowgrad.ones(0, 3, requires_grad=True)
    x.prod(0).sum().backward()
    assert (stowgrad.ones(0).prod().item(), x.grad.shape) == (1.0, (0, 3))


def test_named_results_print_their_fields():
    found = stowgrad.tensor([1.0, 3.0]).max(0)
    assert repr(found) == "stowgrad.return_types.max(\nvalues=tensor(3.),\nindices=tensor(1))"
    assert found.values is found[0]
    assert found._fields == ("values", "indices")


def test_running_sums_in_place():
    x = stowgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y.cumsum_(0)
    (y * y).sum().backward()
    assert y.tolist() == [1.0, 3.0, 6.0]
    assert x.grad.tolist() == [20.0, 18.0, 12.0]
