"""Losses, bags of a table, rotary embedding, and attention's mask and dropout on CuPy against those on NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import backend

from ..fake_cupy.places import PLACES, cupy_at
from .test_attention_mask import DRAW, MASKS, by_the_matrix
from .test_cupy_kernels import compare, run_on
from .test_pointwise_loss import KINDS

Rng = np.random.Generator
FLOATS = [np.float32, np.float64]


@pytest.fixture(scope="module", params=PLACES)
def cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cupy_at(request.param) as module:
        yield module


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7, 5)])
def test_pointwise_losses(
    shape: tuple[int, ...], reduction: str, kind: str, parameter: float, cupy: Any, rng: Rng
) -> None:
    x, t = (np.array(rng.uniform(0.1, 0.9, shape)) for _ in range(2))
    weights = [rng.uniform(0.5, 2, shape[-1:]) if weighted else None for weighted in (True, kind == "bce_logits")]
    out = np.zeros(shape if reduction == "none" else ())
    options: dict[str, Any] = {"kind": kind, "parameter": parameter}
    compare(cupy, "pointwise_loss", x, t, *weights, out, reduction=reduction, **options)
    grad = np.array(rng.standard_normal(out.shape))
    compare(
        cupy, "pointwise_loss_backward", grad, x, t, *weights, np.zeros(shape), np.zeros(shape), scale=2.0, **options
    )
    if reduction != "none":
        compare(cupy, "pointwise_loss_backward", grad, x.T, t.T, *[None] * 3, np.zeros(shape[::-1]), **options)


def test_probabilities_are_checked(cupy: Any) -> None:
    x = cupy.full((2,), 1.5, np.float64)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        backend("cuda").pointwise_loss(x, x, None, None, cupy.empty((), np.float64), kind="bce")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_terms_of_losses_of_classes(smoothing: float, weighted: bool, cupy: Any, rng: Rng) -> None:
    x, weight, bias = rng.standard_normal((7, 4)), rng.standard_normal((5, 4)), rng.standard_normal(5)
    targets = np.array([0, 4, -100, 2, 2, 1, -100])
    factors = rng.uniform(0.5, 2, 5) if weighted else None
    losses, lse, grad, logits = np.zeros(7), np.zeros(7), rng.standard_normal(7), rng.standard_normal((7, 5))
    options = {"weight": factors, "label_smoothing": smoothing}
    compare(cupy, "cross_entropy", logits, targets, losses, lse, **options)
    compare(cupy, "cross_entropy", logits[:, ::1].T.copy().T, targets, losses, lse, **options)
    compare(cupy, "cross_entropy_backward", grad, logits, targets, lse, np.zeros_like(logits), **options)
    linear = {"class_weight": factors, "label_smoothing": smoothing, "z_loss": 0.1, "chunk_bytes": 64}
    compare(cupy, "linear_cross_entropy", x, weight, bias, targets, losses, lse, **linear)
    outs = [np.zeros_like(a) for a in (x, weight, bias)]
    compare(cupy, "linear_cross_entropy_backward", grad, x, weight, bias, targets, lse, *outs, **linear)
    arguments = (x, weight, bias, targets, np.zeros(()), *outs)
    compare(cupy, "linear_cross_entropy_with_grads", *arguments, scale=0.5, **linear)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 5, 3, 4)])
def test_likelihoods_of_classes(shape: tuple[int, ...], weighted: bool, cupy: Any, rng: Rng) -> None:
    x, weight = rng.standard_normal(shape), rng.uniform(0.5, 2, 5) if weighted else None
    rows = shape[:1] + shape[2:] if len(shape) > 1 else ()
    targets = np.array(rng.integers(0, 5, rows))
    if rows:
        targets.reshape(-1)[::3] = -100
    grad = np.array(rng.standard_normal(rows))
    compare(cupy, "nll_loss", x, targets, np.zeros(rows), weight=weight)
    others = np.where(targets < 0, 2, targets).astype(np.int32)
    compare(cupy, "nll_loss", x, others, np.zeros(rows), weight=weight, ignore_index=2)
    compare(cupy, "nll_loss_backward", grad, targets, np.zeros(shape), weight=weight)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bags(dtype: type, cupy: Any, rng: Rng) -> None:
    table, indices = rng.standard_normal((9, 4)).astype(dtype), rng.integers(0, 9, 30)
    starts, factors = np.array([0, 3, 3, 20, 30]), rng.standard_normal(30).astype(dtype)
    out, rows, grad = np.zeros((4, 4), dtype), np.zeros(30, np.int64), rng.standard_normal((4, 4)).astype(dtype)
    compare(cupy, "rows_of_bags", starts, rows)
    compare(cupy, "embedding_bag", table, indices, starts, factors, out)
    compare(cupy, "embedding_bag", table, indices, starts, None, out)
    compare(cupy, "embedding_bag_max", table, indices, starts, out, np.zeros((4, 4), np.int64), padding_idx=2)
    compare(cupy, "embedding_bag_factors_backward", grad, table, indices, rows, np.zeros(30, dtype))
    options = {"rows": rows, "factors": factors, "by_frequency": True, "padding_idx": 2}
    compare(cupy, "embedding_backward", grad, indices, np.zeros_like(table), **options)
    for norm_type in (1.0, 2.0, np.inf):
        compare(cupy, "renorm_rows", table.copy(), indices, max_norm=0.7, norm_type=norm_type)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_rotary_embedding(inverse: bool, interleaved: bool, cupy: Any, rng: Rng) -> None:
    x, angles = rng.standard_normal((2, 5, 9)), rng.standard_normal((5, 3))
    out = np.zeros_like(x)
    options = {"interleaved": interleaved, "inverse": inverse}
    compare(cupy, "rotary_embedding", x, np.cos(angles), np.sin(angles), out, **options)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss(zero_infinity: bool, cupy: Any, rng: Rng) -> None:
    targets = np.array([[1, 2, 2], [3, 1, 0], [0, 0, 0], [1, 1, 1], [2, 3, 1], [1, 2, 0], [0, 0, 0]])
    inputs, outputs = np.array([8, 5, 8, 4, 3, 0, 0]), np.array([3, 2, 0, 3, 3, 2, 0])
    logits = rng.standard_normal((8, 7, 4))
    log_probs = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    losses = np.zeros(7)
    compare(cupy, "ctc_loss", log_probs, targets, inputs, outputs, losses)
    grad = rng.standard_normal(7)
    arrays = (grad, log_probs, targets, inputs, outputs, losses, np.zeros_like(log_probs))
    compare(cupy, "ctc_loss_backward", *arrays, zero_infinity=zero_infinity)


@pytest.mark.parametrize("budget", [64, 1 << 20])
@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("causal", [False, True])
def test_the_gradient_of_attentions_mask(
    causal: bool, shape: str, budget: int, cupy: Any, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("stowgrad.kernels.cupy_.attention"), "_SCORE_BYTES", budget)
    q, k, v = (rng.standard_normal(s) for s in ((2, 4, 7, 5), (2, 2, 6, 5), (2, 2, 6, 3)))
    mask = rng.standard_normal(MASKS[shape](2, 4, 7, 6))
    options: dict[str, Any] = {"scale": 0.4, "causal": causal}
    out, lse = np.zeros((2, 4, 7, 3)), np.zeros((2, 4, 7))
    compare(cupy, "attention", q, k, v, out, lse, mask=mask, **options)
    grad = rng.standard_normal(out.shape)
    compare(cupy, "attention_mask_backward", grad, q, k, v, mask, out, lse, np.zeros_like(mask), **options)


@pytest.mark.parametrize("budget", [64, 1 << 20])
@pytest.mark.parametrize("p", [0.3, 1.0])
def test_attention_with_dropout(p: float, budget: int, cupy: Any, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("stowgrad.kernels.cupy_.attention"), "_SCORE_BYTES", budget)
    q, k, v, grad = (rng.standard_normal(s) for s in ((2, 4, 7, 5), (2, 2, 6, 5), (2, 2, 6, 3), (2, 4, 7, 3)))
    mask, draw = rng.standard_normal((7, 6)), {**DRAW, "p": p}
    (dropped,), _ = run_on(cupy, "attention_dropped", [np.zeros((2, 4, 7, 6), bool)], draw)
    kept = ~dropped / (1 - p) if p < 1 else np.zeros(dropped.shape)
    *right, ds = by_the_matrix(q, k, v, grad, mask, kept)
    options: dict[str, Any] = {"scale": 0.3, "causal": False, **draw}
    arrays = [q, k, v, np.zeros(grad.shape), np.zeros((2, 4, 7))]
    (*_, out, lse), _ = run_on(cupy, "attention", arrays, {"mask": mask, **options})
    grads = [np.zeros_like(a) for a in (q, k, v)]
    found, _ = run_on(cupy, "attention_backward", [grad, q, k, v, out, lse, *grads], {"mask": mask, **options})
    (*_, by_mask), _ = run_on(
        cupy, "attention_mask_backward", [grad, q, k, v, mask, out, lse, np.zeros((7, 6))], options
    )
    for actual, wanted in zip([out, *found[6:], by_mask], [*right, ds.sum((0, 1))], strict=True):
        np.testing.assert_allclose(actual, wanted, atol=1e-12)


def test_dropout_drops_its_share(cupy: Any) -> None:
    (dropped,), _ = run_on(cupy, "attention_dropped", [np.zeros((2, 3, 50, 40), bool)], {**DRAW, "p": 0.3})
    assert abs(dropped.mean() - 0.3) < 4 * np.sqrt(0.21 / dropped.size)


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_half_precision_of_attention(p: float, cupy: Any, rng: Rng) -> None:
    half = np.float16
    q, k, v, grad = (
        rng.standard_normal(s).astype(half) for s in ((2, 4, 7, 5), (2, 2, 6, 5), (2, 2, 6, 3), (2, 4, 7, 3))
    )
    options: dict[str, Any] = {"scale": 0.3, "causal": False, **DRAW, "p": p}
    arrays = [q, k, v, np.zeros(grad.shape, half), np.zeros((2, 4, 7), np.float32)]
    (*_, out, lse), _ = run_on(cupy, "attention", arrays, options)
    wide = [a.astype(np.float32) for a in (q, k, v)]
    (*_, right, _), _ = run_on(cupy, "attention", [*wide, np.zeros(grad.shape, np.float32), lse * 0], options)
    np.testing.assert_allclose(out, right, atol=2e-3)
    found, _ = run_on(cupy, "attention_backward", [grad, q, k, v, out, lse, q * 0, k * 0, v * 0], options)
    assert all(array.dtype == half and np.isfinite(array).all() for array in found[6:])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities(smoothing: float, weighted: bool, cupy: Any, rng: Rng) -> None:
    logits, target, grad = rng.standard_normal((7, 5)), rng.random((7, 5)), rng.standard_normal(7)
    options = {"weight": rng.uniform(0.5, 2, 5) if weighted else None, "label_smoothing": smoothing}
    losses, lse = np.zeros(7), np.zeros(7)
    compare(cupy, "soft_cross_entropy", logits, target, losses, lse, **options)
    arrays = (grad, logits, target, lse, np.zeros((7, 5)), np.zeros((7, 5)))
    compare(cupy, "soft_cross_entropy_backward", *arrays, **options)
    turned = (logits.T.copy().T, target.T.copy().T)
    compare(cupy, "soft_cross_entropy", *turned, losses, lse, **options)


def test_half_precision_of_losses_of_classes(cupy: Any, rng: Rng) -> None:
    x, weight, bias = (rng.standard_normal(shape).astype(np.float16) for shape in ((7, 4), (5, 4), (5,)))
    targets, losses, lse = np.array([0, 4, -100, 2, 2, 1, -100]), np.zeros(7, np.float16), np.zeros(7, np.float32)
    logits, grad, target = (x @ weight.T), np.ones(7, np.float16), rng.random((7, 5)).astype(np.float16)
    outs = [np.zeros_like(a) for a in (x, weight, bias)]
    calls: dict[str, tuple[Any, ...]] = {
        "cross_entropy": (logits, targets, losses, lse),
        "cross_entropy_backward": (grad, logits, targets, lse, np.zeros_like(logits)),
        "soft_cross_entropy": (logits, target, losses, lse),
        "soft_cross_entropy_backward": (grad, logits, target, lse, np.zeros_like(logits), np.zeros_like(logits)),
        "linear_cross_entropy": (x, weight, bias, targets, losses, lse),
        "linear_cross_entropy_backward": (grad, x, weight, bias, targets, lse, *outs),
    }
    for name, arguments in calls.items():
        compare(cupy, name, *arguments, tolerance=1e-2)
    arguments = (x, weight, bias, targets, np.zeros((), np.float16), *outs)
    compare(cupy, "linear_cross_entropy_with_grads", *arguments, scale=0.2, tolerance=1e-2)
