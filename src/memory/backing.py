"""Where a pool's blocks come from, one class for each kind of device."""

from __future__ import annotations

import mmap
from typing import Any, Protocol, cast

import numpy as np

from .storage import Block

ALIGNMENT = 64
# Blocks of this size and more are mapped on their own, so that dropping one gives its pages back at once; the C
# library would keep them in a heap with holes.
MAPPED_BYTES = 256 * 1024
_POISON = 0xA5


class Backing(Protocol):
    """What a pool needs of a kind of device."""

    def allocate(self, nbytes: int) -> Any:
        """A fresh block; raises ``MemoryError`` where there is none."""

    def array(self, block: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A root array on the block."""

    def owner(self, array: Any) -> Any:
        """The weakly referable object whose death ends the root array and all its views."""

    def retire(self, block: Any) -> None:
        """Called when a block's last view has died, before the block is used again."""


class HostBacking:
    """Blocks of host memory, aligned for vector instructions."""

    def allocate(self, nbytes: int) -> Block:
        if nbytes < MAPPED_BYTES:
            whole = Block(nbytes + ALIGNMENT, np.uint8)
            offset = -whole.ctypes.data % ALIGNMENT
            # A view of the same class: the base chain stops here all the same.
            return cast(Block, whole[offset : offset + nbytes])
        if hasattr(mmap, "MAP_PRIVATE"):
            pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            pages = mmap.mmap(-1, nbytes)
        return Block(nbytes, np.uint8, buffer=pages)

    def array(self, block: Block, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return np.ndarray(shape, dtype, buffer=block)

    def owner(self, array: Any) -> Any:
        return array

    def retire(self, block: Block) -> None:
        pass


class SimBacking(HostBacking):
    """Host memory that plays an accelerator's: a freed block is overwritten, so that a read after free shows."""

    def retire(self, block: Block) -> None:
        np.ndarray.fill(block, _POISON)


class MetaBacking:
    """No memory at all: arrays have a shape and a type, and every element is the same few bytes."""

    def allocate(self, nbytes: int) -> bytearray:
        return bytearray(ALIGNMENT)

    def array(self, block: bytearray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return np.ndarray(shape, dtype, buffer=block, strides=(0,) * len(shape))

    def owner(self, array: Any) -> Any:
        return array

    def retire(self, block: bytearray) -> None:
        pass
