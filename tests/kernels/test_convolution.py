"""Convolutions beside sums over all places, written out."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import columns, set_num_threads
from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_ import depthwise, phased_convolution, row_convolution, small_convolution

from .support import Array, strided_like


class Shape(NamedTuple):
    """Sizes of a convolution; for each axis: size, kernel, stride, padding before and after, dilation."""

    samples: int
    groups: int
    inputs: int
    features: int
    axes: tuple[tuple[int, int, int, int, int, int], ...]

    @property
    def count(self) -> tuple[int, ...]:
        return tuple((n + a + b - d * (k - 1) - 1) // s + 1 for n, k, s, a, b, d in self.axes)

    @property
    def keywords(self) -> dict[str, Any]:
        columns = list(zip(*self.axes, strict=True))
        return {"stride": columns[2], "padding": columns[3], "dilation": columns[5], "groups": self.groups}

    def arrays(self, rng: np.random.Generator, dtype: str = "float64") -> tuple[Array, Array, Array]:
        """Images, weights and results."""
        size, kernel = [axis[0] for axis in self.axes], [axis[1] for axis in self.axes]
        x = rng.standard_normal((self.samples, self.groups * self.inputs, *size)).astype(dtype)
        w = rng.standard_normal((self.groups * self.features, self.inputs, *kernel)).astype(dtype)
        y = rng.standard_normal((self.samples, self.groups * self.features, *self.count)).astype(dtype)
        return x, w, y


def pairs(shape: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Window, place in it, and the element that it sees, for all that lie in the image."""
    found = []
    for window in itertools.product(*map(range, shape.count)):
        for place in itertools.product(*(range(axis[1]) for axis in shape.axes)):
            seen = tuple(p * a[2] + k * a[5] - a[3] for p, k, a in zip(window, place, shape.axes, strict=True))
            if all(0 <= e < axis[0] for e, axis in zip(seen, shape.axes, strict=True)):
                found.append((window, place, seen))
    return found


def reference(shape: Shape, x: Array, w: Array, y: Array) -> tuple[Array, Array, Array]:
    """Results, images and weights, each from the other two."""
    g = shape.groups
    images = x.reshape(shape.samples, g, shape.inputs, *x.shape[2:])
    weights = w.reshape(g, shape.features, shape.inputs, *w.shape[2:])
    results = y.reshape(shape.samples, g, shape.features, *y.shape[2:])
    outs = np.zeros_like(results), np.zeros_like(images), np.zeros_like(weights)
    for window, place, seen in pairs(shape):
        at, by, to = (..., *seen), (..., *place), (..., *window)
        outs[0][to] += np.einsum("ngc,goc->ngo", images[at], weights[by])
        outs[1][at] += np.einsum("ngo,goc->ngc", results[to], weights[by])
        outs[2][by] += np.einsum("ngo,ngc->goc", results[to], images[at])
    return outs[0].reshape(y.shape), outs[1].reshape(x.shape), outs[2].reshape(w.shape)


SHAPES = {
    "plain": Shape(2, 1, 3, 4, ((6, 3, 1, 1, 1, 1), (5, 3, 1, 1, 1, 1))),
    "strided": Shape(3, 1, 3, 2, ((9, 3, 2, 1, 1, 1), (8, 2, 3, 0, 0, 1))),
    "dilated": Shape(2, 1, 2, 3, ((9, 3, 1, 2, 2, 2), (8, 2, 1, 0, 0, 3))),
    "strided, dilated": Shape(2, 2, 2, 1, ((11, 3, 2, 2, 2, 3), (7, 3, 2, 1, 1, 1))),
    "more after than before": Shape(1, 1, 2, 2, ((5, 2, 1, 0, 1, 1), (5, 4, 1, 1, 2, 1))),
    "groups": Shape(2, 3, 2, 2, ((5, 3, 1, 1, 1, 1), (4, 1, 1, 0, 0, 1))),
    "a channel a group": Shape(3, 5, 1, 1, ((6, 3, 1, 1, 1, 1), (6, 3, 1, 1, 1, 1))),
    "two features a channel": Shape(5, 4, 1, 2, ((9, 3, 1, 2, 1, 2), (6, 2, 1, 0, 0, 1))),
    "a channel a group, strided": Shape(2, 3, 1, 1, ((9, 3, 2, 1, 1, 1), (8, 5, 3, 2, 2, 1))),
    "a channel a group, one axis": Shape(2, 3, 1, 1, ((20, 4, 1, 3, 0, 2),)),
    "a channel a group, three axes": Shape(2, 3, 1, 1, ((4, 2, 1, 1, 0, 1), (5, 3, 1, 1, 1, 1), (3, 3, 1, 1, 1, 1))),
    "stride beyond the kernel": Shape(2, 1, 3, 2, ((9, 1, 2, 0, 0, 1), (8, 2, 4, 1, 0, 1))),
    "stride and dilation in step": Shape(2, 1, 3, 2, ((12, 3, 2, 1, 1, 2), (13, 3, 6, 2, 2, 4))),
    "pointwise": Shape(2, 1, 3, 4, ((17, 1, 1, 0, 0, 1), (18, 1, 1, 0, 0, 1))),
    "pointwise, small": Shape(9, 2, 3, 4, ((2, 1, 1, 0, 0, 1), (3, 1, 1, 0, 0, 1))),
    "one axis": Shape(2, 1, 3, 2, ((20, 4, 2, 3, 3, 1),)),
    "three axes": Shape(2, 1, 2, 3, ((4, 2, 1, 1, 1, 1), (5, 3, 2, 1, 1, 1), (3, 2, 1, 0, 0, 2))),
    "many small samples": Shape(20, 1, 2, 3, ((3, 3, 1, 1, 1, 1), (3, 3, 1, 1, 1, 1))),
}
over_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def run(shape: Shape, x: Array, w: Array, y: Array) -> list[Array]:
    """What the three kernels compute."""
    outs = [np.full(a.shape, 77, a.dtype) for a in (y, x, w)]  # kernels write all of it
    kernels.convolution(x, w, None, outs[0], **shape.keywords)
    kernels.convolution_transposed(y, w, None, outs[1], **shape.keywords)
    kernels.convolution_backward_weight(x, y, outs[2], **shape.keywords)
    return outs


@over_shapes
@pytest.mark.parametrize(
    "ways",
    [
        "what pays",
        "small, shared rows",
        "small, by remainders",
        "all places",
        "all places in pieces",
        "shared rows",
        "shared rows in pieces",
        "a channel each",
        "a channel each in pieces",
        "by remainders",
        "by remainders in pieces",
    ],
)
def test_sums_over_all_places(shape: Shape, ways: str, rng: np.random.Generator, monkeypatch: Any) -> None:
    module = importlib.import_module("stowgrad.kernels.numpy_.convolution")
    if ways.startswith("small"):
        for which in ("_small", "_small_reverse"):
            monkeypatch.setattr(module, which, getattr(module, which).__wrapped__)  # without what it remembers
        monkeypatch.setattr(small_convolution, "_SHARED_BYTES", 0 if ways.endswith("shared rows") else 1 << 30)
        monkeypatch.setattr(small_convolution, "_DEEP", 1)
        monkeypatch.setattr(phased_convolution, "_SPREAD_BYTES", -1 if ways.endswith("remainders") else 1 << 30)
        monkeypatch.setattr(phased_convolution, "_CHANNELS", 1)
    elif ways != "what pays":
        monkeypatch.setattr(module, "_small", lambda *args: None)
        monkeypatch.setattr(module, "_small_reverse", lambda *args: None)
        monkeypatch.setattr(phased_convolution, "pays", lambda *args: ways.startswith("by remainders"))
        monkeypatch.setattr(depthwise, "_SMALL_BYTES", 0 if ways.startswith("a channel") else 1 << 30)
        monkeypatch.setattr(depthwise, "_LEAST", 1)
        for which in ("pays_forward", "pays_by_weights"):
            monkeypatch.setattr(row_convolution, which, lambda *args: ways.startswith("shared"))
    if ways in ("all places in pieces", "by remainders in pieces"):
        monkeypatch.setattr(module, "_LIBRARY", module._LIBRARY._replace(block_bytes=1 << 9))
        monkeypatch.setattr(columns, "LEAST", 4)
    if ways == "a channel each in pieces":
        monkeypatch.setattr(depthwise, "_BLOCK_BYTES", 1 << 9)
        monkeypatch.setattr(depthwise, "_LEAST_BYTES", 0)
    if ways == "shared rows in pieces":
        monkeypatch.setattr(row_convolution, "_BLOCK_BYTES", 1 << 11)
        monkeypatch.setattr(row_convolution, "_LEAST", 4)
    x, w, y = shape.arrays(rng)
    for actual, expected in zip(run(shape, x, w, y), reference(shape, x, w, y), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@over_shapes
def test_strides_do_not_matter(shape: Shape, rng: np.random.Generator) -> None:
    x, w, y = shape.arrays(rng)
    expected = run(shape, x, w, y)
    for arrays in zip(strided_like(x), strided_like(w), strided_like(y), strict=True):
        for actual, right in zip(run(shape, *arrays), expected, strict=True):
            np.testing.assert_allclose(actual, right, rtol=0, atol=1e-12)


@over_shapes
def test_bias(shape: Shape, rng: np.random.Generator) -> None:
    x, w, y = shape.arrays(rng)
    expected = run(shape, x, w, y)
    for given, out, kernel, right in (
        (x, np.empty_like(y), kernels.convolution, expected[0]),
        (y, np.empty_like(x), kernels.convolution_transposed, expected[1]),
    ):
        bias = rng.standard_normal(out.shape[1])
        kernel(given, w, bias, out, **shape.keywords)
        np.testing.assert_allclose(out, right + bias.reshape(-1, *(1,) * (out.ndim - 2)), rtol=0, atol=1e-12)


LARGE = {
    "plain": Shape(5, 1, 24, 40, ((40, 3, 1, 1, 1, 1), (36, 3, 1, 1, 1, 1))),
    "strided": Shape(4, 1, 24, 40, ((41, 3, 2, 1, 1, 1), (36, 3, 2, 1, 1, 1))),
    "pointwise": Shape(4, 1, 64, 48, ((30, 1, 1, 0, 0, 1), (30, 1, 1, 0, 0, 1))),
    "few channels": Shape(3, 1, 3, 16, ((64, 7, 2, 3, 3, 1), (64, 7, 2, 3, 3, 1))),
    "a channel a group": Shape(4, 32, 1, 1, ((40, 3, 1, 1, 1, 1), (36, 3, 1, 1, 1, 1))),
    "a channel a group, large images": Shape(1, 2, 1, 1, ((120, 3, 1, 1, 1, 1), (121, 3, 1, 1, 1, 1))),
    "one axis": Shape(3, 1, 24, 40, ((2000, 3, 1, 1, 1, 1),)),
    "one axis, one sample": Shape(1, 1, 24, 40, ((6000, 5, 2, 2, 2, 1),)),
    "small, shared rows": Shape(2, 1, 12, 16, ((20, 3, 1, 1, 1, 1), (24, 3, 1, 1, 1, 1))),
    "small, strided": Shape(2, 1, 16, 16, ((28, 3, 2, 1, 1, 1), (28, 3, 2, 1, 1, 1))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", LARGE.values(), ids=LARGE)
def test_threads_do_not_change_anything(
    shape: Shape, dtype: str, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x, w, y = shape.arrays(rng, dtype)
    same_on_threads(lambda: run(shape, x, w, y))


@pytest.mark.parametrize("dtype", ["int64", "complex128"])
def test_other_dtypes(dtype: str, rng: np.random.Generator) -> None:
    shape = SHAPES["strided"]
    x, w, y = ((a * 4).astype(dtype) for a in shape.arrays(rng))
    for actual, expected in zip(run(shape, x, w, y), reference(shape, x, w, y), strict=True):
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["plain", "strided", "groups", "pointwise"])
def test_numbers_of_16_bits_are_added_up_in_float32(name: str, dtype: str, rng: np.random.Generator) -> None:
    narrow = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    shape = SHAPES[name]
    arrays = [a.astype(narrow) for a in shape.arrays(rng)]
    exact = reference(shape, *(a.astype(float) for a in arrays))
    for actual, expected in zip(run(shape, *arrays), exact, strict=True):
        error = np.abs(actual.astype(float) - expected) / (np.abs(expected) + 1e-3)
        assert error.max() < (1e-2 if dtype == "bfloat16" else 2e-3)


@pytest.mark.parametrize("name", ["small, shared rows", "small, strided", "one axis", "few channels"])
def test_large_ones_as_in_float64(name: str, rng: np.random.Generator) -> None:
    x, w, y = LARGE[name].arrays(rng)
    exact = run(LARGE[name], x, w, y)
    for actual, expected in zip(run(LARGE[name], *(a.astype(np.float32) for a in (x, w, y))), exact, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["small, shared rows", "small, strided", "one axis", "few channels"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinities_stay_where_they_are_seen(name: str, value: float, rng: np.random.Generator) -> None:
    shape = LARGE[name]
    x, w, y = shape.arrays(rng, "float32")
    ones = np.ones_like(w)
    at = tuple(size // 2 for size in x.shape[2:])
    marked = np.zeros_like(x)
    marked[(0, 0, *at)] = 1
    seen, sees = np.empty_like(y), np.empty_like(x)
    kernels.convolution(marked, ones, None, seen, **shape.keywords)
    given = np.zeros_like(x)
    given[(0, 0, *at)] = value
    found = np.empty_like(y)
    kernels.convolution(given, ones, None, found, **shape.keywords)
    np.testing.assert_array_equal(np.isfinite(found), seen == 0)
    at = tuple(size // 2 for size in y.shape[2:])
    marked, given = np.zeros_like(y), np.zeros_like(y)
    marked[(0, 0, *at)], given[(0, 0, *at)] = 1, value
    kernels.convolution_transposed(marked, ones, None, sees, **shape.keywords)
    found = np.empty_like(x)
    kernels.convolution_transposed(given, ones, None, found, **shape.keywords)
    np.testing.assert_array_equal(np.isfinite(found), sees == 0)


def test_nothing_to_do(rng: np.random.Generator) -> None:
    shape = Shape(0, 1, 2, 3, ((5, 3, 1, 1, 1, 1), (5, 3, 1, 1, 1, 1)))
    outs = run(shape, *shape.arrays(rng))
    assert [out.size for out in outs[:2]] == [0, 0]
    assert not outs[2].any()


@pytest.mark.parametrize(("groups", "stride", "axes"), [(1, 1, 2), (1, 2, 2), (64, 1, 2), (64, 2, 2), (1, 1, 1)])
def test_scratch_is_bounded(groups: int, stride: int, axes: int, rng: np.random.Generator) -> None:
    set_num_threads(2)
    channels = 32 if groups == 1 else 1
    shape = Shape(16, groups, channels, channels, ((4096 if axes == 1 else 64, 3, stride, 1, 1, 1),) * axes)
    x, w, y = shape.arrays(rng, "float32")
    pool = memory.pool(memory.CPU)
    with pool.peak_scope() as scope:
        run(shape, x, w, y)
    assert scope.peak_bytes - scope.begin_bytes < 4 * x.nbytes  # the columns of a whole call take nine times as much


def test_small_complex_convolutions_are_the_same_on_any_threads(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x = (rng.standard_normal((1, 96, 80)) + 1j).astype("complex64")
    w = (rng.standard_normal((1, 96, 1)) + 1j).astype("complex64")

    def run() -> Array:
        out = np.empty((1, 1, 80), x.dtype)
        kernels.convolution(x, w, None, out, stride=(1,), padding=(0,), dilation=(1,), groups=1)
        return out

    np.testing.assert_allclose(same_on_threads(run), np.einsum("ncp,ocq->nop", x, w), rtol=1e-5)
