"""Policies under real graphs: the gradients are the plain ones, and nothing is left."""

from __future__ import annotations

import errno
import gc
import os
from typing import ClassVar

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function
from stowgrad.checkpoint import checkpoint
from stowgrad.memory import memory_allocated, pool
from stowgrad.offload import file, save_on_cpu, save_on_disk
from stowgrad.saved_tensors import Cast, Compress, Policy, saved_tensors_hooks
from stowgrad.saved_tensors.codecs import Compact

POLICIES = {
    "copy": lambda: Policy(Compact()),
    "compress": lambda: Compress(min_bytes=0),
    "cpu": save_on_cpu,
    "disk": lambda: save_on_disk(min_bytes=0, checksum=True),
    "zstd on disk": lambda: Compress("zstd", min_bytes=0) | save_on_disk(min_bytes=0),
}


@pytest.fixture(params=POLICIES)
def policy(request):
    return POLICIES[request.param]()


def on_disk():
    return save_on_disk(min_bytes=0)


def leaf(values, device="cpu"):
    return stowgrad.tensor(values, device=device, requires_grad=True)


RANDOM = np.random.default_rng(0).standard_normal((30, 20))


def gradient(function, context, device):
    x = leaf(RANDOM, device)
    with context:
        y = function(x)
    y.sum().backward()
    return x.grad.cpu().numpy().copy()


FUNCTIONS = {
    "chain": lambda x: (x.sin() * x).exp() * x,
    "views": lambda x: x.t().sin() @ x.cos() + x.t().cos() @ x,
    "columns": lambda x: x[:, 3:9].sin() * x[:, 6:12] * x[:, ::4].sum(),
    "expanded": lambda x: (x[0] * x) * x[:, :1],
    "mask": lambda x: x.relu() * x + x.abs(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_the_plain_ones_bit_for_bit(policy, name, device):
    expected = gradient(FUNCTIONS[name], stowgrad.enable_grad(), device)
    assert gradient(FUNCTIONS[name], policy, device).tobytes() == expected.tobytes()


def test_what_was_saved_on_a_copy_comes_back_after_a_write():  # case A3, P1
    x = leaf([1.0, 2.0])
    h = x * 1
    with on_disk():
        y = h * h
    with stowgrad.no_grad():
        h += 100
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_what_save_on_cpu_kept_is_checked_after_a_write():  # case A3, spec 5.2, P1
    x = leaf([1.0, 2.0])
    h = x * 1
    with save_on_cpu():
        y = h * h
    with stowgrad.no_grad():
        h += 100
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_value_and_its_transpose_are_one():  # cases B1, B4
    policy = on_disk()
    x = leaf(RANDOM)
    h = x * 1
    with policy:
        y = h.t().sin().t() + h.cos() + h * h
    figures = policy.statistics()
    assert figures.count == 1
    assert figures.shared >= 3
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), np.cos(RANDOM) - np.sin(RANDOM) + 2 * RANDOM)


def test_leaves_that_require_grad_stay_where_they_are():  # case D3
    policy = on_disk()
    x = leaf(RANDOM)
    with policy:
        y = x * x + x.t().sin().t()
    assert dict(policy.statistics().kept_because) == {"stays alive anyway": 3}
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * RANDOM + np.cos(RANDOM))


def test_parameters_stay_where_they_are():  # case B5, spec 5.6, P7
    policy = on_disk()
    weight = leaf(RANDOM)
    pool("cpu").relabel(weight._storage, "parameter")
    x = leaf(RANDOM) * 1
    with policy:
        y = x @ weight.t()
    figures = policy.statistics()
    assert (figures.count, figures.kept) == (1, 1)
    assert dict(figures.kept_because) == {"parameter or buffer": 1}
    y.sum().backward()
    assert np.allclose(weight.grad.numpy(), RANDOM.sum(0))


def test_a_small_view_is_all_that_is_written():  # case C4
    policy = on_disk()
    big = leaf(np.zeros((1000, 1000))) * 1
    with policy:
        big[0, :2].sin()
    assert policy.statistics().offloaded_bytes == 16


def test_a_full_disk_leaves_everything_as_it_was(monkeypatch):  # case C3, P3
    x = leaf(RANDOM)
    h = x * 1

    def full(fd, data, position):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    policy = save_on_disk(min_bytes=0, staging=0)
    version, before = h._version, memory_allocated()
    with policy, monkeypatch.context() as patch:
        patch.setattr(file.os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            h.exp()
    assert h._version == version
    assert (h.detach().numpy() == RANDOM).all()
    assert memory_allocated() == before
    with policy:
        y = h.exp()
    y.sum().backward()
    assert np.allclose(x.grad.numpy(), np.exp(RANDOM))


def test_rounding_is_for_floats_only():  # cases D1, D4
    x = leaf(RANDOM.astype(np.float32))
    index = stowgrad.tensor(np.arange(20))
    with Cast(min_bytes=0):
        y = (x * x)[index] + x.relu()[index]
    y.sum().backward()
    exact = np.zeros_like(RANDOM)
    exact[:20] = 2 * RANDOM[:20] + (RANDOM[:20] > 0)
    assert (np.abs(x.grad.numpy() - exact) <= np.abs(2 * RANDOM) * 2.0**-8 + 1e-6).all()


def test_two_backwards_and_a_second_derivative(policy):  # cases I8, I9
    x = leaf(RANDOM)
    with policy:
        y = (x * x * x).sum()
        (first,) = stowgrad.autograd.grad(y, x, create_graph=True)
        second = stowgrad.autograd.grad(first.sum(), x)[0]
    assert np.allclose(first.detach().numpy(), 3 * RANDOM**2)
    assert np.allclose(second.numpy(), 6 * RANDOM)


def test_retained_graphs_load_again(policy):
    x = leaf(RANDOM)
    with policy:
        y = x.exp().sin().sum()
    y.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.backward()
    assert (x.grad.numpy() == 2 * once).all()


def test_all_memory_is_freed_without_the_collector(policy, device):  # cases A14, B3, P8
    gc.collect()
    gc.disable()
    try:
        x = leaf(RANDOM, device)
        before = memory_allocated(device), memory_allocated("cpu")
        with policy:
            dropped = x.sin() * x.t().t()
            used = (x * x.exp()).sum()
        del dropped
        used.backward()
        del used
        x.grad = None
        policy.synchronize()
        # less, where the background of another test has only ended now
        assert memory_allocated(device) <= before[0]
        assert memory_allocated("cpu") <= before[1]
        assert policy.statistics().live_count == 0
    finally:
        gc.enable()


def test_nested_contexts_compose_and_raw_hooks_shadow():  # case A9, P6
    x = leaf(np.zeros(100000))
    h = x * 1
    inner, outer = Compress("zstd"), save_on_disk()
    with outer, inner:
        y = h.exp() * h
    assert inner.statistics().count == outer.statistics().count == 2
    assert outer.statistics().offloaded_bytes < 10000
    y.sum().backward()
    assert (x.grad.numpy() == 1).all()
    with outer, saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        x.exp()
    assert outer.statistics().shadowed == 1
    assert outer.statistics().count == 2


def test_saved_values_on_a_device_leave_it():
    x = leaf(np.ones(100000), "sim:0")
    before = memory_allocated("sim:0")
    policy = save_on_cpu()
    with policy:
        y = x.exp().exp().exp().sum()
    policy.synchronize()
    # x itself is still held, and y: the three results of 800 kB each are not
    assert memory_allocated("sim:0") - before < 10000
    y.backward()
    assert str(x.grad.device) == "sim:0"


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_view_goes_if_nobody_holds_its_base_and_stays_if_a_leaf_does(device):  # case B6
    policy = save_on_cpu() | on_disk()
    held = leaf(np.ones((1000, 100)), device)
    before = pool(device).used_bytes()
    with policy:
        h = held * 2
        y = h[:10].sin() + held[:10].cos()
    del h
    policy.synchronize()
    assert dict(policy.statistics().kept_because) == {"stays alive anyway": 1}
    assert pool(device).used_bytes() - before == y.nbytes  # neither the base nor its part
    y.sum().backward()
    assert np.allclose(held.grad.numpy(force=True)[:10], 2 * np.cos(2) - np.sin(1))


def test_what_the_program_holds_is_shown_as_its_own():  # case B14
    from stowgrad.profiler import memory_profile

    with memory_profile() as profile, save_on_cpu() as policy:
        x = leaf(np.ones(100_000), "sim:0")
        hidden = x * 2
        copy = hidden.cpu()
        y = hidden.sin()
        policy.synchronize()
        stowgrad.ones(10_000_000, device="sim:0")  # the peak
    block = next(block for block in profile.report().peak.live if block.op == "mul")
    assert [holder.what for holder in block.held_by] == ["local variable 'hidden'"]
    del copy, y


def test_offload_and_checkpoint_compose():  # case B15, spec 5.8
    def region(x, more, scale):
        with inner if inner is not None else stowgrad.enable_grad():
            return (x.sin() * more["b"][0] * scale).exp()

    results = []
    for outer, inner in ((None, None), (on_disk(), None), (None, on_disk())):
        x, b = leaf(RANDOM), leaf(RANDOM)
        h, g = x * 1, b * 1  # no leaves, which would stay alive anyway
        with outer if outer is not None else stowgrad.enable_grad():
            y = checkpoint(region, h, {"b": [g]}, scale=g * 0.5)
        if outer is not None:
            assert outer.statistics().count == 3  # wherever they are nested
        if inner is not None:
            assert inner.statistics().count > 0  # taken away from the checkpoint, and kept
        y.sum().backward()
        results.append((x.grad.numpy().tobytes(), b.grad.numpy().tobytes()))
    assert results[0] == results[1] == results[2]


class Long(Function):
    """Lets go of what it saved as soon as it has read it."""

    clear_saved_tensors_on_access = True
    released: ClassVar[list[bool]] = []

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 3)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (saved,) = ctx.saved_tensors
        storage = saved._storage
        result = grad * saved * (2 / 3)
        del saved
        Long.released.append(storage() is None)
        return result


@pytest.mark.parametrize("policy", [None, on_disk], ids=["plain", "disk"])
def test_a_long_backward_can_let_go_early(policy):  # case A21
    x = leaf(RANDOM)
    with stowgrad.enable_grad() if policy is None else policy():
        y = Long.apply(x)
    y.sum().backward()
    assert Long.released.pop()
    assert np.allclose(x.grad.numpy(), 2 * RANDOM)
