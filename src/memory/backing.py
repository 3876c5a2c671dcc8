"""Where a pool's blocks come from, one class for each kind of device."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np

from .storage import Block

ALIGNMENT = 64
# Blocks of this size and more are mapped on their own, so that dropping one gives its pages back at once; the C
# library would keep them in a heap with holes.
MAPPED_BYTES = 256 * 1024
# From here on the system is asked for pages of 2 MiB, as NumPy does: fresh ones come four times as fast, and functions
# of arrays of 16 MiB take up to a seventh less, for fewer misses of the page table's cache.
HUGE_BYTES = 4 << 20
_POISON = 0xA5


class Backing(Protocol):
    """What a pool needs of a kind of device."""

    def allocate(self, nbytes: int) -> Any:
        """A fresh block; raises ``MemoryError`` where there is none."""

    @property
    def array(self) -> Callable[[tuple[int, ...], np.dtype[Any], Any], Any]:
        """Makes a root array of a shape and a dtype on a block."""

    @property
    def owner(self) -> Callable[[Any], Any] | None:
        """The weakly referable object whose death ends a root array and all its views; None: the array itself."""

    @property
    def retire(self) -> Callable[[Any], None] | None:
        """Called when a block's last view has died, before the block is used again; None: nothing is to be done."""


class HostBacking:
    """Blocks of host memory, aligned for vector instructions."""

    array: Callable[[tuple[int, ...], np.dtype[Any], Any], Any] = np.ndarray
    owner: Callable[[Any], Any] | None = None
    retire: Callable[[Any], None] | None = None

    def allocate(self, nbytes: int) -> Block:
        if nbytes < MAPPED_BYTES:
            whole = Block(nbytes + ALIGNMENT, np.uint8)
            offset = -whole.ctypes.data % ALIGNMENT
            # A view of the same class: the base chain stops here all the same.
            return cast(Block, whole[offset : offset + nbytes])
        return Block(nbytes, np.uint8, buffer=_mapped(nbytes))


def _mapped(nbytes: int) -> mmap.mmap:
    try:
        if hasattr(mmap, "MAP_PRIVATE"):
            pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            pages = mmap.mmap(-1, nbytes)
    except OSError as error:
        raise MemoryError(f"the system has no {nbytes:,} bytes for a block ({error})") from error
    if nbytes >= HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class SimBacking(HostBacking):
    """Host memory that plays an accelerator's: a freed block is overwritten, so that a read after free shows."""

    def retire(self, block: Block) -> None:
        np.ndarray.fill(block, _POISON)


class MetaBacking:
    """No memory at all: arrays have a shape and a type, and every element is the same few bytes."""

    owner = None
    retire = None

    def allocate(self, nbytes: int) -> bytearray:
        return bytearray(ALIGNMENT)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], block: bytearray) -> Any:
        return np.ndarray(shape, dtype, buffer=block, strides=(0,) * len(shape))
