"""The kernels on CuPy that read and write by number, by stride and by mask, against those on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import backend, numpy_

from .test_cupy_kernels import _on_device, compare
from .test_cupy_kernels import cupy as cupy  # a fixture

Rng = np.random.Generator
DTYPES = ["float64", "float32", "int64"]
over_dtypes = pytest.mark.parametrize("dtype", DTYPES)


def draw(rng: Rng, dtype: str, *sizes: int) -> np.ndarray[Any, Any]:
    return rng.integers(-3, 4, sizes).astype(dtype)


@over_dtypes
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_by_number_for_each_element(axis: int, dtype: str, cupy: Any, rng: Rng) -> None:
    index = rng.integers(0, 4, (3, 4, 5)) % (4, 5, 6)[axis]
    x, src = draw(rng, dtype, 4, 5, 6), draw(rng, dtype, 3, 4, 5)
    compare(cupy, "gather_along", x, index, np.empty_like(src), axis=axis)
    compare(cupy, "gather_along", x.transpose(2, 0, 1).copy().transpose(1, 2, 0), index, np.empty_like(src), axis=axis)
    compare(cupy, "scatter_add_along", x.copy(), index, src, axis=axis)
    compare(cupy, "scatter_along", x.copy(), index, 2, axis=axis)
    for fold in ("prod", "amin", "amax"):
        compare(cupy, "scatter_fold_along", x.copy(), index, src, axis=axis, fold=fold)
    once = index[:1, :1, :1]
    compare(cupy, "scatter_along", x.copy(), once, src[:1, :1, :1], axis=axis)


@over_dtypes
@pytest.mark.parametrize("axis", [0, 1])
def test_by_number_for_each_row(axis: int, dtype: str, cupy: Any, rng: Rng) -> None:
    index = np.array([2, 0, -1, 2])
    sizes = (4, 5) if axis == 0 else (3, 4)
    x, src = draw(rng, dtype, 3, 5), draw(rng, dtype, *sizes)
    compare(cupy, "take_rows", x, index, np.empty_like(src), axis=axis)
    compare(cupy, "index_add", x.copy(), index, src, axis=axis, alpha=2)
    compare(cupy, "index_put_rows", x.copy(), index[:2], src[:2] if axis == 0 else src[:, :2], axis=axis)
    compare(cupy, "index_put_rows", x.copy(), index, 3, axis=axis)


@over_dtypes
def test_by_mask(dtype: str, cupy: Any, rng: Rng) -> None:
    x, mask = draw(rng, dtype, 3, 4), rng.random((3, 4)) < 0.5
    compare(cupy, "masked_put", x.copy(), mask, draw(rng, dtype, 12))
    compare(cupy, "nonzero", x, np.empty((np.count_nonzero(x), 2), np.int64))


@over_dtypes
def test_by_stride(dtype: str, cupy: Any, rng: Rng) -> None:
    x = draw(rng, dtype, 2, 3)
    geometry = {"source": ((2, 3), (1, 1), 0), "target": ((3, 2), (1, 3), -1)}
    compare(cupy, "restride", x, np.empty((3, 2), dtype), **geometry)
    compare(cupy, "restride", x, np.empty(3, dtype), source=((2, 3), (0, 1), 0), target=((3,), (1,), 0))
    compare(cupy, "triangle", x, np.empty_like(x), diagonal=1, upper=True)
    compare(cupy, "triangle", draw(rng, dtype, 3, 2).T, np.empty_like(x), diagonal=0, upper=False)


@over_dtypes
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding(mode: str, dtype: str, cupy: Any, rng: Rng) -> None:
    pads = ((1, 2, 1), (2, 0, 3))
    compare(cupy, "pad_edges", draw(rng, dtype, 2, 3, 4), np.empty((2, 6, 7), dtype), pads=pads, mode=mode)
    compare(cupy, "pad_edges_backward", draw(rng, dtype, 2, 6, 7), np.empty((2, 3, 4), dtype), pads=pads, mode=mode)


@over_dtypes
def test_several_indices(dtype: str, cupy: Any, rng: Rng) -> None:
    x, first, second = draw(rng, dtype, 3, 4, 2), np.array([[2], [0]]), np.array([3, 1, 3])

    def on(device: Any, name: str, *values: Any, **keywords: Any) -> Any:
        """What a kernel leaves in its last or first array, with indices as a list."""
        move = (lambda a: _on_device(device, a)) if device is not None else np.copy
        arrays = [move(value) if isinstance(value, np.ndarray) else value for value in values]
        indices = [move(first), move(second)]
        k = backend("cuda") if device is not None else numpy_
        getattr(k, name)(arrays[0], indices, arrays[1], **keywords)
        found = arrays[1] if name == "take_at" else arrays[0]
        return found.get() if device is not None else found

    for covers, sizes in (((1, 1), (2, 3, 2)), ((1, 2), (2, 3))):
        for name, other in (("take_at", np.empty(sizes, dtype)), ("add_at", draw(rng, dtype, *sizes)), ("put_at", 2)):
            np.testing.assert_allclose(
                on(cupy, name, x, other, covers=covers), on(None, name, x, other, covers=covers), rtol=1e-6
            )
