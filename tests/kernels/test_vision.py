"""Sampling at places, and unfolding, beside their definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like


def element(x: Array, at: tuple[int, ...]) -> Array:
    """The channels of an image at a place, 0 outside."""
    inside = all(0 <= e < n for e, n in zip(at, x.shape[1:], strict=True))
    return x[(slice(None), *at)] if inside else np.zeros(len(x))


def sampled(x: Array, grid: Array, align_corners: bool) -> Array:
    """Bilinear values of images, 0 outside."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n in range(len(x)):
        for place in np.ndindex(*grid.shape[1:-1]):
            given = grid[(n, *place)][::-1]
            at = [
                (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
                for g, size in zip(given, x.shape[2:], strict=True)
            ]
            for corner in itertools.product((0, 1), repeat=len(at)):
                first = [int(np.floor(a)) + c for a, c in zip(at, corner, strict=True)]
                weight = np.prod([1 - abs(a - f) for a, f in zip(at, first, strict=True)])
                out[(n, slice(None), *place)] += weight * element(x[n], tuple(first))
    return out


def keywords(align_corners: bool, mode: str = "bilinear", padding_mode: str = "zeros") -> dict[str, Any]:
    return {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("size", [(4, 5), (3, 2, 4)])
def test_values_between_elements(size: tuple[int, ...], align_corners: bool, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, *size))
    grid = rng.uniform(-1.4, 1.4, (2, 3, 2, 4, 3)[: len(size) + 1] + (len(size),))
    expected = sampled(x, grid, align_corners)
    for source, places in zip(strided_like(x), strided_like(grid), strict=True):
        out = np.empty(expected.shape)
        kernels.grid_sample(source, places, out, **keywords(align_corners))
        np.testing.assert_allclose(out, expected, atol=1e-13)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_gradients_are_those_of_the_values(mode: str, padding_mode: str, rng: np.random.Generator) -> None:
    x, grid = rng.standard_normal((2, 3, 5, 6)), rng.uniform(-1.6, 1.6, (2, 4, 3, 2))
    grad = rng.standard_normal((2, 3, 4, 3))
    given = keywords(False, mode, padding_mode)

    def value(x: Array, grid: Array) -> float:
        out = np.empty(grad.shape)
        kernels.grid_sample(x, grid, out, **given)
        return float((out * grad).sum())

    grad_x, grad_grid = np.empty_like(x), np.empty_like(grid)
    kernels.grid_sample_backward(grad, x, grid, grad_x, grad_grid, **given)
    along, step = rng.standard_normal(x.shape), rng.standard_normal(grid.shape) * 1e-6
    np.testing.assert_allclose(value(along, grid), (grad_x * along).sum(), rtol=1e-10, atol=1e-10)
    difference = (value(x, grid + step) - value(x, grid - step)) / 2
    np.testing.assert_allclose(difference, (grad_grid * step).sum(), rtol=1e-4, atol=1e-12)


def test_one_gradient_alone(rng: np.random.Generator) -> None:
    x, grid, grad = (
        rng.standard_normal((1, 2, 4, 4)),
        rng.uniform(-1, 1, (1, 3, 3, 2)),
        rng.standard_normal((1, 2, 3, 3)),
    )
    both = np.empty_like(x), np.empty_like(grid)
    kernels.grid_sample_backward(grad, x, grid, *both, **keywords(True))
    alone = np.empty_like(x), np.empty_like(grid)
    kernels.grid_sample_backward(grad, None, grid, alone[0], None, **keywords(True))
    kernels.grid_sample_backward(grad, x, grid, None, alone[1], **keywords(True))
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
def test_places_that_are_no_numbers_are_the_first_element(padding_mode: str, rng: np.random.Generator) -> None:
    x, out = rng.standard_normal((1, 2, 3, 3)), np.empty((1, 2, 1, 1))
    kernels.grid_sample(x, np.full((1, 1, 1, 2), np.nan), out, **keywords(False, "nearest", padding_mode))
    np.testing.assert_array_equal(out.reshape(2), x[0, :, 0, 0])


def test_threads_do_not_change_samples(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x, grid = (
        rng.standard_normal((3, 8, 30, 40)).astype("float32"),
        rng.uniform(-1, 1, (3, 90, 80, 2)).astype("float32"),
    )
    grad = rng.standard_normal((3, 8, 90, 80)).astype("float32")

    def run() -> list[Array]:
        outs = [np.empty_like(grad), np.empty_like(x), np.empty_like(grid)]
        kernels.grid_sample(x, grid, outs[0], **keywords(False))
        kernels.grid_sample_backward(grad, x, grid, outs[1], outs[2], **keywords(False))
        return outs

    same_on_threads(run)


def test_unfolding_and_folding(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 5, 6))
    given = {"kernel": (2, 3), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}
    count = (3, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    parts = [padded[:, :, i : i + 5 : 2, j : j + 2] for i in range(2) for j in (0, 2, 4)]
    expected = np.stack(parts, axis=2).reshape(2, 18, 6)
    for source in strided_like(x):
        columns = np.empty((2, 18, 6))
        kernels.im2col(source, columns, count=count, **given)
        np.testing.assert_array_equal(columns, expected)
    y = rng.standard_normal((2, 18, 6))
    for source in strided_like(y):
        back = np.empty_like(x)
        kernels.col2im(source, back, count=count, **given)
        np.testing.assert_allclose((back * x).sum(), (y * expected).sum())
