"""The Fourier transforms on CuPy against those on NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ..fake_cupy.places import PLACES, cupy_at
from .test_cupy_kernels import compare

NORMS = ["none", "by_root_n", "by_n"]


@pytest.fixture(scope="module", params=PLACES)
def cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cupy_at(request.param) as module:
        yield module


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("lengths", [(4, 5), (6, 3)])
def test_transforms(cupy: Any, norm: str, lengths: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    real = rng.standard_normal((3, 4, 5)).astype(np.float32)
    x = (real + 1j * rng.standard_normal((3, 4, 5))).astype(np.complex64)
    out = np.zeros((3, *lengths), np.complex64)
    for inverse in (False, True):
        compare(cupy, "fft_c2c", x, out.copy(), axes=(2, 1), inverse=inverse, norm=norm, tolerance=1e-5)
        compare(cupy, "fft_c2c", real, out.copy(), axes=(2, 1), inverse=inverse, norm=norm, tolerance=1e-5)
    half = np.zeros((3, lengths[0], lengths[1] // 2 + 1), np.complex64)
    compare(cupy, "fft_r2c", real, half, axes=(1, 2), length=lengths[1], norm=norm, tolerance=1e-5)
    compare(cupy, "fft_c2r", x, np.zeros((3, 4, lengths[1]), np.float32), axis=2, norm=norm)


@pytest.mark.parametrize("length", [4, 5])
def test_the_middle_of_a_half(cupy: Any, length: int) -> None:
    x = np.arange(6).reshape(3, 2) + 1j
    compare(cupy, "fft_middle", x, np.zeros_like(x), axis=0, length=length, factor=0.5)
