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


def terms_reference(
    logits: Array, targets: Array, weight: Array, smoothing: float, z_loss: float
) -> tuple[Array, Array]:
    """The losses with all terms, and the gradient of their sum, by the matrix of the targets' shares."""
    most = logits.max(1, keepdims=True)
    lse = np.log(np.exp(logits - most).sum(1, keepdims=True)) + most
    counted = (targets != IGNORED)[:, None]
    shares = np.where(np.arange(logits.shape[1]) == targets[:, None], (1 - smoothing) * weight, 0)
    shares = (shares + smoothing / logits.shape[1] * weight) * counted
    losses = ((lse - logits) * shares).sum(1) + (z_loss * lse * lse * counted)[:, 0]
    factor = shares.sum(1, keepdims=True) + 2 * z_loss * lse * counted
    return losses, factor * np.exp(logits - lse) - shares


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(7, 3), (500, 300)])
def test_weights_and_smoothing(
    shape: tuple[int, int], smoothing: float, weighted: bool, rng: np.random.Generator
) -> None:
    logits, targets = 5 * rng.standard_normal(shape), targets_of(rng, *shape)
    weight = rng.uniform(0.5, 2, shape[1]) if weighted else None
    right = terms_reference(logits, targets, np.ones(shape[1]) if weight is None else weight, smoothing, 0.0)
    losses, lse = np.empty((2, shape[0]))
    options = {"weight": weight, "label_smoothing": smoothing}
    kernels.cross_entropy(logits.T.copy().T, targets, losses, lse, **options)
    grad = np.empty_like(logits)
    kernels.cross_entropy_backward(np.ones(shape[0]), logits, targets, lse, grad, **options)
    np.testing.assert_allclose(losses, right[0], atol=1e-12)
    np.testing.assert_allclose(grad, right[1], atol=1e-12)


@pytest.mark.parametrize("chunk_bytes", [100, 5_000, 16 << 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_terms_of_a_linear_layer(weighted: bool, chunk_bytes: int, rng: np.random.Generator) -> None:
    rows, size, classes = 50, 8, 11
    x, weight, bias = (
        rng.standard_normal((rows, size)),
        rng.standard_normal((classes, size)),
        rng.standard_normal(classes),
    )
    factors, targets = rng.uniform(0.5, 2, classes) if weighted else None, targets_of(rng, rows, classes)
    options = {"class_weight": factors, "label_smoothing": 0.2, "z_loss": 0.01, "chunk_bytes": chunk_bytes}
    shares = np.ones(classes) if factors is None else factors
    losses, by_logits = terms_reference(x @ weight.T + bias, targets, shares, 0.2, 0.01)
    found, lse, one = np.empty(rows), np.empty(rows), np.empty(())
    kernels.linear_cross_entropy(x, weight, bias, targets, found, lse, **options)
    np.testing.assert_allclose(found, losses, atol=1e-12)
    right = [by_logits @ weight, by_logits.T @ x, by_logits.sum(0)]
    grads = [np.empty_like(a) for a in (x, weight, bias)]
    kernels.linear_cross_entropy_backward(np.ones(rows), x, weight, bias, targets, lse, *grads, **options)
    for actual, wanted in zip(grads, right, strict=True):
        np.testing.assert_allclose(actual, wanted, atol=1e-11)
    kernels.linear_cross_entropy_with_grads(x, weight, bias, targets, one, *grads, scale=0.5, **options)
    np.testing.assert_allclose(one, losses.sum() / 2)
    for actual, wanted in zip(grads, right, strict=True):
        np.testing.assert_allclose(actual, wanted / 2, atol=1e-11)


def test_half_precision_is_computed_in_float32(rng: np.random.Generator) -> None:
    logits = (5 * rng.standard_normal((60, 30))).astype(np.float16)
    targets, grad = targets_of(rng, 60, 30), np.ones(60, np.float16)
    losses, lse, found = np.empty(60, np.float16), np.empty(60, np.float32), np.empty_like(logits)
    kernels.cross_entropy(logits, targets, losses, lse)
    kernels.cross_entropy_backward(grad, logits, targets, lse, found)
    right = reference(logits.astype(float), targets, grad)
    for actual, wanted, bound in zip((losses, lse, found), right, (1e-3, 1e-6, 1e-3), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("chunk_bytes", [2_000, 16 << 20])
def test_a_linear_layer_of_half_precision_is_computed_in_float32(chunk_bytes: int, rng: np.random.Generator) -> None:
    given = [rng.standard_normal(shape).astype(np.float16) for shape in ((60, 8), (11, 8), (11,))]
    targets, wide = targets_of(rng, 60, 11), [a.astype(np.float32) for a in given]
    upstream, results = np.ones(60), []
    for x, weight, bias in (given, wide):
        losses, lse, one = np.empty(60, x.dtype), np.empty(60, np.float32), np.empty((), x.dtype)
        grads = [np.empty_like(a) for a in (x, weight, bias)] * 2
        kernels.linear_cross_entropy(x, weight, bias, targets, losses, lse, chunk_bytes=chunk_bytes)
        arrays = (upstream.astype(x.dtype), x, weight, bias, targets, lse, *grads[:3])
        kernels.linear_cross_entropy_backward(*arrays, chunk_bytes=chunk_bytes)
        arrays = (x, weight, bias, targets, one, *grads[3:])
        kernels.linear_cross_entropy_with_grads(*arrays, scale=0.5, chunk_bytes=chunk_bytes)
        results.append([losses, lse, one, *grads])
    for half, exact in zip(*results, strict=True):
        np.testing.assert_array_equal(half, exact.astype(half.dtype))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(7, 3), (500, 300)])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_probabilities_of_classes(
    dtype: str, shape: tuple[int, int], smoothing: float, weighted: bool, rng: np.random.Generator
) -> None:
    logits, target = (3 * rng.standard_normal(shape)).astype(dtype), rng.random(shape).astype(dtype)
    weight = rng.uniform(0.5, 2, shape[1]).astype(dtype) if weighted else None
    grad = rng.standard_normal(shape[0]).astype(dtype)
    x, factors = logits.astype(float), np.ones(shape[1]) if weight is None else weight.astype(float)
    q = ((1 - smoothing) * target + smoothing / shape[1]) * factors
    _, sums, _ = reference(x, np.zeros(shape[0], int), grad)
    losses, lse = np.empty(shape[0], dtype), np.empty(shape[0], np.float32 if dtype == "float16" else dtype)
    options = {"weight": weight, "label_smoothing": smoothing}
    kernels.soft_cross_entropy(logits, target.T.copy().T, losses, lse, **options)
    by_logits, by_target = np.empty_like(logits), np.empty_like(target)
    kernels.soft_cross_entropy_backward(grad, logits, target, lse, by_logits, by_target, **options)
    right = [
        (q * (sums[:, None] - x)).sum(1),
        (np.exp(x - sums[:, None]) * q.sum(1, keepdims=True) - q) * grad[:, None],
        (1 - smoothing) * factors * (sums[:, None] - x) * grad[:, None],
    ]
    bound = 2e-3 if dtype == "float16" else 1e-12
    for actual, wanted in zip((losses, by_logits, by_target), right, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=bound, atol=bound)
