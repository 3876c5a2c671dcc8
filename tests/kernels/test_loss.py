from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import numpy_ as kernels

from .support import Array

IGNORED = -100


def reference(logits: Array, targets: Array, grad: Array) -> tuple[Array, Array, Array]:
    """Losses, log-sum-exp and the gradient of the logits."""
    most = logits.max(1, keepdims=True)
    lse = np.log(np.exp(logits - most).sum(1)) + most[:, 0]
    counted = targets != IGNORED
    safe = np.where(counted, targets, 0)
    rows = np.arange(len(targets))
    losses = np.where(counted, lse - logits[rows, safe], 0)
    p = np.exp(logits - lse[:, None])
    p[rows, safe] -= 1
    return losses, lse, p * (grad * counted)[:, None]


def targets_of(rng: np.random.Generator, rows: int, classes: int) -> Array:
    targets = rng.integers(0, classes, rows)
    targets[::5] = IGNORED
    return targets


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (50, 11), (3000, 300)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-13)])
def test_cross_entropy(
    shape: tuple[int, int], dtype: str, tolerance: float, rng: np.random.Generator, same_on_threads: Any
) -> None:
    logits = (5 * rng.standard_normal(shape)).astype(dtype)
    targets, grad = targets_of(rng, *shape), rng.standard_normal(shape[0]).astype(dtype)
    expected = reference(logits.astype(float), targets, grad)

    def run() -> list[Array]:
        losses, lse = np.empty((2, len(logits)), dtype)
        kernels.cross_entropy(logits, targets, losses, lse)
        grad_logits = np.empty_like(logits)
        kernels.cross_entropy_backward(grad, logits, targets, lse, grad_logits)
        return [losses, lse, grad_logits]

    for actual, right in zip(same_on_threads(run), expected, strict=True):
        np.testing.assert_allclose(actual, right, atol=tolerance)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk_bytes", [100, 5_000, 8 << 20])
@pytest.mark.parametrize("sizes", [(1, 4, 3), (50, 8, 11), (2100, 16, 40)])
def test_linear_cross_entropy(
    sizes: tuple[int, int, int], chunk_bytes: int, with_bias: bool, rng: np.random.Generator
) -> None:
    rows, size, classes = sizes
    if chunk_bytes == 100 and rows > 100:
        pytest.skip("very many chunks")
    x, weight = rng.standard_normal((rows, size)), rng.standard_normal((classes, size))
    bias = rng.standard_normal(classes) if with_bias else None
    targets, grad = targets_of(rng, rows, classes), rng.standard_normal(rows)
    logits = x @ weight.T + (0 if bias is None else bias)
    losses, lse, grad_logits = reference(logits, targets, grad)
    for at_x, at_w in ((x, weight), (np.asfortranarray(x), weight[::-1].copy()[::-1])):
        outs = np.empty((2, rows))
        kernels.linear_cross_entropy(at_x, at_w, bias, targets, *outs, chunk_bytes=chunk_bytes)
        np.testing.assert_allclose(outs, [losses, lse], atol=1e-12)
        grads = [np.empty_like(x, order="C"), np.empty_like(weight, order="C")]
        grad_b = None if bias is None else np.empty_like(bias)
        kernels.linear_cross_entropy_backward(
            grad, at_x, at_w, bias, targets, outs[1], *grads, grad_b, chunk_bytes=chunk_bytes
        )
        np.testing.assert_allclose(grads[0], grad_logits @ weight, atol=1e-12)
        np.testing.assert_allclose(grads[1], grad_logits.T @ x, atol=1e-11)
        if grad_b is not None:
            np.testing.assert_allclose(grad_b, grad_logits.sum(0), atol=1e-12)


def test_gradients_that_are_not_asked_for(rng: np.random.Generator) -> None:
    x, weight = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    targets, lse = np.array([0, 1, 2, 3, IGNORED]), np.empty(5)
    kernels.linear_cross_entropy(x, weight, None, targets, np.empty(5), lse)
    grad_w = np.empty_like(weight)
    kernels.linear_cross_entropy_backward(np.ones(5), x, weight, None, targets, lse, None, grad_w, None)
    expected = reference(x @ weight.T, targets, np.ones(5))[2].T @ x
    np.testing.assert_allclose(grad_w, expected, atol=1e-13)


def test_the_logits_never_exist_at_once(rng: np.random.Generator) -> None:
    x, weight = rng.standard_normal((1000, 4)).astype("float32"), rng.standard_normal((5000, 4)).astype("float32")
    targets = targets_of(rng, 1000, 5000)
    outs = np.empty((2, 1000), "float32")
    with memory.pool().peak_scope() as scope:
        kernels.linear_cross_entropy(x, weight, None, targets, *outs, chunk_bytes=1 << 20)
    assert (1 << 20) * 0.9 < scope.peak_bytes - scope.begin_bytes < (1 << 20) * 1.2


def test_a_target_out_of_range_is_named() -> None:
    logits, outs = np.zeros((2, 3)), np.empty((2, 2))
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"target {wrong} is out of range for 3 classes"):
            kernels.cross_entropy(logits, np.array([0, wrong]), *outs)


def test_no_rows(rng: np.random.Generator) -> None:
    x, weight, none = np.empty((0, 3)), rng.standard_normal((4, 3)), np.empty(0)
    targets = np.empty(0, int)
    kernels.linear_cross_entropy(x, weight, None, targets, none, none)
    grad_w = np.empty_like(weight)
    kernels.linear_cross_entropy_backward(none, x, weight, None, targets, none, np.empty_like(x), grad_w, None)
    assert (grad_w == 0).all()
    kernels.cross_entropy(np.empty((0, 3)), targets, none, none)
