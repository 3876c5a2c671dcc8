"""Sums into overlapping views, and padded and triangular copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.geometry import meeting_dims, reach_of

from .support import Array, strided_like

Rng = np.random.Generator
VIEWS = [
    ((4, 3), (1, 1)),
    ((4, 3), (0, 1)),
    ((3, 4), (4, 1)),
    ((2, 3, 4), (1, 0, 2)),
    ((5,), (0,)),
    ((2, 2, 2, 2), (1, 7, 7, 1)),
    ((), ()),
    ((0, 3), (1, 1)),
    ((100, 400), (3, 1)),
]


@pytest.mark.parametrize(("shape", "steps"), VIEWS)
def test_add_overlapping(shape: tuple[int, ...], steps: tuple[int, ...], rng: Rng) -> None:
    x = rng.standard_normal(shape)
    size = reach_of((shape, steps, 0))[1] + 1
    memory, expected = np.ones(size), np.ones(size)
    flat = sum(
        (np.arange(n).reshape(-1, *[1] * (len(shape) - d - 1)) * s for d, (n, s) in enumerate(zip(shape, steps)))
    )
    np.add.at(expected, np.broadcast_to(np.asarray(flat, np.int64), shape), x)
    strides = tuple(8 * step for step in steps)
    kernels.add_overlapping(x, np.lib.stride_tricks.as_strided(memory, shape, strides))
    np.testing.assert_allclose(memory, expected, rtol=1e-12)


def test_dimensions_that_meet() -> None:
    assert meeting_dims((3, 4), (4, 1)) == []
    assert meeting_dims((3, 4), (3, 1)) == [0]
    assert meeting_dims((4, 1, 3), (1, 1, 1)) == [2]


def test_restride(rng: Rng) -> None:
    x, out = rng.standard_normal((2, 3)), np.empty((3, 2))
    kernels.restride(x, out, source=((2, 3), (1, 1), 0), target=((3, 2), (1, 3), -1))
    line = np.array([0.0, x[0, 0], x[0, 1] + x[1, 0], x[0, 2] + x[1, 1], x[1, 2], 0.0])
    np.testing.assert_allclose(out, [[line[0], line[3]], [line[1], line[4]], [line[2], line[5]]])


# -- copies with elements left out or repeated -------------------------------------------------------------------------


@pytest.mark.parametrize("dtypes", [("float32", "float32"), ("float32", "float64"), ("int64", "float32")])
@pytest.mark.parametrize(
    ("shape", "order"),
    [((256, 256), (1, 0)), ((300, 512), (1, 0)), ((3, 40, 256, 5), (0, 3, 1, 2)), ((256, 1), (1, 0))],
)
def test_copies_of_what_lies_in_another_order(
    shape: tuple[int, ...], order: tuple[int, ...], dtypes: tuple[str, str], rng: Rng
) -> None:
    x = (100 * rng.standard_normal(shape)).astype(dtypes[0]).transpose(order)
    out = np.empty(x.shape, dtypes[1])
    kernels.copy(x, out)
    np.testing.assert_array_equal(out, x.astype(dtypes[1]))


@pytest.mark.parametrize("diagonal", [-9, -1, 0, 2, 7])
@pytest.mark.parametrize("upper", [True, False])
def test_triangle(diagonal: int, upper: bool, rng: Rng) -> None:
    for shape in ((4, 5), (2, 5, 3), (600, 500), (2, 0, 3)):
        values = rng.standard_normal(shape)
        expected = (np.triu if upper else np.tril)(values, diagonal)
        for x in strided_like(values)[: 4 if 0 < values.size < 1000 else 1]:
            out = np.empty(shape)
            kernels.triangle(x, out, diagonal=diagonal, upper=upper)
            np.testing.assert_array_equal(out, expected)
        kernels.triangle(values, values, diagonal=diagonal, upper=upper)
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("upper", [True, False])
def test_what_a_triangle_leaves_out_is_zero_whatever_it_was(dtype: str, upper: bool, rng: Rng) -> None:
    x = rng.standard_normal((30, 300)).astype(dtype)
    if dtype != "int64":
        x[::2, ::3], x[1::2, ::5], x[::3, 1::2] = np.nan, np.inf, -0.0
    stays = (np.triu if upper else np.tril)(np.ones(x.shape, bool), 3)
    out = np.empty_like(x)
    kernels.triangle(x, out, diagonal=3, upper=upper)
    assert out[stays].tobytes() == x[stays].tobytes()
    assert not any(out[~stays].tobytes())


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
PADS: list[Any] = [((2, 1, 2),), ((1, 0, 3), (2, 2, 0)), ((0, 1, 1), (1, 2, 2), (2, 3, 1))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", PADS)
def test_pad_edges(mode: str, pads: Any, rng: Rng) -> None:
    x = rng.standard_normal((3, 4, 5))
    widths = [(0, 0)] * 3
    for dim, before, behind in pads:
        widths[dim] = (before, behind)
    expected: Array = np.pad(x, widths, mode=MODES[mode])  # type: ignore[call-overload]
    for given in strided_like(x):
        out = np.empty(expected.shape)
        kernels.pad_edges(given, out, pads=pads, mode=mode)
        np.testing.assert_array_equal(out, expected)
    grad = rng.standard_normal(expected.shape)
    sums = np.zeros(60)
    np.add.at(sums, np.pad(np.arange(60).reshape(3, 4, 5), widths, mode=MODES[mode]), grad)  # type: ignore[call-overload]
    for given in strided_like(grad):
        out = np.empty(x.shape)
        kernels.pad_edges_backward(given, out, pads=pads, mode=mode)
        np.testing.assert_allclose(out.reshape(-1), sums, rtol=1e-12)
