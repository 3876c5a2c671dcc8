"""Memory in whole pages, as direct transfers want it, and the checksum of pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..memory import CPU, pool
from ..saved_tensors.payload import as_bytes, byte_runs

HostArray: TypeAlias = np.ndarray[Any, Any]

PAGE = 4096
_BYTE = np.dtype(np.uint8)
_WORD = np.dtype(np.uint64)
_WORDS = PAGE // _WORD.itemsize
_ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: neighbouring pages weigh differently in every bit


def whole_pages(nbytes: int) -> int:
    """``nbytes`` rounded up to pages, one at least."""
    return max(-(-nbytes // PAGE), 1) * PAGE


def lease_pages(nbytes: int, category: str) -> HostArray:
    """An uninitialised array of whole pages that starts at a page.

    Raises:
        MemoryBudgetError: if it doesn't fit under the limit.
    """
    size = whole_pages(nbytes)
    array: HostArray = pool(CPU).lease((size,), _BYTE, category)[0]
    if is_aligned(array):
        return array
    del array  # never both at a time
    array = pool(CPU).lease((size + PAGE,), _BYTE, category)[0]
    offset = -array.ctypes.data % PAGE
    return array[offset : offset + size]


def is_aligned(array: HostArray) -> bool:
    """Whether an array starts at a page."""
    return int(array.__array_interface__["data"][0]) % PAGE == 0


def is_much_for(held: int, nbytes: int) -> bool:
    """Whether memory of ``held`` bytes is too large to be kept for ``nbytes`` bytes in it."""
    return held - nbytes > nbytes // 16


def gather(arrays: Sequence[HostArray], into: HostArray) -> None:
    """Copy the elements of some arrays, of any strides, in C order one after the other; the rest becomes zero."""
    start = 0
    for array in arrays:
        if array.nbytes:
            np.copyto(into[start : start + array.nbytes].view(array.dtype).reshape(array.shape), array) if (
                start % array.itemsize == 0
            ) else _gather_bytes(array, into[start : start + array.nbytes])
        start += array.nbytes
    into[start:] = 0


def _gather_bytes(array: HostArray, into: HostArray) -> None:
    start = 0
    for run in byte_runs(array):
        into[start : start + run.size] = run
        start += run.size


def gathered(arrays: Sequence[HostArray], piece: HostArray) -> Iterator[tuple[int, HostArray]]:
    """What `gather` makes, a piece at a time: where each begins, and its pages, which the next one overwrites."""
    start = filled = 0
    for array in arrays:
        for run in byte_runs(array):
            taken = 0
            while taken < run.size:
                more = min(run.size - taken, piece.size - filled)
                piece[filled : filled + more] = run[taken : taken + more]
                taken, filled = taken + more, filled + more
                if filled == piece.size:
                    yield start, piece
                    start, filled = start + filled, 0
    if filled:
        pages = piece[: whole_pages(filled)]
        pages[filled:] = 0
        yield start, pages


def scatter(pages: HostArray, at: int, outs: Sequence[HostArray]) -> None:
    """Fill contiguous arrays from pages that begin ``at`` bytes into what `gather` made."""
    begin = 0
    for out in outs:
        first, last = max(begin, at), min(begin + out.nbytes, at + pages.nbytes)
        if first < last:
            as_bytes(out)[first - begin : last - begin] = pages[first - at : last - at]
        begin += out.nbytes


def checksum(pages: HostArray, first: int) -> int:
    """A number for whole pages of which the first is the ``first`` of a value; those of its parts add up to its own.

    Each page's sum is weighted by an odd number that depends on its place: one changed byte always changes the result,
    and so do pages that are exchanged. It runs at the speed of memory, which no byte-wise checksum here does.
    """
    sums = pages.view(_WORD).reshape(-1, _WORDS).sum(axis=1, dtype=_WORD)
    places = np.arange(first, first + sums.size, dtype=_WORD)
    with np.errstate(over="ignore"):
        places *= np.uint64(2 * _ODD % 2**64)
        places += np.uint64(_ODD)
        places *= sums
        return int(places.sum(dtype=_WORD))


def pieces(size: int, step: int) -> Iterator[tuple[int, int]]:
    """The ranges of ``step`` bytes that make up ``size`` bytes."""
    return ((start, min(start + step, size)) for start in range(0, size, step))
