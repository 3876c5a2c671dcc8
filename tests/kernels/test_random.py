from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels
from stowgrad.kernels.numpy_.random import DRAW_TILE, bit_stream, raw_words

from .support import Array, strided_like

FILLS: list[Callable[..., None]] = [
    kernels.uniform,
    kernels.normal,
    lambda out, **at: kernels.integers(out, low=-5, high=1000, **at),
]


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_element_depends_on_key_counter_and_index_only(
    fill: Callable[..., None], dtype: str, same_on_threads: Callable[[Callable[[], Any]], Any]
) -> None:
    def run(size: int = 3 * DRAW_TILE + 1001, **at: int) -> Array:
        out = np.empty(size, dtype)
        fill(out, **({"key": 3, "counter": 5} | at))
        return out

    whole = same_on_threads(run)
    for size in (0, 1, 1000, DRAW_TILE, 2 * DRAW_TILE + 7):
        np.testing.assert_array_equal(run(size), whole[:size])
    assert (run(1000, key=4) != whole[:1000]).any()
    assert (run(1000, counter=6) != whole[:1000]).any()
    after = run(1000, counter=5 + kernels.counter_steps(whole.size))
    assert (after != whole[:1000]).any()


@pytest.mark.parametrize("key", [0, 3, 2**64 + 5, 2**127 + 1])
@pytest.mark.parametrize("counter", [0, 2**19, 2**64 - 1, 2**70 + 3])
def test_a_stream_that_is_begun_anew_gives_what_a_new_one_gives(key: int, counter: int) -> None:
    raw_words(9, 9, 0, 5)  # leaves a stream in the middle of its numbers
    for start, count in ((0, 1), (0, 7), (2 * DRAW_TILE, 1000), (0, 0)):
        expected = bit_stream(key, counter, start).random_raw(count)
        np.testing.assert_array_equal(raw_words(key, counter, start, count), expected)


def test_threads_do_not_share_a_stream() -> None:
    expected = [bit_stream(key, 0, 0).random_raw(5000) for key in range(8)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda turn: raw_words(turn % 8, 0, 0, 5000), range(200)))
    for turn, words in enumerate(found):
        np.testing.assert_array_equal(words, expected[turn % 8])


def test_moments() -> None:
    out = np.empty(400_000, "float32")
    kernels.uniform(out, key=1, counter=0, low=-2, high=4)
    assert -2 <= out.min() < -1.99
    assert 3.99 < out.max() <= 4
    assert out.mean() == pytest.approx(1, abs=0.02)
    kernels.normal(out, key=1, counter=0, mean=3, std=2)
    assert out.mean() == pytest.approx(3, abs=0.02)
    assert out.std() == pytest.approx(2, abs=0.02)
    whole = np.empty(400_000, "int32")
    kernels.integers(whole, key=1, counter=0, low=2, high=6)
    assert np.bincount(whole, minlength=6)[2:].min() > 98_000
    half = np.empty((100, 100), "float16")
    kernels.normal(half, key=1, counter=0)
    assert half.std() == pytest.approx(1, abs=0.05)


def test_permutation() -> None:
    out, other = np.empty((2, 1000), np.int64)
    kernels.permutation(out, key=1, counter=0)
    kernels.permutation(other, key=1, counter=1)
    np.testing.assert_array_equal(np.sort(out), np.arange(1000))
    assert (out != other).any()


def drop(x: Array, p: float, **at: int) -> tuple[Array, Array]:
    out, bits = np.empty(x.shape, x.dtype), np.empty(kernels.packed_size(x.size), np.uint8)
    kernels.dropout(x, out, bits, p=p, **({"key": 9, "counter": 2} | at))
    return out, bits


@pytest.mark.parametrize("p", [0.0, 1e-4, 0.1, 1 / 3, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout(p: float, dtype: str, same_on_threads: Callable[[Callable[[], Any]], Any]) -> None:
    x = np.linspace(1, 2, 5 * DRAW_TILE + 13).astype(dtype)
    out, bits = same_on_threads(lambda: drop(x, p))
    keep = np.unpackbits(bits, count=x.size).astype(bool)
    scale = 1 / (1 - p) if p < 1 else 1
    np.testing.assert_allclose(out, np.where(keep, x * x.dtype.type(scale), 0), rtol=1e-6)
    spread = np.sqrt(p * (1 - p) / x.size)
    assert abs((~keep).mean() - p) <= 5 * spread
    grad_x = np.empty_like(x)
    kernels.dropout_backward(x, bits, grad_x, p=p)
    np.testing.assert_array_equal(grad_x, out)
    again = np.empty_like(bits)
    kernels.dropout_mask(again, size=x.size, p=p, key=9, counter=2)
    np.testing.assert_array_equal(again, bits)


def test_dropout_depends_on_the_index_only_and_works_in_place_at_any_strides() -> None:
    x = np.ones(2 * DRAW_TILE + 16)
    out, bits = drop(x, 0.3)
    short, short_bits = drop(x[: DRAW_TILE + 24], 0.3)
    np.testing.assert_array_equal(short, out[: DRAW_TILE + 24])
    np.testing.assert_array_equal(short_bits, bits[: len(short_bits)])
    assert (drop(x, 0.3, counter=3)[1] != bits).any()
    square = np.arange(1.0, 301.0).reshape(15, 20)
    expected, square_bits = drop(square, 0.3)
    for variant in strided_like(square):
        np.testing.assert_array_equal(drop(variant, 0.3)[0], expected)
    grad_x = square.copy()
    kernels.dropout_backward(grad_x, square_bits, grad_x, p=0.3)
    np.testing.assert_array_equal(grad_x, expected)


@pytest.mark.parametrize("shape", [(), (0,), (3,)])
def test_dropout_of_few(shape: tuple[int, ...]) -> None:
    out, bits = drop(np.full(shape, np.inf), 1.0)
    assert (out == 0).all()
    assert (bits == 0).all()
