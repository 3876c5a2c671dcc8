"""In-place writes by number: what only they can get wrong (values and gradients are beside PyTorch's in the oracle)."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import CPU, pool

INDEX = np.array([[0, 2, 1], [2, 2, 0]])
X = np.arange(12.0).reshape(3, 4)
SRC = np.linspace(0.5, 3.0, 6).reshape(2, 3)
ROWS = np.array([2, 0])

WRITES = {
    "scatter_": lambda x, i, s: x.scatter_(0, i[:1], s[:1]),
    "scatter_ number": lambda x, i, s: x.scatter_(0, i, 0.5),
    "scatter_ add": lambda x, i, s: x.scatter_(0, i, s, reduce="add"),
    "scatter_add_": lambda x, i, s: x.scatter_add_(0, i, s),
    "scatter_reduce_ prod": lambda x, i, s: x.scatter_reduce_(0, i, s, "prod"),
    "scatter_reduce_ mean": lambda x, i, s: x.scatter_reduce_(0, i, s, "mean", include_self=False),
    "scatter_reduce_ amax": lambda x, i, s: x.scatter_reduce_(0, i, s, "amax", include_self=False),
    "index_add_": lambda x, i, s: x[:, :3].index_add_(0, i[0, :2], s, alpha=2),
    "index_copy_": lambda x, i, s: x[:, :3].index_copy_(0, i[0, :2], s),
    "index_fill_": lambda x, i, s: x.index_fill_(1, i[0], 1.5),
    "index_reduce_": lambda x, i, s: x[:, :3].index_reduce_(0, i[0, :2], s, "amin"),
    "index_put_": lambda x, i, s: x.index_put_((i[0, :2], i[1, :2]), s[0, :2]),
    "index_put_ accumulate": lambda x, i, s: x.index_put_((i[1],), s[0, :1], accumulate=True),
    "put_": lambda x, i, s: x.put_(i, s),
    "masked_scatter_": lambda x, i, s: x.masked_scatter_(x > 10, s),
    "tril_": lambda x, i, s: x.tril_(-1),
    "triu_": lambda x, i, s: x.triu_(1),
}
over_writes = pytest.mark.parametrize("name", WRITES)


def run(name, layout, device="cpu"):
    """The value that a write leaves, and the gradients."""
    write = WRITES[name]
    w = stowgrad.tensor(X if layout == "contiguous" else X.T.copy(), device=device, requires_grad=True)
    s = stowgrad.tensor(SRC, device=device, requires_grad=True)
    x = w * 1.5
    target = x if layout == "contiguous" else x.t()
    write(target, stowgrad.tensor(INDEX, device=device), s * 1)
    assert x._version >= 1
    (target * stowgrad.tensor(np.cos(X), device=device)).sum().backward()
    grads = [t.grad.cpu().numpy() if t.grad is not None else None for t in (w, s)]
    return target.detach().cpu().numpy(), grads[0] if layout == "contiguous" else grads[0].T, grads[1]


@over_writes
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_write_is_that_of_the_copying_form(name, layout, device):
    if name in ("tril_", "triu_") and layout == "transposed":
        pytest.skip("no index is involved")
    for found, expected in zip(run(name, layout, device), run(name, "contiguous"), strict=True):
        if expected is None:
            assert found is None
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_tensor_may_be_written_into_itself():
    x = stowgrad.tensor([1.0, 2.0, 3.0])
    x.scatter_add_(0, stowgrad.tensor([0, 0, 0]), x)
    assert x.tolist() == [7.0, 2.0, 3.0]
    x.index_copy_(0, stowgrad.tensor([2, 1, 0]), x)
    assert x.tolist() == [3.0, 2.0, 7.0]


@over_writes
def test_a_leaf_is_not_written(name):
    x = stowgrad.tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        WRITES[name](x, stowgrad.tensor(INDEX), stowgrad.tensor(SRC))
    assert (x._version, x.tolist()) == (0, X.tolist())


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.scatter_(0, stowgrad.tensor([[3]]), 1.0),
        lambda x: x.scatter_add_(1, stowgrad.tensor([[-1]]), x[:1, :1]),
        lambda x: x.index_add_(0, stowgrad.tensor([3]), x[:1]),
        lambda x: x.index_copy_(0, stowgrad.tensor([0, 1]), x[:1]),
        lambda x: x.masked_scatter_(x >= 0, x[0]),
        lambda x: x.put_(stowgrad.tensor([12]), x[0, :1]),
        lambda x: x.scatter_reduce_(0, stowgrad.tensor([[0]]), x, "median"),
    ],
)
def test_what_does_not_fit_changes_nothing(write):
    x = stowgrad.tensor(X)
    with pytest.raises((RuntimeError, IndexError)):
        write(x)
    assert x.tolist() == X.tolist()


def test_a_row_write_needs_no_copy_of_the_tensor():
    x = stowgrad.zeros(1000, 1000)
    index, rows = stowgrad.tensor(ROWS), stowgrad.ones(2, 1000)
    used = pool(CPU).used_bytes()
    with pool(CPU).peak_scope() as scope:
        x.index_add_(0, index, rows)
    assert scope.peak_bytes - used < 1 << 20


def test_folds_alone_keep_values():
    x, src, index = (stowgrad.tensor(a, requires_grad=a.dtype == float) for a in (X, SRC, INDEX))
    kept = {}
    for name in ("sum", "amax"):
        node = x.scatter_reduce(0, index, src, name).grad_fn
        kept[name] = [variable is not None for variable in node.saved_variables]
    assert kept == {"sum": [True], "amax": [True, True, True, True]}


def test_an_index_is_kept_as_it_is():
    x, index = stowgrad.tensor(X, requires_grad=True), stowgrad.tensor([2, 0])
    for made in (x[index], x[:, index], x.index_select(1, index), x.index_add(0, index, x[:2])):
        node = made.grad_fn
        while not node.saved_variables:
            node = node.next_functions[0][0]
        (variable,) = [variable for variable in node.saved_variables if variable is not None]
        assert variable.storage is index._storage


def test_several_indices_are_kept_as_they_are():  # broadcast to each other they would be larger than the result
    x = stowgrad.tensor(X, requires_grad=True)
    rows, columns = stowgrad.tensor([[2], [0]]), stowgrad.tensor([1, 0, 3])
    y = x * 1
    y[rows, columns] = x[0, 0]
    read, written = x[rows, columns].grad_fn, y.grad_fn
    for node in (read, written):
        assert [variable.storage for variable in node.saved_variables] == [rows._storage, columns._storage]
