"""Attention with dropout, the gradient of its mask, and half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import numpy_ as kernels

from .support import Array
from .test_attention import SCALE, inputs

DRAW = {"key": 7, "counter": 3 << 40}


def by_the_matrix(q: Array, k: Array, v: Array, grad: Array, added: Array, kept: Array) -> list[Array]:
    """The result, and the gradients of q, k, v and of all scores; ``kept`` are the factors of the probabilities."""
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (a.repeat(group, axis=1) for a in (k, v))
    scores = SCALE * q @ wide_k.swapaxes(-1, -2) + added
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    p = powers / powers.sum(-1, keepdims=True)
    out = (p * kept) @ wide_v
    ds = p * ((grad @ wide_v.swapaxes(-1, -2)) * kept - (grad * out).sum(-1, keepdims=True))
    fold = (*k.shape[:2], group, k.shape[2], -1)
    by_k = (SCALE * ds.swapaxes(-1, -2) @ q).reshape(fold).sum(2)
    by_v = ((p * kept).swapaxes(-1, -2) @ grad).reshape(fold).sum(2)
    return [out, SCALE * ds @ wide_k, by_k, by_v, ds]


def run(q: Array, k: Array, v: Array, grad: Array, mask: Array, causal: bool, p: float) -> list[Array]:
    """The result and all gradients, by the kernels."""
    exact = np.float32 if q.dtype.itemsize < 4 else q.dtype
    out, lse = np.empty(grad.shape, q.dtype), np.empty(grad.shape[:3], exact)
    draw: dict[str, Any] = {"p": p, **DRAW, "scale": SCALE, "causal": causal}
    kernels.attention(q, k, v, out, lse, mask=mask, **draw)
    grads = [np.empty(a.shape, a.dtype) for a in (q, k, v)]
    kernels.attention_backward(grad, q, k, v, out, lse, *grads, mask=mask, **draw)
    by_mask = np.empty_like(mask)
    kernels.attention_mask_backward(grad, q, k, v, mask, out, lse, by_mask, **draw)
    return [out, *grads, by_mask]


def expected(arrays: list[Array], mask: Array, causal: bool, p: float) -> list[Array]:
    """The same by the matrix of all scores."""
    (batch, heads, rows), keys = arrays[0].shape[:3], arrays[1].shape[2]
    dropped = np.empty((batch, heads, rows, keys), bool)
    kernels.attention_dropped(dropped, p=p, **DRAW)
    kept = ~dropped / (1 - p)
    added = mask.astype(float) + np.where(np.tri(rows, keys, dtype=bool) | (not causal), 0, -np.inf)
    *found, ds = by_the_matrix(*[a.astype(float) for a in arrays], added, kept)
    missing = ds.ndim - mask.ndim
    axes = tuple(range(missing)) + tuple(d + missing for d in range(mask.ndim) if mask.shape[d] == 1)
    return [*found, ds.sum(axes, keepdims=True).reshape(mask.shape)]


SIZES = [(2, 4, 2, 5, 7, 3, 2), (1, 2, 2, 300, 140, 4, 4), (2, 1, 1, 130, 260, 4, 3)]
MASKS: dict[str, Callable[..., tuple[int, ...]]] = {
    "one": lambda B, H, T, S: (1,),
    "matrix": lambda B, H, T, S: (T, S),
    "keys": lambda B, H, T, S: (B, 1, 1, S),
    "heads": lambda B, H, T, S: (H, T, S),
    "rows": lambda B, H, T, S: (H, T, 1),
    "all": lambda B, H, T, S: (B, H, T, S),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5])
def test_gradients_with_mask_and_dropout(
    p: float,
    causal: bool,
    shape: str,
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    same_on_threads: Callable[[Callable[[], Any]], Any],
) -> None:
    B, H, _, T, S = sizes[:5]
    arrays = inputs(sizes, "float64", rng)
    mask = rng.standard_normal(MASKS[shape](B, H, T, S))
    results = same_on_threads(lambda: run(*arrays, mask, causal, p))
    for actual, right in zip(results, expected(arrays, mask, causal, p), strict=True):
        np.testing.assert_allclose(actual, right, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_half_precision_is_computed_in_float32(p: float, dtype: str, rng: np.random.Generator) -> None:
    half = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    arrays = [a.astype(half) for a in inputs((2, 4, 2, 40, 50, 8, 8), "float32", rng)]
    mask = rng.standard_normal((4, 40, 50)).astype(half)
    bound = 2 * float(ml_dtypes.finfo(half).eps)
    for actual, right in zip(run(*arrays, mask, True, p), expected(arrays, mask, True, p), strict=True):
        assert actual.dtype == half
        np.testing.assert_allclose(actual.astype(float), right, rtol=bound, atol=bound * np.abs(right).max())


@pytest.mark.parametrize("p", [0.1, 0.3, 0.75])
def test_dropout_drops_its_share_independently(p: float) -> None:
    dropped = np.empty((2, 3, 300, 200), bool)
    kernels.attention_dropped(dropped, p=p, **DRAW)
    assert abs(dropped.mean() - p) < 4 * np.sqrt(p * (1 - p) / dropped.size)
    for other in (dropped[:, :, 1:], dropped[:, 1:], dropped[..., 128:]):
        first = dropped[tuple(slice(0, size) for size in other.shape)]
        assert abs((first & other).mean() - p * p) < 5 * np.sqrt(p * p / other.size)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropping_nothing_and_everything(p: float, rng: np.random.Generator) -> None:
    arrays = inputs((1, 2, 2, 5, 6, 3, 3), "float64", rng)
    out, *grads, by_mask = run(*arrays, np.zeros((5, 6)), False, p)
    assert (out == 0).all() == (p == 1)
    assert all(np.isfinite(g).all() for g in (*grads, by_mask))
    assert np.any(grads[2]) == (p == 0)


def test_nothing_is_of_the_size_of_all_scores(rng: np.random.Generator) -> None:
    sizes = (1, 4, 4, 1500, 1500, 8, 8)
    arrays = inputs(sizes, "float32", rng)
    mask = rng.standard_normal((1, 1, 1, 1500)).astype(np.float32)
    pool = memory.pool()
    with pool.peak_scope() as scope:
        run(*arrays, mask, False, 0.3)
    assert scope.peak_bytes - scope.begin_bytes < 4 * 1500 * 1500 * 4 / 4


@pytest.mark.parametrize("sizes", [(0, 1, 1, 3, 3, 2, 2), (1, 1, 1, 0, 3, 2, 2), (1, 2, 2, 3, 0, 2, 2)])
def test_a_mask_of_nothing(sizes: tuple[int, ...], rng: np.random.Generator) -> None:
    *_, by_mask = run(*inputs(sizes, "float64", rng), np.ones((1, 1)), False, 0.3)
    assert by_mask.tolist() == [[0.0]]
