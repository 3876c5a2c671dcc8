"""Triangles of matrices, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import strided_like

DTYPES = ["bool", "uint8", "float16", "int32", "float32", "float64", "complex64", "complex128"]
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (5, 7), (7, 5), (2, 3, 4), (300, 400), (2, 600, 700)]
FAR = 10**6


@pytest.mark.parametrize(
    "shape", [(0, 0), (0, 3), (3, 0), (1, 1), (5, 7), (7, 5), (2, 3, 4), (300, 400), (2, 600, 700)]
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(shape: tuple[int, ...], dtype: str, upper: bool, rng: np.random.Generator) -> None:
    x = (5 * rng.standard_normal(shape)).astype(dtype)
    keep = np.triu if upper else np.tril
    for diagonal in (-FAR, -shape[-2], 1 - shape[-2], -2, 0, 1, shape[-1] - 1, shape[-1], FAR):
        for source in strided_like(x):
            out = np.empty_like(x)
            kernels.triangle(source, out, diagonal=diagonal, upper=upper)
            np.testing.assert_array_equal(out, keep(x, diagonal))
            kernels.triangle(out, out, diagonal=diagonal, upper=upper)
            np.testing.assert_array_equal(out, keep(x, diagonal))


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex128"])
def test_what_is_left_out_is_zero_whatever_was_there(dtype: str) -> None:
    x = np.array([[np.nan, np.inf], [-0.0, np.nan]], dtype)
    out = np.empty_like(x)
    kernels.triangle(x, out, diagonal=-1, upper=False)
    np.testing.assert_array_equal(out, np.array([[0, 0], [-0.0, 0]], dtype))
    assert np.signbit(out.real).tolist() == [[False, False], [True, False]]
