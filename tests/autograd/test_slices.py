"""Gradients of slices: each is added into its place in one buffer, without an array of zeros a slice."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad import memory


def peak_of_backward(loss) -> int:
    """Bytes that a pass needs above what is there when it begins."""
    before = memory.memory_allocated()
    memory.reset_peak_memory_stats()
    loss.backward()
    return memory.max_memory_allocated() - before


def test_many_slices_need_one_buffer(no_collector):
    rows, width = 64, 4096
    x = stowgrad.ones(rows, width, requires_grad=True)
    y = x * 2.0
    loss = sum((y[row] * float(row)).sum() for row in range(rows))
    whole, row = x._array.nbytes, width * 4
    # The buffer of y's gradient, the gradient of x that is made of it, and a few rows.
    assert peak_of_backward(loss) <= 2 * whole + 8 * row
    np.testing.assert_array_equal(x.grad.numpy()[:, 0], 2.0 * np.arange(rows))


def test_slices_of_a_leaf_are_its_gradient(no_collector):
    x = stowgrad.ones(64, 4096, requires_grad=True)
    loss = sum(x[row].sum() for row in range(64))
    assert peak_of_backward(loss) <= x._array.nbytes + 4 * 4096 * 4
    assert x.grad.numpy().all()


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_slices_mixed_with_other_uses(seed, retain):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(5, 6))
    weights = rng.normal(size=(5, 6))

    def part(array):
        return array[rng.integers(0, 3) :, :: rng.integers(1, 4)] if rng.integers(2) else array[rng.integers(0, 5)]

    x = stowgrad.tensor(values, requires_grad=True)
    y = x * stowgrad.tensor(weights)
    expected = np.zeros((5, 6))
    terms = []
    for _ in range(4):
        if rng.integers(3) == 0:
            terms.append(y.sum())
            expected += 1.0
            continue
        state = rng.bit_generator.state
        terms.append(part(y).sum())
        rng.bit_generator.state = state
        part(expected)[...] += 1.0
    sum(terms).backward(retain_graph=retain)
    np.testing.assert_allclose(x.grad.numpy(), expected * weights, rtol=1e-12)


def test_a_gradient_that_somebody_holds_is_not_changed():
    x = stowgrad.ones(3, requires_grad=True)
    y = x * 2.0
    seen = []
    z = y * 1.0
    z.register_hook(seen.append)
    (z.sum() + z[1] + y[2]).backward()
    assert (seen[0].tolist(), x.grad.tolist()) == ([1.0, 2.0, 1.0], [2.0, 4.0, 4.0])


def test_parts_of_several_outputs():
    x = stowgrad.ones(4, 6, requires_grad=True)
    a, b = (x * 2.0).split([2, 4], 1)
    (a[1].sum() + a[2].sum() + b[0, 1] + b[0, 1] + b.sum()).backward()
    expected = np.zeros((4, 6))
    expected[1:3, :2] = 2.0
    expected[:, 2:] = 2.0
    expected[0, 3] += 4.0
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_hooks_of_the_node_see_the_whole_gradient():
    x = stowgrad.ones(2, 3, requires_grad=True)
    y = x[1]
    seen = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0].tolist()))
    y.sum().backward()
    assert seen == [[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]]


def test_a_node_called_alone_gives_the_whole_gradient():
    x = stowgrad.ones(3, requires_grad=True)
    assert x[1:].grad_fn(stowgrad.ones(2)).tolist() == [0.0, 1.0, 1.0]


# -- what was rolled is added where it belongs -------------------------------------------------------------------------


def test_rolled_gradients_are_added_without_a_copy(no_collector):
    x = stowgrad.ones(256, 1024, requires_grad=True)
    y = x * 2.0
    loss = sum(stowgrad.roll(y, step, dim).sum() for step, dim in [(1, 0), (2, 1), (3, 0), (4, 1)])
    # The gradient of y, and at the end that of x.
    assert peak_of_backward(loss) <= 2.01 * x._array.nbytes
    np.testing.assert_array_equal(x.grad.numpy(), 8.0)


def test_rolled_gradients_beside_others():
    values = np.random.default_rng(0).normal(size=(3, 4, 5))
    weights = np.random.default_rng(1).normal(size=(4, 3, 4, 5))
    x = stowgrad.tensor(values, requires_grad=True)
    y = x * 3.0
    shifts = [((1,), (0,)), ((-2, 3), (1, 2)), ((0,), (2,))]
    terms = [(stowgrad.roll(y, *shift) * stowgrad.tensor(w)).sum() for shift, w in zip(shifts, weights)]
    (sum(terms) + (y * stowgrad.tensor(weights[3])).sum()).backward()
    expected = weights[3] + sum(np.roll(w, [-step for step in s], d) for (s, d), w in zip(shifts, weights))
    np.testing.assert_allclose(x.grad.numpy(), 3 * expected, rtol=1e-12)


# -- a slice that is written through itself ----------------------------------------------------------------------------


def test_writing_a_slice_in_place_writes_it_once(no_collector):
    # Python ends ``y[1:] += z`` with ``y[1:] = y[1:]``: nothing is to be written, though the version counts.
    x = stowgrad.ones(64, 1024, requires_grad=True)
    y = x * 2.0
    version = y._version
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated()
    y[1:] += x[:-1]
    assert memory.max_memory_allocated() - before <= 4096
    assert y._version == version + 2
    (y * y).sum().backward()
    expected = np.full((64, 1024), 2 * (2 * 3 + 3.0))
    expected[0], expected[-1] = 2 * (2 * 2 + 3.0), 2 * 2 * 3.0
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_a_detached_slice_written_onto_itself_has_no_gradient():
    x = stowgrad.ones(4, requires_grad=True)
    y = x * 2.0
    y[1:3] = y[1:3].detach()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0, 2.0]


def test_hooks_of_a_slice_run_when_it_is_written_onto_itself():
    x = stowgrad.ones(4, requires_grad=True)
    y = x * 2.0
    part = y[1:]
    part.register_hook(lambda grad: grad * 10.0)
    y[1:] = part
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 20.0, 20.0, 20.0]


@pytest.mark.parametrize("key", [np.s_[1:4, 2:], np.s_[::2], np.s_[1], np.s_[..., 3], np.s_[-2:, -3:-1], np.s_[3:1]])
def test_around_a_slice_the_gradient_is_zero(key):
    stowgrad.full((6, 7), np.nan)  # what the block held before
    x = stowgrad.ones(6, 7, requires_grad=True)
    (stowgrad.autograd.grad((x * 1.0)[key].sum(), x)[0] * 1.0).tolist()
    expected = np.zeros((6, 7))
    expected[key] = 1
    np.testing.assert_array_equal(stowgrad.autograd.grad((x * 1.0)[key].sum(), x)[0].numpy(), expected)
