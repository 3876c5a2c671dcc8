"""How gradients come to lie in `.grad`, and with whom they share memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import grad
from stowgrad.autograd.values import OnArrays

from .ops.cases import CASES

SIZES = pytest.mark.parametrize("size", [3, 3000])


def leaf(size=3):
    return stowgrad.ones(size, requires_grad=True)


def shares(x, y):
    return np.shares_memory(x._array, y._array)


@pytest.fixture(autouse=True)
def no_collection_in_between():
    """Garbage of other tests must not be freed while this one compares what is allocated."""
    enabled = gc.isenabled()
    gc.disable()
    yield
    if enabled:
        gc.enable()


@SIZES
def test_grad_is_not_the_user_s_seed(size):  # P16, spec 7.17 7.18
    x, seed = leaf(size), stowgrad.ones(size)
    x.backward(seed)
    assert not shares(x.grad, seed)


@SIZES
@pytest.mark.parametrize(
    "view",
    [lambda x: x.view(1, -1), lambda x: x.clone(), lambda x: x + 0.0, lambda x: x.unsqueeze(0), lambda x: x.flatten()],
    ids=["view", "clone", "add", "unsqueeze", "flatten"],
)
def test_grad_is_not_the_user_s_seed_through_views(size, view):  # spec 7.18 turned by P16
    x = leaf(size)
    y = view(x)
    seed = stowgrad.ones(*y.shape)
    y.backward(seed)
    x.grad.mul_(0)
    assert seed.numpy().all()


@SIZES
def test_two_leaves_do_not_share_their_grad(size):  # P16
    x, w = leaf(size), leaf(size)
    (x + w).exp().sum().backward()
    assert not shares(x.grad, w.grad)


@SIZES
def test_grad_is_not_what_a_hook_was_given(size):  # P16
    given = []
    x = leaf(size)
    x.register_hook(given.append)
    (x * 2).sum().backward()
    assert not shares(x.grad, given[0])


@SIZES
def test_grad_is_not_what_a_hook_returned(size):  # P16
    mine = stowgrad.ones(size)
    x = leaf(size)
    x.register_hook(lambda g: mine)
    (x * 2).sum().backward()
    assert not shares(x.grad, mine)


@SIZES
def test_grad_is_not_what_retain_grad_kept(size):  # P16
    x = leaf(size)
    h = x.view(-1)
    h.retain_grad()
    (h * 2).sum().backward()
    assert not shares(x.grad, h.grad)


@SIZES
def test_grad_is_not_what_a_function_s_backward_keeps(size):  # P16
    mine = stowgrad.ones(size)

    class Gives(stowgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return mine

    x = leaf(size)
    Gives.apply(x).sum().backward()
    assert not shares(x.grad, mine)


@SIZES
def test_what_grad_returned_does_not_change_later(size):  # spec 7.4
    x = leaf(size)
    y = (x * 2).sum()
    (found,) = grad(y, x, retain_graph=True)
    y.backward()
    y = (x * 2).sum().backward()
    assert found.tolist() == [2.0] * size


@SIZES
def test_a_saved_value_is_not_overwritten_by_sums(size):  # a sum in place must not reach what a node keeps
    x = leaf(size)
    y = x * 2
    z = y * y  # saves y
    (z + y + z).sum().backward(retain_graph=True)
    first = x.grad.tolist()
    x.grad = None
    (z + y + z).sum().backward()
    assert x.grad.tolist() == first == [18.0] * size


def test_a_seed_used_by_two_edges_is_not_overwritten():
    x, seed = leaf(), stowgrad.ones(3)
    (x + x).backward(seed)
    assert (x.grad.tolist(), seed.tolist()) == ([2.0] * 3, [1.0] * 3)


@SIZES
def test_later_gradients_are_added_in_place(size):  # spec 7.19
    x = leaf(size)
    (x * 2).sum().backward()
    first, array = x.grad, x.grad._array
    (x * 3).sum().backward()
    assert x.grad is first
    assert x.grad._array is array
    assert x.grad.tolist() == [5.0] * size


def test_adding_in_place_counts_as_a_write():  # spec 7.19 2.1
    x = leaf()
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad._version == 1


def test_under_create_graph_they_are_added_out_of_place():  # spec 7.19
    x = leaf()
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert (first.tolist(), x.grad.tolist()) == ([2.0] * 3, [4.0] * 3)
    x.grad = None


@SIZES
def test_an_expanded_grad_is_not_written_in_place(size):
    x = leaf(size)
    x.grad = stowgrad.zeros(1).expand(size)
    (x * stowgrad.arange(size).float()).sum().backward()
    assert x.grad.tolist() == list(range(size))


@SIZES
def test_a_strided_grad_is_written_in_place(size):
    x = leaf(size)
    backing = stowgrad.zeros(size, 2)
    x.grad = backing[:, 1]
    (x * 3).sum().backward()
    assert backing.numpy()[:, 1].tolist() == [3.0] * size
    assert not backing.numpy()[:, 0].any()


def test_grad_of_a_transposed_use_is_contiguous():  # spec 7.17
    x = stowgrad.ones(40, 50, requires_grad=True)
    (x.t() * 2).sum().backward()
    assert x.grad.is_contiguous()


def test_an_expanded_gradient_is_stored_in_full():  # spec 7.17
    x = leaf()
    x.sum().backward()
    assert x.grad.stride() == (1,)


def test_grad_is_counted_as_a_gradient():
    before = stowgrad.memory.pool("cpu").bytes_by_category()["gradient"]
    x = stowgrad.ones(5000, requires_grad=True)
    (x * 2).sum().backward()
    assert stowgrad.memory.pool("cpu").bytes_by_category()["gradient"] - before == 20000


def test_turning_requires_grad_off_stops_accumulation():  # spec 7.20
    x, w = leaf(), leaf()
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    assert w.grad is not None


def test_a_leaf_used_many_times_gets_one_sum():
    x = leaf()
    (x * x * x + x).sum().backward()
    assert x.grad.tolist() == [4.0] * 3


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_grad_has_the_dtype_of_the_leaf(dtype):
    x = stowgrad.ones(3, dtype=np.dtype(dtype), requires_grad=True)
    (x * leaf()).sum().backward()
    assert x.grad.dtype == np.dtype(dtype)


def test_bfloat16_gradients_stay_bfloat16():
    x = stowgrad.ones(3).bfloat16().requires_grad_()
    ((x * 2.0) * x).tanh().sum().backward()
    assert x.grad.dtype == x.dtype


def test_gradients_come_back_to_the_device_of_the_leaf(device):
    x = stowgrad.ones(3, device=device, requires_grad=True)
    (x.cpu() * 2).sum().backward()
    assert str(x.grad.device) == device


def test_gradients_on_a_device(device):
    x = stowgrad.ones(3000, device=device, requires_grad=True)
    ((x * 2).exp() + x).sum().backward()
    assert np.allclose(x.grad.cpu().numpy(), 2 * np.exp(2.0) + 1)


def test_operands_on_two_devices_are_refused():
    with pytest.raises(RuntimeError, match=r"same device.*cpu and sim:0"):
        leaf() * stowgrad.ones(3, device="sim:0")


@pytest.mark.parametrize("other", ["text", None, object()])
def test_operands_of_other_kinds_are_refused(other):
    with pytest.raises(TypeError, match="expected Tensors or numbers"):
        leaf() * other


def test_shapes_that_do_not_meet_are_refused():
    with pytest.raises(RuntimeError, match=r"\[3\] and \[2\] do not broadcast"):
        leaf() * stowgrad.ones(2)


@pytest.mark.parametrize("other", [None, "text"])
def test_a_tensor_is_not_equal_to_other_kinds(other):
    x = leaf()
    assert (x == other) is False
    assert (x != other) is True


# -- what is added to in place -----------------------------------------------------------------------------------------


def shares_what_it_calls_its_own(node, gradients, results):
    """Whether a node says that its results are its own, and some lie in memory that others have too."""
    made = [result for result in results if isinstance(result, np.ndarray)]
    others = [gradient for gradient in gradients if isinstance(gradient, np.ndarray)]
    others += [value.plain for value in node.saved_variables or () if value is not None and value.plain is not None]
    return node.record.fresh and any(
        np.shares_memory(result, other)
        for number, result in enumerate(made)
        for other in (*others, *made[:number])
        if isinstance(other, np.ndarray)
    )


@pytest.mark.parametrize("case", CASES, ids=[f"{case.op} {case.label}".strip() for case in CASES])
def test_nodes_that_call_their_results_their_own_share_them_with_nobody(case, monkeypatch):  # spec 7.10
    wrong, run = [], OnArrays.run

    def checked(self, node, gradients, keep):
        results = run(self, node, gradients, True)  # what is kept is not handed on
        if shares_what_it_calls_its_own(node, gradients, results):
            wrong.append(node.name())
        return results

    monkeypatch.setattr(OnArrays, "run", checked)
    inputs = case.tensors()
    results = case.function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    total = sum((result * result).sum() for result in results)
    first = grad(total, wanted, create_graph=True, allow_unused=True)
    loss = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    if isinstance(loss, stowgrad.Tensor):
        loss.backward()
    total.backward()
    assert wrong == []


def test_second_derivatives_through_a_part_that_was_added_to_itself():  # spec 7.10
    s = stowgrad.tensor(2.0, requires_grad=True)
    x = s.expand(3).clone()
    x[1:] = x[1:] + x[1:]
    (g,) = grad((x / s).sum(), s, create_graph=True)
    assert grad(g, s)[0].item() == 0.0
