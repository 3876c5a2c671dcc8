from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels.numpy_ import bits, elementwise, tiling

from .support import Array, strided_like

UNARY = ["negative", "abs", "sign", "square", "exp", "sin", "cos", "tanh", "arctan", "expm1", "floor", "isnan"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "hypot", "arctan2", "less", "equal", "greater_equal"]
SHAPES = [(), (0,), (3, 0, 2), (1,), (5, 7), (3, 100_001), (700_000,)]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary(name: str, shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(dtype)
    expected = np.asarray(getattr(np, name)(x))
    for variant in strided_like(x):
        out = np.empty(shape, expected.dtype)
        getattr(elementwise, name)(variant, out)
        # NumPy's own results differ in the last place between strides.
        np.testing.assert_allclose(out, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("shape_x", "shape_y"),
    [
        ((), ()),
        ((0,), (1,)),
        ((3, 1), (1, 4)),
        ((600, 1000), (600, 1000)),
        ((600, 1000), (1000,)),
        ((600, 1), (1, 999)),
    ],
)
def test_binary_broadcasts(
    name: str, shape_x: tuple[int, ...], shape_y: tuple[int, ...], rng: np.random.Generator
) -> None:
    x, y = rng.standard_normal(shape_x).astype("float32"), rng.standard_normal(shape_y).astype("float32")
    expected = np.asarray(getattr(np, name)(x, y))
    out = np.empty(expected.shape, expected.dtype)
    getattr(elementwise, name)(x, y, out)
    np.testing.assert_allclose(out, expected, rtol=4 * np.finfo("float32").eps)


@pytest.mark.parametrize("size", [10, 600_000])
def test_a_python_number_does_not_widen_float32(size: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal(size).astype("float32")
    out = np.empty_like(x)
    elementwise.multiply(x, 0.1, out)
    np.testing.assert_array_equal(out, x * np.float32(0.1))
    elementwise.subtract(0.1, x, out)
    np.testing.assert_array_equal(out, np.float32(0.1) - x)


@pytest.mark.parametrize("size", [10, 600_000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex128"])
def test_where(size: int, dtype: str, rng: np.random.Generator) -> None:
    condition = rng.random(size) < 0.4
    x, y = rng.standard_normal(size).astype(dtype), rng.standard_normal(size).astype(dtype)
    if dtype.startswith("float"):
        x[:2], y[:2] = [np.nan, np.inf], [-np.inf, np.nan]
    out = np.empty_like(x)
    elementwise.where(condition, x, y, out)
    np.testing.assert_array_equal(out, np.where(condition, x, y))
    for number in (2, 0):
        constant = np.asarray(number, dtype)
        elementwise.where(condition, number, y, out)
        np.testing.assert_array_equal(out, np.where(condition, constant, y))
        elementwise.where(condition, y, number, out)
        np.testing.assert_array_equal(out, np.where(condition, y, constant))
    elementwise.where(condition, x, y, y)  # in place
    np.testing.assert_array_equal(y, np.where(condition, x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("exponent", [2, 3.0, 2.5])
def test_power_by_a_number(exponent: float, dtype: str, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(0.1, 2, 3000), [0.0, np.inf, np.nan]]).astype(dtype)
    out = np.empty_like(x)
    elementwise.power(x, exponent, out)
    np.testing.assert_allclose(out, x.astype(float) ** exponent, rtol=2 * np.finfo(dtype).eps)
    elementwise.power(x, exponent, x)  # in place
    np.testing.assert_array_equal(x, out)


def test_copy_casts_and_transposes(rng: np.random.Generator) -> None:
    x = rng.standard_normal((900, 700))
    out = np.empty((700, 900), "float32")
    elementwise.copy(x.T, out)
    np.testing.assert_array_equal(out, x.T.astype("float32"))


@pytest.mark.parametrize("size", [0, 5, 600_000])
def test_in_place_sums_and_fill(size: int, rng: np.random.Generator) -> None:
    x, out = rng.standard_normal(size), np.empty(size)
    elementwise.fill(out, 3)
    assert (out == 3).all()
    elementwise.accumulate_(x, out)
    np.testing.assert_array_equal(out, 3 + x)
    elementwise.axpy_(-2.0, x, out)
    np.testing.assert_array_equal(out, 3 + x + -2.0 * x)
    elementwise.scale_(out, 0.5)
    np.testing.assert_array_equal(out, (3 + x + -2.0 * x) * 0.5)


@pytest.mark.parametrize("size", [5, 600_000])
def test_rsqrt_and_clamp(size: int, rng: np.random.Generator) -> None:
    x = rng.random(size) + 0.1
    out = np.empty(size)
    elementwise.rsqrt(x, out)
    np.testing.assert_allclose(out, x**-0.5, rtol=1e-15)
    elementwise.clamp(x, out, low=0.3)
    np.testing.assert_array_equal(out, np.maximum(x, 0.3))
    elementwise.clamp(x, out, low=0.3, high=0.5)
    np.testing.assert_array_equal(out, np.clip(x, 0.3, 0.5))


@pytest.mark.parametrize("shape", [(3, 300_001), (2, 3, 400, 301), (700_000, 2)])
def test_blocks_of_any_strides_cover_each_element_once(shape: tuple[int, ...]) -> None:
    for order in itertools.permutations(range(len(shape)), len(shape)):
        counts = np.zeros([shape[axis] for axis in order], np.float32).transpose(np.argsort(order))

        def body(tile: Array, scratch: Array) -> None:
            scratch.fill(1)
            np.add(tile, scratch, tile)

        tiling.map_tiles(body, [counts], [np.dtype(np.float32)])
        assert (counts == 1).all()


@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 3_000_001])
def test_tiles_are_even_and_begin_on_whole_bytes_of_a_mask(size: int) -> None:
    tile = tiling.tile_size(size, np.dtype(np.float32))
    assert tile <= 1 << 18
    if size > 1 << 18:
        assert tile % 8 == 0
        assert -(-size // tile) >= 2


def test_threads_do_not_change_results(
    rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    x = rng.standard_normal(1_000_003).astype("float32")

    def run() -> list[Array]:
        outs = [np.empty_like(x), np.empty_like(x)]
        elementwise.tanh(x, outs[0])
        elementwise.exp(x[::-1], outs[1])
        return outs

    same_on_threads(run)


def test_packed_size() -> None:
    assert [bits.packed_size(count) for count in (0, 1, 8, 9)] == [0, 1, 1, 2]


@pytest.mark.parametrize("columns", [100, 300, 5000, 9000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_as_they_lie(columns: int, dtype: str, rng: np.random.Generator) -> None:
    # Strided and broadcast rows bypass NumPy's buffer, whose size is the caller's again afterwards.
    size = np.getbufsize()
    wide = rng.standard_normal((70, columns + 3)).astype(dtype)
    x, y, row, column = wide[:, 1:-2], wide[:, 2:-1], wide[0, :-3], wide[:, :1]
    for other in (y, row, column, x):
        out = np.empty_like(wide)
        elementwise.add(x, other, out[:, 2:-1])
        np.testing.assert_array_equal(out[:, 2:-1], x + other)
        elementwise.less(x, other, keep := np.empty(x.shape, bool))
        np.testing.assert_array_equal(keep, x < other)
    elementwise.add(x, row.astype("float32"), out[:, 2:-1])  # to be cast
    np.testing.assert_array_equal(out[:, 2:-1], x + row.astype("float32"))
    assert np.getbufsize() == size


def test_the_buffer_is_the_callers_after_an_error() -> None:
    size = np.getbufsize()
    with pytest.raises(FloatingPointError), np.errstate(divide="raise"):
        elementwise.divide(np.ones((40, 600))[:, 1:], np.zeros((40, 599)), np.empty((40, 599)))
    assert np.getbufsize() == size
