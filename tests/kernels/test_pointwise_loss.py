"""Losses of elements: values, slopes, layouts, half precision, scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import numpy_ as kernels

from .support import Array

PARAMETERS = {"mse": 0.0, "l1": 0.0, "smooth_l1": 0.3, "huber": 0.3, "bce": 0.0, "bce_logits": 0.0, "kl_div": 0.0}
KINDS = [*PARAMETERS.items(), ("kl_div", 1.0)]


def value(kind: str, parameter: float, x: Array, t: Array, positive: Array | float) -> Array:
    """The loss of each element, in float64."""
    d = np.abs(x - t)
    least = np.minimum(d, parameter)
    if kind == "kl_div" and parameter:
        return np.exp(t) * (t - x)
    return {
        "mse": lambda: d * d,
        "l1": lambda: d,
        "smooth_l1": lambda: least * (d - least / 2) / parameter,
        "huber": lambda: least * (d - least / 2),
        "bce": lambda: -(t * np.log(x) + (1 - t) * np.log1p(-x)),
        "bce_logits": lambda: (1 - t) * x + (1 + (positive - 1) * t) * np.log1p(np.exp(-x)),
        "kl_div": lambda: t * (np.log(t) - x),
    }[kind]()  # type: ignore[no-any-return, no-untyped-call]


def drawn(shape: tuple[int, ...], layout: str, dtype: Any, rng: np.random.Generator) -> list[Array]:
    """Input and target, and weights that broadcast."""
    x, t = (rng.uniform(0.1, 0.9, shape).astype(dtype) for _ in range(2))
    if layout == "strided":
        x, t = x[..., ::-1], np.asfortranarray(t)
    return [x, t, rng.uniform(0.5, 2, shape[-1:]).astype(dtype), rng.uniform(0.5, 2, shape[-1:]).astype(dtype)]


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("shape", "layout"), [((7, 5), "dense"), ((7, 5), "strided"), ((600, 500), "strided")])
def test_values_and_slopes(
    shape: tuple[int, ...],
    layout: str,
    reduction: str,
    kind: str,
    parameter: float,
    rng: np.random.Generator,
    same_on_threads: Callable[[Callable[[], Any]], Any],
) -> None:
    x, t, weight, positive = drawn(shape, layout, np.float64, rng)
    positive_or_none = positive if kind == "bce_logits" else None
    losses = value(kind, parameter, x, t, positive) * weight
    reduced = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    grad = rng.standard_normal(reduced.shape)
    scale = 1 / x.size if reduction == "mean" else 1.0

    def run() -> list[Array]:
        out, by_x, by_t = np.empty(reduced.shape), np.empty(shape), np.empty(shape)
        options: dict[str, Any] = {"kind": kind, "parameter": parameter}
        kernels.pointwise_loss(x, t, weight, positive_or_none, out, reduction=reduction, **options)
        kernels.pointwise_loss_backward(grad, x, t, weight, positive_or_none, by_x, by_t, scale=scale, **options)
        return [out, by_x, by_t]

    out, by_x, by_t = same_on_threads(run)
    step = 1e-6

    def slope(dx: float, dt: float) -> Array:
        ends = [value(kind, parameter, x + s * dx, t + s * dt, positive) * weight for s in (step, -step)]
        return grad * scale * (ends[0] - ends[1]) / (2 * step)

    np.testing.assert_allclose(out, reduced, rtol=1e-12)
    near = np.abs(np.abs(x - t) - parameter) < 1e-5  # a kink: differences do not help
    near |= np.abs(x - t) < 1e-5
    for found, right in ((by_x, slope(1, 0)), (by_t, slope(0, 1))):
        np.testing.assert_allclose(found[~near], right[~near], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("kind", "parameter"), KINDS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision(kind: str, parameter: float, dtype: Any, rng: np.random.Generator) -> None:
    x, t, weight, positive = drawn((300, 41), "dense", dtype, rng)
    wide = [a.astype(np.float64) for a in (x, t, weight, positive)]
    positive_or_none = positive if kind == "bce_logits" else None
    out = np.empty((), dtype)
    kernels.pointwise_loss(x, t, weight, positive_or_none, out, kind=kind, parameter=parameter)
    right = (value(kind, parameter, wide[0], wide[1], wide[3]) * wide[2]).mean()
    np.testing.assert_allclose(out.astype(float), right, rtol=float(ml_dtypes.finfo(dtype).eps))
    assert out.dtype == dtype


@pytest.mark.parametrize("kind", ["mse", "smooth_l1", "huber"])
@pytest.mark.parametrize("size", [1, 3, 2047, 2048, 2049, 6000, 600_001])
def test_sums_of_products_that_are_not_written(
    size: int, kind: str, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x, t = (rng.uniform(-1, 1, size).astype("float32") for _ in range(2))
    expected = value(kind, PARAMETERS[kind], x.astype(float), t.astype(float), 1.0).sum()

    def run() -> Array:
        out = np.empty((), "float32")
        kernels.pointwise_loss(x, t, None, None, out, kind=kind, parameter=PARAMETERS[kind], reduction="sum")
        return out

    np.testing.assert_allclose(same_on_threads(run), expected, rtol=3e-7)


@pytest.mark.parametrize("kind", ["smooth_l1", "huber"])
@pytest.mark.parametrize("delta", [0.5, 1.0, 3.0])
def test_far_differences_and_nan(kind: str, delta: float) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0, delta, -delta], "float32")
    t, losses, by_x = np.zeros_like(x), np.empty_like(x), np.empty_like(x)
    kernels.pointwise_loss(x, t, None, None, losses, kind=kind, parameter=delta, reduction="none")
    share = 1 / delta if kind == "smooth_l1" else 1.0
    least = np.minimum(np.abs(x), delta)
    np.testing.assert_allclose(losses, least * (np.abs(x) - least / 2) * share, rtol=3e-7)
    kernels.pointwise_loss_backward(np.ones_like(x), x, t, None, None, by_x, None, kind=kind, parameter=delta)
    np.testing.assert_allclose(by_x, np.clip(x, -delta, delta) * share, rtol=3e-7)


def test_only_the_gradients_that_are_asked_for() -> None:
    x, t, grad = np.array([0.25, 0.75]), np.array([0.5, 0.5]), np.array(1.0)
    by_t = np.empty(2)
    kernels.pointwise_loss_backward(grad, x, t, None, None, None, by_t, kind="mse")
    assert by_t.tolist() == [0.5, -0.5]


def test_points_where_logarithms_are_infinite() -> None:
    x, t, out, by_x = np.array([0.0, 1.0]), np.array([1.0, 1.0]), np.empty(2), np.empty(2)
    kernels.pointwise_loss(x, t, None, None, out, kind="bce", reduction="none")
    assert out.tolist() == [100.0, 0.0]
    kernels.pointwise_loss_backward(np.ones(2), x, t, None, None, by_x, None, kind="bce")
    assert by_x.tolist() == [-1e12, 0.0]
    kernels.pointwise_loss(np.zeros(2), np.array([0.0, 1.0]), None, None, out, kind="kl_div", reduction="none")
    assert out.tolist() == [0.0, 0.0]
    kernels.pointwise_loss(np.array([-1e4, 1e4]), x, None, None, out, kind="bce_logits", reduction="none")
    assert out.tolist() == [0.0, 0.0]


def test_probabilities_are_checked() -> None:
    for wrong in (1.5, -0.5, np.nan):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            kernels.pointwise_loss(np.array([wrong]), np.zeros(1), None, None, np.empty(()), kind="bce")


@pytest.mark.parametrize(("reduction", "expected"), [("sum", 0.0), ("mean", np.nan)])
def test_nothing(reduction: str, expected: float) -> None:
    out = np.empty(())
    kernels.pointwise_loss(np.empty((0, 3)), np.empty((0, 3)), None, None, out, kind="mse", reduction=reduction)
    np.testing.assert_equal(float(out), expected)


def test_a_reduced_loss_needs_no_memory_of_the_inputs_size() -> None:
    x, t, out = np.zeros((3000, 1000), np.float32), np.zeros((3000, 1000), np.float32), np.empty((), np.float32)
    pool = memory.pool()
    with pool.peak_scope() as scope:
        kernels.pointwise_loss(x, t, None, None, out, kind="smooth_l1", parameter=1.0)
        kernels.pointwise_loss(x.T, t.T, None, None, out, kind="bce_logits")
    assert scope.peak_bytes - scope.begin_bytes < x.nbytes * 2 / 3


@pytest.mark.parametrize("kind", ["huber", "smooth_l1"])
@pytest.mark.parametrize("count", [3, 300000])
def test_the_largest_differences_have_finite_losses(kind: str, count: int) -> None:
    x, out = np.full(count, 3e38, np.float32), np.empty(count, np.float32)
    kernels.pointwise_loss(x, np.zeros_like(x), None, None, out, kind=kind, parameter=1.0, reduction="none")
    np.testing.assert_array_equal(out, x)
