"""Host memory for copies: page-locked as far as a cap allows, which asynchronous copies of CUDA need; else plain."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from ..memory import CPU, Device, pool
from ..saved_tensors.payload import PACKED, Spec


class PinnedMemory:
    """Leases page-locked memory for arrays; exact sizes are counted, and given back when an array dies.

    Args:
        limit: the most bytes; what doesn't fit gets plain memory.

    Attributes:
        plain_bytes: how much got plain memory because of the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.plain_bytes = 0
        self._sizes: dict[int, int] = {}

    @property
    def used_bytes(self) -> int:
        """Bytes that are leased at this moment."""
        return sum(list(self._sizes.values()))

    def lease(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> np.ndarray[Any, Any]:
        """An uninitialised array in host memory for copies from and to a device."""
        nbytes = math.prod(shape) * dtype.itemsize
        array: np.ndarray[Any, Any]
        if self.used_bytes + nbytes > self.limit:
            self.plain_bytes += nbytes
            array = Spec(shape, dtype, CPU).lease(PACKED)
            return array
        array = _page_locked(shape, dtype, nbytes) if device.type == "cuda" else Spec(shape, dtype, CPU).lease(PACKED)
        key = id(array)
        self._sizes[key] = nbytes
        weakref.finalize(array, self._sizes.pop, key, None).atexit = False
        return array


def _page_locked(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> np.ndarray[Any, Any]:
    import cupy

    memory = cupy.cuda.alloc_pinned_memory(max(nbytes, 1))
    array = np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape)
    root = array if array.base is None or not isinstance(array.base, np.ndarray) else array.base
    pool(CPU).adopt(root, PACKED)
    return array
