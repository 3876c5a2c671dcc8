"""`Storage`: one piece of memory with an owner, a category and a version.

NOTE [ Safe reuse ]
1. A pooled block is an owning array of a class of its own (`Block`). NumPy shortens the ``base`` chain of a view only
   through arrays of the view's own class, so every view of a *root view* keeps that root alive, and nothing keeps the
   block but the root and the pool.
2. A `Storage` is a weak reference to the root view. Python calls back exactly when the last view has died, and only
   after that the block goes back to the pool (pool.py says when). No reference count is ever compared with a number.
3. Only a raw address (``array.ctypes.data``) escapes this, as it escapes NumPy itself.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Protocol

import numpy as np

from .device import Device

CATEGORIES = (
    "parameter",
    "buffer",
    "gradient",
    "activation",
    "saved_packed",
    "optimizer_state",
    "optimizer_temporary",
    "input",
    "temporary",
    "autograd_detail",
    "unknown",
)

_ids = itertools.count(1)
# Storages of inference tensors count from here: no other version is negative.
_INFERENCE_VERSION = -(1 << 62)


class Block(np.ndarray[Any, Any]):
    """Memory that belongs to a pool: a class of its own, so that root views stay roots (note, rule 1)."""


class Pool(Protocol):
    """What a storage knows of the pool that counts it: see `MemoryPool`."""

    device: Device

    def lease(self, shape: tuple[int, ...], dtype: np.dtype[Any], category: str = ...) -> tuple[Any, Storage]: ...

    def relabel(self, storage: Storage, category: str) -> None: ...


class Storage(weakref.ref[Any]):
    """Memory that a pool counts: a weak reference to the object whose death frees it.

    Attributes:
        nbytes: bytes asked for.
        version: how often the memory was written after its first use; shared by all views. Negative for inference
            tensors, which have none that counts.
        category: one of `CATEGORIES`; change it with `MemoryPool.relabel`.
        pool: the pool that counts it.
        block: the block of the pool that it lies on, or None.
        rounding: how many bytes more than ``nbytes`` it takes of the pool.
        adopted: whether it is nothing but counted: no block, no rounding.
    """

    __slots__ = ("_id", "category", "key", "nbytes", "pool", "version")

    nbytes: int
    version: int
    category: str
    pool: Pool
    key: int
    _id: int
    # Those of adopted results, which are most, and need no room for them.
    block: Any = None
    rounding: int = 0
    adopted = True

    @property
    def id(self) -> int:
        """A number that no other storage of this process has or will have."""
        try:
            return self._id
        except AttributeError:
            self._id = next(_ids)
            return self._id

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self.pool.device

    @property
    def is_inference(self) -> bool:
        """Whether it was made in inference mode: nobody may rely on its version."""
        return self.version < 0

    def mark_inference(self) -> None:
        """Make it the storage of inference tensors: all that view it are."""
        if self.version >= 0:
            self.version = _INFERENCE_VERSION

    def __repr__(self) -> str:
        return f"<Storage {self.id}: {self.nbytes} bytes, {self.category}, on {self.device}, version {self.version}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:  # or a weak reference's would compare what they refer to
        return self is not other

    def __reduce__(self) -> Any:
        raise TypeError("a Storage is a place in this process's memory; it cannot be pickled or copied")


class PooledStorage(Storage):
    """A storage on a block of the pool."""

    __slots__ = ("block", "rounding")
    adopted = False


class UserStorage(Storage):
    """Memory that belongs to the user: counted, but outside the limit."""

    __slots__ = ("rounding",)
    adopted = False


def root_of(array: Any) -> Any:
    """The object whose life decides about the memory of ``array``: the end of its chain of bases.

    Walks through views, through ``memoryview`` objects and what ``as_strided`` puts in between, and stops below a
    pool's `Block`.
    """
    while True:
        base = array.base
        if base is None or isinstance(base, Block):
            return array
        if isinstance(base, memoryview):
            base = base.obj
        elif not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)
        if not isinstance(base, np.ndarray):
            return array
        array = base
