"""Where in its storage the elements of an array lie, and views that are made again from that.

NOTE [ Layouts ]
1. A layout names bytes, not an order of axes: axes of stride 0 or of one element are dropped, negative ones are turned,
   the rest is sorted by stride and merged where one axis continues another. So ``h``, ``h.t()``, ``h.expand(9, 3, 3)``
   have one layout.
2. A layout whose bytes have no gaps is *dense*: one axis over the extent ``[lo, hi)``. What is packed of it serves
   every view inside the extent. Of a layout with gaps only the elements are packed, in the order of the layout.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

# An array of NumPy or CuPy.
Array: TypeAlias = Any


class Layout(NamedTuple):
    """Which bytes of a storage an array takes (NOTE [ Layouts ]); offsets in bytes from the start of the storage."""

    lo: int
    hi: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def dense(self) -> bool:
        """Whether it takes every byte of its extent."""
        return len(self.shape) == 1 and self.strides[0] == self.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements: what a copy of them takes."""
        size = self.itemsize
        for length in self.shape:
            size *= length
        return size

    def covers(self, other: Layout) -> bool:
        """Whether every byte of ``other`` is one of this layout's."""
        return self == other or (self.dense and self.lo <= other.lo and other.hi <= self.hi)

    def overlaps(self, other: Layout) -> bool:
        """Whether the two extents have a byte in common."""
        return self.lo < other.hi and other.lo < self.hi


def layout_of(array: Array, origin: int) -> Layout:
    """The layout of an array that has elements; ``origin`` is the address of its storage."""
    itemsize = array.dtype.itemsize
    start = address_of(array) - origin
    if array.flags.c_contiguous:
        return Layout(start, start + array.nbytes, (array.size,), (itemsize,), itemsize)
    lo = hi = start
    axes = []
    for length, stride in zip(array.shape, array.strides):
        if length > 1 and stride:
            lo += min(stride * (length - 1), 0)
            hi += max(stride * (length - 1), 0)
            axes.append((abs(stride), length))
    hi += itemsize
    layout = Layout(lo, hi, *_merged(sorted(axes, reverse=True), itemsize), itemsize)
    if hi - lo <= layout.nbytes and all(stride % itemsize == 0 for stride in layout.strides):
        return Layout(lo, hi, ((hi - lo) // itemsize,), (itemsize,), itemsize)  # overlapping windows too
    return layout


def _merged(axes: list[tuple[int, int]], itemsize: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape: list[int] = []
    strides: list[int] = []
    for stride, length in axes:
        if strides and strides[-1] == stride * length:
            shape[-1] *= length
            strides[-1] = stride
        else:
            shape.append(length)
            strides.append(stride)
    return (tuple(shape), tuple(strides)) if shape else ((1,), (itemsize,))


def elements_of(array: Array, layout: Layout) -> Array:
    """A view of an array's memory with the shape and strides of its layout; nothing is copied."""
    if layout.dense and array.flags.c_contiguous:
        return array.reshape(-1)
    if layout.dense and array.flags.f_contiguous:
        return array.T.reshape(-1)
    turned = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides)]
    if isinstance(array, np.ndarray):
        return np.lib.stride_tricks.as_strided(turned, layout.shape, layout.strides)
    import cupy

    return cupy.lib.stride_tricks.as_strided(turned, layout.shape, layout.strides)


def address_of(array: Array) -> int:
    """The address of an array's first element."""
    if isinstance(array, np.ndarray):
        address: int = array.__array_interface__["data"][0]
        return address
    return int(array.data.ptr)


def address_of_owner(owner: Any) -> int:
    """The address of the memory that a storage refers to: a root array, or CuPy's memory object."""
    return address_of(owner) if isinstance(owner, np.ndarray) else int(owner.ptr)


def view_at(owner: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A view ``offset`` bytes into the memory that a storage refers to; it keeps that memory alive."""
    if isinstance(owner, np.ndarray):
        return np.ndarray(shape, dtype, buffer=owner, offset=offset, strides=strides)
    import cupy

    return cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(owner, offset), strides=strides)
