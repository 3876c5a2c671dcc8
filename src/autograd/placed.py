"""`Placed`: a gradient that is cheaper to add to a sum that is there than to make whole: a slice's, or a rolled one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import CPU, META, SMALL_BYTES, events, storage_of
from .dispatch import cpu_pool


class Placed:
    """A gradient parts of which belong into places of a larger one, or of one of its own size.

    The engine adds it to the sum that is there already. So a full-size array of zeros is made once, not for each slice,
    and what was rolled is added where it belongs without a copy.

    Attributes:
        gradient: an array.
        shape: of the whole.
        parts: pairs: where in the whole, and which part of the gradient. Indices: integers, slices, ``...`` and None.
        covers: whether the parts cover the whole; otherwise there is one.
    """

    __slots__ = ("covers", "gradient", "parts", "shape")

    def __init__(self, gradient: Any, shape: tuple[int, ...], parts: Any, *, covers: bool = False) -> None:
        self.gradient = gradient
        self.shape = shape
        self.parts = parts
        self.covers = covers

    def whole(self) -> Any:
        """The full-size gradient: zeros, with this one in its place."""
        storage = storage_of(self.gradient)
        assert storage is not None, "gradients always lie in a pool"
        if storage.device is CPU and not events.observers:
            dtype = self.gradient.dtype
            if math.prod(self.shape) * dtype.itemsize < SMALL_BYTES:
                return self._small(dtype)
        array, _ = storage.pool.lease(self.shape, self.gradient.dtype, "temporary")
        if storage.device is not META:
            k = backend(storage.device.type)
            if not self.covers:
                for where, _ in self.parts:
                    _clear_around(k, array, where)
            for where, part in self.parts:
                k.copy(_view(self.gradient, part), _view(array, where))
        return array

    def _small(self, dtype: np.dtype[Any]) -> Any:
        array = (np.empty if self.covers else np.zeros)(self.shape, dtype)
        for where, part in self.parts:
            array[where] = self.gradient[part]
        cpu_pool().adopt_small(array, "temporary")
        return array

    def added_to(self, total: Any) -> None:
        """Add it in place."""
        storage = storage_of(total)
        assert storage is not None, "gradients always lie in a pool"
        if storage.device is not META:
            k = backend(storage.device.type)
            for where, part in self.parts:
                k.accumulate_(_view(self.gradient, part), _view(total, where))


def _clear_around(k: Any, array: Any, index: Any) -> None:
    """Zeros outside of a part, or everywhere if the part is no block."""
    if not all(isinstance(part, slice) and part.step in (None, 1) for part in index):
        k.fill(array, 0)
        return
    lead: tuple[slice, ...] = ()
    for size, part in zip(array.shape, index):
        start, stop, _ = part.indices(size)
        for outside in (slice(0, start), slice(max(start, stop), size)):
            if outside.start < outside.stop:
                k.fill(array[(*lead, outside)], 0)
        lead = (*lead, slice(start, stop))


def _view(array: Any, index: Any) -> Any:
    """A view even where an integer for every dimension would give a number."""
    return array[index if Ellipsis in index else (*index, ...)]
