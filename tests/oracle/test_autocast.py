"""Mixed precision beside PyTorch's, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.autograd import autocast_mode
from stowgrad.checkpoint import checkpoint
from stowgrad.memory import pool

PAIR = (stowgrad, torch)
RNG = np.random.default_rng(0)
X, W, B = (RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (4, 4), (4,)))
IMAGE, FILTERS = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 5, 5), (4, 3, 3, 3)))


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


OPS: list[Any] = [
    lambda m, x, w, b: m.matmul(x, w),
    lambda m, x, w, b: x @ w,
    lambda m, x, w, b: m.mm(x, w),
    lambda m, x, w, b: m.bmm(x[None], w[None]),
    lambda m, x, w, b: m.addmm(b, x, w),
    lambda m, x, w, b: m.baddbmm(b[None, None], x[None], w[None]),
    lambda m, x, w, b: m.nn.functional.linear(x, w, b),
    lambda m, x, w, b: m.einsum("ij,jk->ik", x, w),
    lambda m, x, w, b: m.nn.functional.conv2d(m.tensor(IMAGE), m.tensor(FILTERS)),
    lambda m, x, w, b: m.nn.functional.scaled_dot_product_attention(x[None, None], w[None, None], x[None, None]),
    lambda m, x, w, b: x + w,
    lambda m, x, w, b: m.nn.functional.relu(x @ w),
    lambda m, x, w, b: x @ w + x,
    lambda m, x, w, b: m.softmax(x @ w, -1),
    lambda m, x, w, b: m.exp(x @ w),
    lambda m, x, w, b: m.sum(x @ w),
    lambda m, x, w, b: m.prod(x @ w),
    lambda m, x, w, b: m.nn.functional.mse_loss(x @ w, x),
    lambda m, x, w, b: m.nn.functional.l1_loss(x @ w, x),
    lambda m, x, w, b: m.nn.functional.smooth_l1_loss(x @ w, x),
    lambda m, x, w, b: m.nn.functional.cross_entropy(x @ w, m.tensor([0, 1, 2, 3])),
    lambda m, x, w, b: m.nn.functional.binary_cross_entropy_with_logits(x @ w, m.ones(4, 4)),
    lambda m, x, w, b: m.cdist(x @ w, x),
    lambda m, x, w, b: m.cat([x @ w, x]),
    lambda m, x, w, b: m.matmul(x.double(), w.double()),
]


@pytest.mark.parametrize("number", range(len(OPS)))
@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_dtypes_and_values(number: int, name: str):
    results, gradients = [], []
    for library in PAIR:
        tensors = [library.tensor(value, requires_grad=True) for value in (X, W, B)]
        with library.autocast("cpu", dtype=getattr(library, name)):
            y = OPS[number](library, *tensors)
        if y.requires_grad:
            y.sum().backward()
        gradients.append(tensors[0].grad)
        results.append(y.detach())
    assert dtype_name(results[0]) == dtype_name(results[1])
    np.testing.assert_allclose(results[0].double().numpy(), results[1].double().numpy(), rtol=5e-2, atol=5e-2)
    if gradients[1] is not None:
        assert dtype_name(gradients[0]) == "float32"


# The scaler finds out by overflows how large it may be.
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
def test_a_network_learns_with_weights_in_float32():
    stowgrad.manual_seed(0)
    net = stowgrad.nn.Sequential(
        stowgrad.nn.Linear(4, 16), stowgrad.nn.LayerNorm(16), stowgrad.nn.GELU(), stowgrad.nn.Linear(16, 1)
    )
    optimizer = stowgrad.optim.AdamW(net.parameters(), lr=0.02)
    scaler = stowgrad.amp.GradScaler("cpu")
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with stowgrad.autocast("cpu", dtype=stowgrad.float16):
            loss = ((net(stowgrad.tensor(X)) - 1) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    assert all(p.dtype == p.grad.dtype == stowgrad.float32 for p in net.parameters())


def test_contexts_nest_and_end():
    for library in PAIR:
        x = library.tensor(X)
        assert not library.is_autocast_enabled("cpu")
        with library.autocast("cpu"):
            assert library.is_autocast_enabled("cpu")
            with library.autocast("cpu", enabled=False):
                assert dtype_name(x @ x) == "float32"
                assert not library.is_autocast_enabled("cpu")
            with library.autocast("cpu", dtype=library.float16):
                assert dtype_name(x @ x) == "float16"
            assert dtype_name(x @ x) == "bfloat16"
        assert dtype_name(x @ x) == "float32"

        @library.autocast("cpu")
        def product(x: Any) -> Any:
            return x @ x

        assert dtype_name(product(x)) == "bfloat16"
        assert str(library.get_autocast_dtype("cpu")).removeprefix("torch.") == "bfloat16"
        with pytest.raises(RuntimeError, match="nowhere"):
            library.autocast("nowhere")
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
            library.autocast(3)
        with pytest.warns(UserWarning, match="not supported"):
            library.autocast("cpu", dtype=library.float64)


def test_a_weight_is_cast_once():
    w = stowgrad.tensor(W, requires_grad=True)
    x = stowgrad.tensor(X)
    with stowgrad.autocast("cpu"):
        a, b = x @ w, x @ w
        nodes = [{edge[0] for edge in y.grad_fn.next_functions if edge[0] is not None} for y in (a, b)]
        assert nodes[0] & nodes[1]
        with stowgrad.no_grad():
            w.add_(1)  # another version, another cast
        c = x @ w
    np.testing.assert_allclose(c.detach().double().numpy(), X @ (W + 1), rtol=0.1, atol=0.2)
    assert autocast_mode.current_casting() is None
    with stowgrad.autocast("cpu", cache_enabled=False):
        a, b = x @ w, x @ w
        nodes = [{edge[0] for edge in y.grad_fn.next_functions if edge[0] is not None} for y in (a, b)]
        assert not nodes[0] & nodes[1]


def test_what_is_kept_is_half_as_large():
    x = stowgrad.tensor(RNG.standard_normal((1024, 256)).astype(np.float32))
    w = stowgrad.tensor(RNG.standard_normal((256, 256)).astype(np.float32), requires_grad=True)
    sizes = []
    for enabled in (False, True):
        before = pool("cpu").used_bytes()
        with stowgrad.autocast("cpu", enabled=enabled):
            y = (x @ w) @ w
        sizes.append(pool("cpu").used_bytes() - before)
        del y
        assert pool("cpu").used_bytes() == before
    # both products in full; or both and the input in half, and the weight once
    assert sizes == [2 * 4 * 1024 * 256, 3 * 2 * 1024 * 256 + 2 * 256 * 256]


def test_a_checkpoint_runs_again_as_it_ran():
    found = []
    for use in (False, True):
        w = stowgrad.tensor(W, requires_grad=True)
        x = stowgrad.tensor(X, requires_grad=True)

        def block(x: Any, w: Any = w) -> Any:
            return stowgrad.nn.functional.gelu(x @ w) @ w

        with stowgrad.autocast("cpu"):
            y = checkpoint(block, x) if use else block(x)
        y.float().sum().backward()
        found.append([w.grad.numpy(), x.grad.numpy()])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-2, atol=1e-2)
