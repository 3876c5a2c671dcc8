"""Rotary position embedding."""

from __future__ import annotations

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("size", "pairs"), [(8, 4), (9, 3)])
@pytest.mark.parametrize("rows", [5, 40_000])
def test_pairs_turn_as_complex_numbers(
    rows: int, size: int, pairs: int, interleaved: bool, rng: np.random.Generator
) -> None:
    x, angles = rng.standard_normal((2, rows, size)).swapaxes(0, 1), rng.standard_normal((rows, 1, pairs))
    first, second = (slice(0, pairs), slice(pairs, 2 * pairs))
    if interleaved:
        first, second = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles)
    out, back = np.empty((rows, 2, size)), np.empty((rows, 2, size))
    kernels.rotary_embedding(x, np.cos(angles), np.sin(angles), out, interleaved=interleaved)
    np.testing.assert_allclose(out[..., first], turned.real, atol=1e-12)
    np.testing.assert_allclose(out[..., second], turned.imag, atol=1e-12)
    np.testing.assert_array_equal(out[..., 2 * pairs :], x[..., 2 * pairs :])
    kernels.rotary_embedding(out, np.cos(angles), np.sin(angles), back, interleaved=interleaved, inverse=True)
    np.testing.assert_allclose(back, x, atol=1e-12)


def test_half_precision_is_computed_in_float32(rng: np.random.Generator) -> None:
    x, angles = rng.standard_normal((30, 8)).astype(np.float16), rng.standard_normal((30, 4)).astype(np.float32)
    out = np.empty_like(x)
    kernels.rotary_embedding(x, np.cos(angles), np.sin(angles), out)
    right = (x[:, :4] + 1j * x[:, 4:]).astype(np.complex64) * np.exp(1j * angles)
    np.testing.assert_array_equal(out, np.concatenate([right.real, right.imag], 1).astype(np.float16))
