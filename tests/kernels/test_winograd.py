"""Minimal filtering beside sums over windows in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from stowgrad import memory
from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels import set_num_threads
from stowgrad.kernels.numpy_ import row_convolution, winograd
from stowgrad.kernels.windows import Windows

from .support import Array, strided_like


class Shape(NamedTuple):
    """Sizes of a convolution, with channels and features of a group."""

    samples: int
    groups: int
    inputs: int
    features: int
    size: tuple[int, int]
    padding: tuple[int, int]  # before the first row and column
    counts: tuple[int, int]

    @property
    def windows(self) -> Windows:
        return Windows(self.size, self.counts, (3, 3), (1, 1), self.padding, (1, 1))

    @property
    def keywords(self) -> dict[str, Any]:
        return {"stride": (1, 1), "padding": self.padding, "dilation": (1, 1), "groups": self.groups}

    def arrays(self, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """Images, weights, a bias, and results."""
        shapes = (
            (self.samples, self.groups * self.inputs, *self.size),
            (self.groups * self.features, self.inputs, 3, 3),
            (self.groups * self.features,),
            (self.samples, self.groups * self.features, *self.counts),
        )
        x, w, b, y = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        return x, w, b, y


SHAPES = {
    "even": Shape(2, 1, 3, 4, (6, 8), (1, 1), (6, 8)),
    "odd": Shape(3, 1, 5, 7, (7, 9), (1, 1), (7, 9)),
    "groups": Shape(2, 3, 2, 3, (8, 5), (1, 1), (8, 5)),
    "no padding": Shape(2, 1, 3, 2, (8, 7), (0, 0), (6, 5)),
    "wide padding": Shape(1, 1, 3, 3, (9, 8), (2, 2), (11, 10)),
    "beyond": Shape(2, 1, 3, 3, (3, 2), (5, 4), (11, 9)),
    "more before than after": Shape(2, 1, 3, 3, (5, 6), (2, 1), (5, 5)),
    "more after than before": Shape(2, 1, 3, 3, (5, 6), (0, 1), (6, 8)),
    "cut off": Shape(2, 1, 2, 2, (9, 9), (-1, -2), (5, 4)),
    "one window": Shape(1, 1, 2, 2, (1, 1), (1, 1), (1, 1)),
    "many samples": Shape(13, 1, 6, 5, (4, 4), (1, 1), (4, 4)),
    "rows in the same lines of the cache": Shape(2, 1, 8, 8, (30, 30), (1, 1), (30, 30)),
    "many channels": Shape(2, 1, 70, 50, (12, 12), (1, 1), (12, 12)),
}
over_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
WIDE = Shape(5, 1, 48, 56, (27, 30), (1, 1), (27, 30))


def reference(shape: Shape, x: Array, w: Array, b: Array, y: Array) -> tuple[Array, Array]:
    """Results, and the gradient of the weights, in double precision."""
    box = np.zeros((*x.shape[:2], *(count + 2 for count in shape.counts)))
    for row in range(box.shape[2]):
        for column in range(box.shape[3]):
            at = row - shape.padding[0], column - shape.padding[1]
            if 0 <= at[0] < shape.size[0] and 0 <= at[1] < shape.size[1]:
                box[:, :, row, column] = x[:, :, *at]
    seen = np.lib.stride_tricks.sliding_window_view(box, (3, 3), axis=(2, 3))
    seen = seen.reshape(shape.samples, shape.groups, shape.inputs, *shape.counts, 3, 3)
    weights = w.astype(float).reshape(shape.groups, shape.features, shape.inputs, 3, 3)
    given = y.astype(float).reshape(shape.samples, shape.groups, shape.features, *shape.counts)
    results = np.einsum("ngcpqij,gocij->ngopq", seen, weights).reshape(y.shape) + b.astype(float).reshape(-1, 1, 1)
    return results, np.einsum("ngcpqij,ngopq->gocij", seen, given).reshape(w.shape)


def run(shape: Shape, x: Array, w: Array, b: Array | None, y: Array) -> tuple[Array, Array]:
    """What the two functions write."""
    outs = np.full(y.shape, 77, np.float32), np.full(w.shape, 77, np.float32)
    winograd.forward(x, w, b, outs[0], shape.windows, shape.groups)
    winograd.by_weights(x, y, outs[1], shape.windows, shape.groups)
    return outs


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take few tiles, channels and weights at a time."""
    for name, value in {
        "_MATRIX_BYTES": 1 << 7,
        "_LEAST": 4,
        "_FAIR": 1,
        "_UNPACKED": 200,
        "_SHORTEST": 1,
        "_WEIGHT_BYTES": 1,
        "_SUMS_BYTES": 1 << 12,
    }.items():
        monkeypatch.setattr(winograd, name, value)


@over_shapes
@pytest.mark.parametrize("pieces", [False, True], ids=["as it pays", "in pieces"])
def test_sums_over_windows(
    shape: Shape, pieces: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pieces:
        in_pieces(monkeypatch)
    x, w, b, y = shape.arrays(rng)
    expected = reference(shape, x, w, b, y)
    size = reference(shape, np.abs(x), np.abs(w), np.abs(b), np.abs(y))  # of the sums, without their signs
    for actual, right, whole in zip(run(shape, x, w, b, y), expected, size, strict=True):
        assert (np.abs(actual - right) <= 1e-6 * whole.max()).all()
    without = run(shape, x, w, None, y)[0] + b.reshape(-1, 1, 1)
    assert (np.abs(without - expected[0]) <= 1e-6 * size[0].max()).all()


@over_shapes
def test_small_whole_numbers_are_exact(shape: Shape, rng: np.random.Generator) -> None:
    x, w, b, y = (np.rint(3 * a) for a in shape.arrays(rng))
    for actual, right in zip(run(shape, x, w, b, y), reference(shape, x, w, b, y), strict=True):
        np.testing.assert_array_equal(actual, right)


@over_shapes
def test_strides_do_not_matter(shape: Shape, rng: np.random.Generator) -> None:
    x, w, b, y = shape.arrays(rng)
    expected = run(shape, x, w, b, y)
    for one, two, three in zip(strided_like(x), strided_like(w), strided_like(y), strict=True):
        for actual, right in zip(run(shape, one, two, b, three), expected, strict=True):
            np.testing.assert_array_equal(actual, right)
    for actual, right in zip(
        run(shape, np.broadcast_to(x[:1], x.shape), w, b, y),
        run(shape, np.ascontiguousarray(np.broadcast_to(x[:1], x.shape)), w, b, y),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, right)


@pytest.mark.parametrize("shape", [*SHAPES.values(), WIDE], ids=[*SHAPES, "wide"])
def test_threads_do_not_change_anything(
    shape: Shape, rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    arrays = shape.arrays(rng)
    same_on_threads(lambda: run(shape, *arrays))


def test_the_error_is_about_that_of_sums_over_places(rng: np.random.Generator) -> None:
    x, w, b, y = WIDE.arrays(rng)
    expected = reference(WIDE, x, w, 0 * b, y)
    direct = np.empty_like(y), np.empty_like(w)
    row_convolution.forward(x, w, None, direct[0], WIDE.windows, 1)
    row_convolution.by_weights(x, y, direct[1], WIDE.windows, 1)
    for actual, other, right in zip(run(WIDE, x, w, None, y), direct, expected, strict=True):
        error, usual = (np.sqrt(np.mean((a - right) ** 2)) for a in (actual, other))
        assert error < 2.5 * usual
        assert error < 1e-6 * np.sqrt(np.mean(right**2))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_its_own_windows_alone(value: float, rng: np.random.Generator) -> None:
    shape = Shape(4, 2, 3, 4, (9, 8), (1, 1), (9, 8))
    x, w, b, y = shape.arrays(rng)
    x[1, 1, 4, 3] = x[2, 5, 0, 7] = value
    x[2, 5, 6, 7] = -value
    with np.errstate(invalid="ignore"):
        expected = reference(shape, x, w, b, y)
        actual = run(shape, x, w, b, y)
    for found, right in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(right))
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)
    assert np.isfinite(actual[0]).mean() > 0.9
    w[2, 1, 0, 2] = value
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(run(shape, x, w, b, y)[0], reference(shape, x, w, b, y)[0], rtol=1e-4, atol=1e-4)


def test_gradients_that_are_not_finite_reach_their_own_weights_alone(rng: np.random.Generator) -> None:
    shape = Shape(3, 1, 3, 4, (6, 6), (1, 1), (6, 6))
    x, w, b, y = shape.arrays(rng)
    y[0, 2, 0, 0] = np.inf
    expected = reference(shape, x, w, 0 * b, y)[1]
    expected[2, :, 0], expected[2, :, :, 0] = np.nan, np.nan  # infinity times the zeros around the image
    with np.errstate(invalid="ignore"):
        actual = run(shape, x, w, b, y)[1]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_what_overflows_only_between_the_transforms_is_silent_and_right(rng: np.random.Generator) -> None:
    shape = Shape(3, 1, 2, 2, (6, 6), (1, 1), (6, 6))
    x, w, b, y = shape.arrays(rng)
    x[1, 0, 2, ::2], x[1, 0, 2, 1::2] = 3e38, -3e38
    w *= np.float32(1e-3)
    y *= np.float32(1e-3)
    with np.errstate(all="raise", under="ignore"):
        actual = run(shape, x, w, b, y)
    for found, right in zip(actual, reference(shape, x, w, b, y), strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_weights_that_overflow_only_in_the_transform(rng: np.random.Generator) -> None:
    shape = Shape(2, 1, 2, 2, (6, 6), (1, 1), (6, 6))
    x, w, b, y = shape.arrays(rng)
    w[0, 0] = 2e38
    x *= np.float32(1e-4)
    with np.errstate(all="raise", under="ignore"):
        actual = run(shape, x, w, b, y)[0]
    right = reference(shape, x, w, b, y)[0]
    np.testing.assert_allclose(actual, right, rtol=1e-4, atol=1e-4 * np.abs(right[:, 0]).max())
    np.testing.assert_allclose(actual[:, 1], right[:, 1], rtol=1e-4, atol=1e-4)


def test_kernels_take_it_where_it_pays(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def noted(name: str) -> Callable[..., None]:
        function = getattr(winograd, name)

        def call(*args: Any) -> None:
            taken.append(name)
            function(*args)

        return call

    for name in ("forward", "by_weights"):
        monkeypatch.setattr(winograd, name, noted(name))
    x, w, b, y = WIDE.arrays(rng)
    outs = np.empty_like(y), np.empty_like(x), np.empty_like(w)
    kernels.convolution(x, w, b, outs[0], **WIDE.keywords)
    kernels.convolution_transposed(y, w, None, outs[1], **WIDE.keywords)
    kernels.convolution_backward_weight(x, y, outs[2], **WIDE.keywords)
    assert taken == ["forward", "forward", "by_weights"]
    right = reference(WIDE, x, w, b, y)
    turned = w.transpose(1, 0, 2, 3)[..., ::-1, ::-1]
    reverse = Shape(5, 1, 56, 48, (27, 30), (1, 1), (27, 30))
    by_images = reference(reverse, y, turned, np.zeros(48, np.float32), x)[0]
    for actual, expected in zip(outs, (right[0], by_images, right[1]), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 * np.abs(expected).max() * 10)
    wide = [a.astype(float) for a in (x, w, y)]
    kernels.convolution(wide[0], wide[1], None, wide[2], **WIDE.keywords)
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("change", "forward", "by_weights"),
    [
        ({}, True, True),
        ({"dtype": "float64"}, False, False),
        ({"dtype": "float16"}, False, False),
        ({"kernel": (3, 2)}, False, False),
        ({"stride": (1, 2)}, False, False),
        ({"dilation": (2, 2)}, False, False),
        ({"size": (56,), "counts": (56,), "kernel": (3,), "stride": (1,), "dilation": (1,)}, False, False),
        ({"inputs": 16, "features": 16}, False, False),
        ({"inputs": 32, "features": 32}, False, True),
        ({"inputs": 3}, False, False),
        ({"inputs": 256, "features": 32}, True, True),
        ({"counts": (14, 14)}, False, False),
        ({"counts": (14, 14), "samples": 16}, True, True),
        ({"counts": (6, 100_000)}, False, False),
    ],
)
def test_when_it_pays(change: dict[str, Any], forward: bool, by_weights: bool) -> None:
    values = {"samples": 1, "inputs": 64, "features": 64, "dtype": "float32", **change}
    given = Windows((56, 56), (56, 56), (3, 3), (1, 1), (1, 1), (1, 1))
    windows = given._replace(**{name: values[name] for name in values if name in given._fields})
    others = values["samples"], values["inputs"], values["features"], np.dtype(values["dtype"])
    assert winograd.pays_forward(windows, *others) is forward
    assert winograd.pays_by_weights(windows, *others) is by_weights


def test_scratch_is_bounded(rng: np.random.Generator) -> None:
    set_num_threads(2)
    shape = Shape(16, 1, 48, 48, (56, 56), (1, 1), (56, 56))
    arrays = shape.arrays(rng)
    pool = memory.pool(memory.CPU)
    peaks = []
    for samples in (8, 16):
        x, w, b, y = (a[:samples] if a.ndim == 4 and len(a) == 16 else a for a in arrays)
        with pool.peak_scope() as scope:
            run(shape._replace(samples=samples), x, w, b, y)
        peaks.append(scope.peak_bytes - scope.begin_bytes)
    assert peaks[0] == peaks[1]
    assert peaks[0] < 2 * 32 * (1 << 18)  # what two tasks have, and sums of weights


def test_sums_of_many_groups_are_bounded() -> None:
    shape = Shape(8, 32, 64, 64, (56, 56), (1, 1), (56, 56))
    images = np.broadcast_to(np.zeros((), np.float32), (8, 32 * 64, 56, 56))
    out = np.empty((32 * 64, 64, 3, 3), np.float32)
    job = winograd._ByWeights(images, images, out, shape.windows, shape.groups)
    assert job.sums.nbytes <= winograd._SUMS_BYTES
