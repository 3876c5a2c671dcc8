"""Whole training steps on a CUDA device give what they give on the CPU: on the double of CuPy, and on a GPU."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import memory, nn, optim
from stowgrad.checkpoint import checkpoint
from stowgrad.nn import functional as F
from stowgrad.offload import Offload, save_on_cpu, save_on_disk
from stowgrad.saved_tensors import Compress

from .fake_cupy.places import PLACES, cupy_at


@pytest.fixture(scope="module", params=PLACES)
def cuda(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a device that is the double's, or real."""
    with cupy_at(request.param):
        yield "cuda:0"


class Model(nn.Module):
    """Embedding, attention, layer norm, two layers with GELU and ReLU, dropout, chunked cross-entropy."""

    def __init__(self, dropout: float = 0.0, checkpointed: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)
        self.dropout = dropout
        self.checkpointed = checkpointed

    def block(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).reshape(3, 7, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(3, 7, 8)
        return x + F.dropout(self.down(F.relu(F.gelu(self.up(x)))), self.dropout)

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.table(tokens)
        x = checkpoint(self.block, x, use_reentrant=False) if self.checkpointed else self.block(x)
        return F.linear_cross_entropy(x, self.table.weight, targets)


def train(device: str, optimizer: str = "AdamW", policy: Callable[[], Any] | None = None, **options: Any) -> list[Any]:
    """The losses of three steps and all parameters after them."""
    stowgrad.manual_seed(0)
    model = Model(**options).to(device)
    made = {
        # eps: the gradient of the keys' bias is 0 but for rounding, which a small one would blow up
        "AdamW": lambda: optim.AdamW(model.parameters(), lr=0.01, eps=1e-3),
        "SGD": lambda: optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    }[optimizer]()
    rng = np.random.default_rng(0)
    results = []
    for _ in range(3):
        tokens = rng.integers(0, 11, (3, 8))
        inputs, targets = (stowgrad.tensor(part, device=device) for part in (tokens[:, :-1], tokens[:, 1:]))
        with policy() if policy else contextlib.nullcontext():
            loss = model(inputs, targets)
        made.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        made.step()
        results.append(loss.item())
    return [np.array(results), *(parameter.detach().cpu().numpy() for parameter in model.parameters())]


def assert_close(found: list[Any], expected: list[Any]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD"])
def test_training_is_the_cpus(optimizer: str, cuda: str) -> None:
    assert_close(train(cuda, optimizer), train("cpu", optimizer))


@pytest.mark.parametrize(
    "policy",
    [
        save_on_cpu,
        lambda: save_on_disk(min_bytes=0),
        lambda: Compress("zstd"),
        lambda: Compress("packbits") | Offload("disk", min_bytes=0),
    ],
    ids=["cpu", "disk", "zstd", "packbits and disk"],
)
def test_policies_change_nothing(policy: Callable[[], Any], cuda: str) -> None:
    for mine, theirs in zip(train(cuda, policy=policy), train(cuda), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_recompute_draws_the_same_dropout(cuda: str) -> None:
    for mine, theirs in zip(train(cuda, dropout=0.3, checkpointed=True), train(cuda, dropout=0.3), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_all_memory_is_freed_without_the_collector(cuda: str) -> None:
    gc.collect()
    before = memory.memory_allocated(cuda)
    gc.disable()
    try:
        train(cuda)
        assert memory.memory_allocated(cuda) == before
    finally:
        gc.enable()


def test_views_and_conversions(cuda: str) -> None:
    x = stowgrad.arange(12, dtype=np.float32, device=cuda).reshape(3, 4)
    np.testing.assert_array_equal(x.t().reshape(12).cpu().numpy(), np.arange(12.0).reshape(3, 4).T.reshape(12))
    np.testing.assert_array_equal(x[1:, ::2].cpu().numpy(), [[4, 6], [8, 10]])
    np.testing.assert_array_equal(x[stowgrad.tensor([2, 0], device=cuda)].cpu().numpy()[:, 0], [8, 0])
    with pytest.raises(RuntimeError, match="view size"):
        x.t().view(12)
    assert x[2, 3].item() == 11
    assert "cuda:0" in repr(x)
    assert x.to(np.int64).sum().item() == 66
    np.testing.assert_array_equal(x.expand(2, 3, 4).sum((0, 2)).tolist(), [12, 44, 76])
    y = stowgrad.zeros(3, 4, device=cuda)
    y.copy_(stowgrad.ones(4))
    y[0] = 5
    assert y.sum().item() == 28
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
