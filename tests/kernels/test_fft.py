"""The Fourier transforms beside NumPy's own, at every length, factor, direction and stride."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

FORWARD = {"none": "backward", "by_root_n": "ortho", "by_n": "forward"}
INVERSE = {"none": "forward", "by_root_n": "ortho", "by_n": "backward"}
SHAPES = [(1,), (7,), (8,), (3, 4), (5, 1, 6), (0, 4), (70, 90, 7)]
TOLERANCES = {"complex64": 1e-5, "complex128": 1e-13}


def close(actual: Array, expected: Array) -> None:
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    tolerance = TOLERANCES["complex64" if actual.dtype in ("complex64", "float32") else "complex128"]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def axes_and_lengths(shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], list[int]]]:
    """The last axis or all of them, at the lengths of the input, longer and shorter."""
    chosen = [(len(shape) - 1,), tuple(range(len(shape)))]
    return [
        (axes, [max(1, shape[axis] + more) for axis in axes])
        for axes in chosen
        for more in (0, 3, -2)
        if all(shape[axis] for axis in axes)
    ]


def resized(shape: tuple[int, ...], axes: tuple[int, ...], lengths: list[int]) -> list[int]:
    sizes = list(shape)
    for axis, length in zip(axes, lengths):
        sizes[axis] = length
    return sizes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_all_coefficients(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x, complex_ = drawn(rng, shape, dtype), np.result_type(dtype, np.complex64)
    for (axes, lengths), norm, inverse in itertools.product(axes_and_lengths(shape), FORWARD, (False, True)):
        if inverse:
            expected = np.fft.ifftn(x, lengths, axes, INVERSE[norm])
        else:
            expected = np.fft.fftn(x, lengths, axes, FORWARD[norm])
        for source in strided_like(x):
            out = np.full(resized(shape, axes, lengths), np.nan, complex_)
            kernels.fft_c2c(source, out, axes=axes[::-1], inverse=inverse, norm=norm)
            close(out, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_half_of_the_coefficients(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x, complex_ = drawn(rng, shape, dtype), np.result_type(dtype, np.complex64)
    for (axes, lengths), norm in itertools.product(axes_and_lengths(shape), FORWARD):
        expected = np.fft.rfftn(x, lengths, axes, FORWARD[norm])
        for source in strided_like(x):
            out = np.full(expected.shape, np.nan, complex_)
            kernels.fft_r2c(source, out, axes=axes, length=lengths[-1], norm=norm)
            close(out, expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_back_to_real_numbers(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x = drawn(rng, shape, dtype)
    for axis, length, norm in itertools.product(range(len(shape)), (1, 4, 9), FORWARD):
        if shape[axis]:
            expected = np.fft.irfft(x, length, axis, INVERSE[norm])
            for source in strided_like(x):
                out = np.full(expected.shape, np.nan, x.real.dtype)
                kernels.fft_c2r(source, out, axis=axis, norm=norm)
                close(out, expected)


@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_the_middle_of_a_half(length: int, rng: np.random.Generator) -> None:
    x = drawn(rng, (3, length // 2 + 1, 2), "complex128")
    for source in strided_like(x):
        out = np.empty_like(x)
        kernels.fft_middle(source, out, axis=1, length=length, factor=2.0)
        factors = np.array([2.0 if 0 < k < length - k else 1.0 for k in range(length // 2 + 1)])
        np.testing.assert_array_equal(out, x * factors[:, None])


def test_threads_change_nothing(rng: np.random.Generator, same_on_threads: Callable[[Callable[[], Any]], Any]) -> None:
    x = drawn(rng, (300, 500), "complex64")

    def run() -> Array:
        out = np.empty_like(x)
        kernels.fft_c2c(x, out, axes=(1, 0), inverse=False, norm="none")
        return out

    (out,) = [same_on_threads(run)]
    close(out, np.fft.fftn(x.astype(complex)))
