"""Which first gradients require grad under ``create_graph``, where the seed does not: as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import stowgrad

VALUES = np.array([[0.5, -1.5, 2.5, 0.1], [3.5, 0.1, -2.2, -0.3]])

CALLS = {
    "abs": lambda lib, x: x.abs(),
    "relu": lambda lib, x: x.relu(),
    "relu_": lambda lib, x: (x * 1).relu_(),
    "relu6": lambda lib, x: lib.nn.functional.relu6(x),
    "hardtanh": lambda lib, x: lib.nn.functional.hardtanh(x),
    "leaky_relu": lambda lib, x: lib.nn.functional.leaky_relu(x),
    "hardshrink": lambda lib, x: lib.nn.functional.hardshrink(x),
    "softshrink": lambda lib, x: lib.nn.functional.softshrink(x),
    "threshold": lambda lib, x: lib.nn.functional.threshold(x, 0.2, 1.0),
    "rrelu": lambda lib, x: lib.nn.functional.rrelu(x),
    "clamp": lambda lib, x: x.clamp(-1, 1),
    "sign": lambda lib, x: x.sign(),
    "floor": lambda lib, x: x.floor(),
    "fmod": lambda lib, x: x.fmod(1.3),
    "maximum": lambda lib, x: lib.maximum(x, x.detach() * 0.5),
    "max": lambda lib, x: x.max(),
    "max along": lambda lib, x: x.max(1).values,
    "amax": lambda lib, x: x.amax(1),
    "sort": lambda lib, x: x.sort(1).values,
    "topk": lambda lib, x: x.topk(2).values,
    "median": lambda lib, x: x.median(),
    "where": lambda lib, x: lib.where(x > 0, x, x * 2),
    "masked_fill": lambda lib, x: x.masked_fill(x > 0, 0.0),
    "index": lambda lib, x: x[0],
    "sum": lambda lib, x: x.sum(0),
    "mul": lambda lib, x: x * 2,
    "matmul": lambda lib, x: x @ x.detach().t(),
    "square": lambda lib, x: x.square(),
    "max_pool": lambda lib, x: lib.nn.functional.max_pool1d(x, 2),
    "adaptive_max_pool": lambda lib, x: lib.nn.functional.adaptive_max_pool1d(x, 2),
    "avg_pool": lambda lib, x: lib.nn.functional.avg_pool1d(x, 2),
    "adaptive_avg_pool": lambda lib, x: lib.nn.functional.adaptive_avg_pool1d(x, 2),
    "interpolate": lambda lib, x: lib.nn.functional.interpolate(x[None], 5, mode="linear"),
    "nll_loss": lambda lib, x: lib.nn.functional.nll_loss(x, lib.zeros(2, dtype=lib.int64)),
    "cross_entropy": lambda lib, x: lib.nn.functional.cross_entropy(x, lib.zeros(2, dtype=lib.int64)),
    "l1_loss": lambda lib, x: lib.nn.functional.l1_loss(x, x.detach() * 2),
}


def second(lib, call):
    """Whether the first gradient requires grad, and the derivative of its sum if it does."""
    x = lib.tensor(VALUES, requires_grad=True)
    (first,) = lib.autograd.grad(call(lib, x).sum(), x, create_graph=True)
    if not first.requires_grad:
        return None
    return lib.autograd.grad(first.sum(), x)[0].numpy(force=True)  # what PyTorch has for zeros is no array otherwise


@pytest.mark.parametrize("name", CALLS)
def test_the_second_derivative_exists_where_pytorchs_does(name):
    ours, theirs = second(stowgrad, CALLS[name]), second(torch, CALLS[name])
    assert (ours is None) == (theirs is None)
    if theirs is not None:
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
