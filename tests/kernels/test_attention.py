from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import numpy_ as kernels

from .support import Array

SCALE = 0.3


def reference(
    q: Array, k: Array, v: Array, grad: Array, visible: Array, added: Array | float = 0.0
) -> tuple[Array, ...]:
    """Result, log-sum-exp and gradients, by the matrix of all scores, in float64."""
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (a.repeat(group, axis=1) for a in (k, v))
    scores = np.where(visible, SCALE * q @ wide_k.swapaxes(-1, -2) + added, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-1e300)
    powers = np.exp(scores - most)
    total = powers.sum(-1, keepdims=True)
    seen = total > 0
    p = powers / np.where(seen, total, 1)
    out = p @ wide_v
    ds = p * (grad @ wide_v.swapaxes(-1, -2) - (grad * out).sum(-1, keepdims=True))
    fold = (*k.shape[:2], group, k.shape[2], -1)
    grad_k = (SCALE * ds.swapaxes(-1, -2) @ q).reshape(fold).sum(2)
    grad_v = (p.swapaxes(-1, -2) @ grad).reshape(fold).sum(2)
    lse = np.where(seen, most + np.log(np.where(seen, total, 1)), np.inf)[..., 0]
    return out, lse, SCALE * ds @ wide_k, grad_k, grad_v


def inputs(sizes: tuple[int, ...], dtype: str, rng: np.random.Generator) -> list[Array]:
    """q, k, v and grad; q and k as projections leave them (heads inside rows), v with its rows across."""
    B, H, K, T, S, D, E = sizes
    q = rng.standard_normal((B, T, H, D)).astype(dtype).transpose(0, 2, 1, 3)
    k = rng.standard_normal((B, S, K, D)).astype(dtype).transpose(0, 2, 1, 3)
    v = rng.standard_normal((B, K, E, S)).astype(dtype).swapaxes(-1, -2)
    return [q, k, v, rng.standard_normal((B, T, H, E)).astype(dtype).transpose(0, 2, 1, 3)]


def run(q: Array, k: Array, v: Array, grad: Array, **options: Any) -> list[Array]:
    out, lse = np.empty(grad.shape, q.dtype), np.empty(grad.shape[:3], q.dtype)
    kernels.attention(q, k, v, out, lse, scale=SCALE, **options)
    grads = [np.empty(a.shape, a.dtype) for a in (q, k, v)]
    kernels.attention_backward(grad, q, k, v, out, lse, *grads, scale=SCALE, **options)
    return [out, lse, *grads]


SIZES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 4, 130, 130, 16, 16),
    (2, 6, 2, 70, 300, 8, 12),
    (1, 2, 1, 300, 20, 8, 8),
    (9, 3, 3, 5, 4, 3, 2),
]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "bool", "added"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-13)])
def test_attention(
    sizes: tuple[int, ...],
    causal: bool,
    kind: str,
    dtype: str,
    tolerance: float,
    rng: np.random.Generator,
    same_on_threads: Callable[[Callable[[], Any]], Any],
) -> None:
    B, H, _, T, S = sizes[:5]
    arrays = inputs(sizes, dtype, rng)
    visible = np.tri(T, S, dtype=bool) if causal else np.ones((T, S), bool)
    mask: Array | None = None
    added: Array | float = 0.0
    if kind == "bool":
        mask = rng.random((B, 1, T, S)) < 0.7
        mask[0, 0, -1] = False  # a query that sees nothing
        visible = visible & mask
    elif kind == "added":
        mask = rng.standard_normal((H, T, S)).astype(dtype)
        added = mask.astype(float)
    expected = reference(*[a.astype(float) for a in arrays], visible, added)
    results = (
        same_on_threads(lambda: run(*arrays, causal=causal, mask=mask))
        if sizes[0] > 1
        else run(*arrays, causal=causal, mask=mask)
    )
    for actual, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, right, rtol=tolerance, atol=tolerance)


def test_outs_of_any_strides(rng: np.random.Generator) -> None:
    arrays = inputs((2, 4, 4, 150, 150, 16, 16), "float64", rng)
    expected = run(*arrays, causal=True)
    out = np.empty((2, 150, 4, 16)).transpose(0, 2, 1, 3)
    lse = np.empty((2, 4, 150))
    kernels.attention(*arrays[:3], out, lse, scale=SCALE, causal=True)
    together = np.empty((2, 150, 3, 4, 16))
    grads = [together[:, :, which].transpose(0, 2, 1, 3) for which in range(3)]
    kernels.attention_backward(arrays[3], *arrays[:3], out, lse, *grads, scale=SCALE, causal=True)
    for actual, right in zip([out, lse, *grads], expected, strict=True):
        np.testing.assert_allclose(actual, right, atol=1e-13)


@pytest.mark.parametrize("sizes", [(0, 1, 1, 3, 3, 2, 2), (1, 1, 1, 0, 3, 2, 2), (1, 2, 2, 3, 0, 2, 2)])
def test_empty(sizes: tuple[int, ...], rng: np.random.Generator) -> None:
    out, lse, *grads = run(*inputs(sizes, "float64", rng), causal=False)
    assert (out == 0).all()
    assert np.isposinf(lse).all()
    assert all((grad == 0).all() for grad in grads)


def test_scratch_is_far_below_the_matrix_of_scores(rng: np.random.Generator) -> None:
    arrays = inputs((1, 2, 2, 3000, 3000, 16, 16), "float32", rng)
    pool = memory.pool()
    with pool.peak_scope() as scope:
        run(*arrays, causal=True)
    assert scope.peak_bytes - scope.begin_bytes < 2 * 3000 * 3000 * 4 / 4
