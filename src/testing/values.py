"""Arrays in the pool of a device, of every kind that an op may save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..memory import pool

DTYPES = tuple(
    np.dtype(name)
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")
) + (np.dtype("complex128"),)
SHAPES = ((), (0,), (1,), (7,), (3, 0, 2), (5, 3), (130, 17), (2, 3, 4, 5))


def lease(shape: tuple[int, ...], dtype: Any, device: str) -> Any:
    """An uninitialised array in the pool of a device."""
    return pool(device).lease(shape, np.dtype(dtype), "activation")[0]


def filled(array: Any) -> Any:
    """The array, filled with numbers that are the same in every run; part of them are zero."""
    random = np.random.default_rng(1)
    numbers = random.standard_normal(array.shape)
    numbers[random.random(array.shape) < 0.2] = 0
    if array.dtype.kind == "b":
        array[...] = numbers > 0
    elif array.dtype.kind in "iu":
        array[...] = np.abs(numbers * 40).astype(np.int64)
    elif array.dtype.kind == "c":
        array[...] = numbers + 1j * random.standard_normal(array.shape)
    else:
        array[...] = numbers
    return array


def views(array: Any) -> Iterator[Any]:
    """Views of an array with three axes."""
    yield array.T
    yield array.transpose(1, 2, 0)
    yield array[::2, 1:9:3]
    yield array[::-1, :, ::-2]
    yield array[:, 4]
    yield array[2:3, :, 1:2]
    yield array[5, 5, 5:6].reshape(())
    yield np.broadcast_to(array[:1], array.shape)
    yield np.broadcast_to(array[:1, 0, 0], (4, 5))
    yield array[3:3]
    if isinstance(array, np.ndarray):
        yield np.lib.stride_tricks.sliding_window_view(array.reshape(-1), 9)[::3]
