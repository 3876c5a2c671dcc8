"""`Place`: where a saved value of a region will be when it is needed."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from ..kernels import backend
from ..memory import META, Storage, storage_of
from ..saved_tensors.hooks import SavedValue
from ..saved_tensors.payload import byte_runs, to_host
from .comparison import Comparison
from .oplog import CheckpointError

_LASTING = ("parameter", "buffer")
# Slots of what a selective checkpoint keeps: values as an op computed them, whatever is written there later.
KEPT = "kept result"


class Filler(Protocol):
    """Who can fill a place: its region."""

    def take(self, place: Place) -> Any: ...


class Place:
    """Stands for a saved value that was not kept (`hooks.Handle`).

    Args:
        region: fills it.
        value: the value.
        verify: whether a checksum of it is kept, to compare.
    """

    resident_bytes = 0
    offloaded_bytes = 0
    policy = "recompute"

    def __init__(self, region: Filler, value: SavedValue, verify: bool) -> None:
        self._region = region
        self.op = value.op
        self.slot = value.slot
        self.shape = value.array.shape
        self.dtype = value.array.dtype
        self.strides = value.array.strides
        self.storage: Storage = value.storage
        self.version = value.storage.version
        self.checksum = checksum(value.array) if verify else None
        self.array: Any = None
        self._recomputed_version = 0

    def load(self) -> Any:
        """The value, computed again if need be; the place is empty afterwards."""
        return self._region.take(self)

    def check(self, number: int, value: SavedValue, comparison: Comparison, exactly: bool) -> None:
        """Compare what the second run saves here with what the first did.

        Args:
            exactly: whether ops, slots and strides are compared, not only shapes and dtypes.

        Raises:
            CheckpointError: if it is something else.
            RuntimeError: if it is the same memory, written since.
        """
        array = value.array
        same = array.shape == self.shape and array.dtype == self.dtype
        if exactly:
            same = same and (value.op, value.slot, array.strides) == (self.op, self.slot, self.strides)
        if not same:
            raise CheckpointError(
                "stowgrad.checkpoint: a different value was saved when the region was computed again\n"
                f"  saved value {number}, in forward: {self.text()}\n"
                f"  saved value {number}, recomputed:"
                f" {_text(value.op, value.slot, array.shape, array.dtype, array.strides)}\n{comparison.place()}"
                "The function must do the same again: look for global state, or randomness from another generator."
            )
        # Memory that the region made itself has a new storage, and so has an input that was stored elsewhere. Another
        # storage in place of a parameter's means that the parameter was given other data.
        fixed = value.storage is self.storage or self.storage.category in _LASTING
        if fixed and self.storage.version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation:"
                f" {self.text()} was read by a checkpointed region at version {self.version}"
                f" and is at version {self.storage.version} now. Run backward before changing it."
            )
        if self.checksum is not None and checksum(array) != self.checksum:
            raise CheckpointError(
                "stowgrad.checkpoint: a saved value has other numbers when the region is computed again (verify=True)\n"
                f"  saved value {number}: {self.text()}\n{comparison.place()}"
                "The function must compute the same again: look for state that changes, or unseeded randomness."
            )

    def fill(self, value: SavedValue) -> None:
        """Hold the value until it is read."""
        self.array = value.array
        self._recomputed_version = value.storage.version

    def copy_before_write(self, storage: Storage) -> None:
        """Hold a copy instead of memory that is about to be written."""
        array = self.array
        if array is None or storage_of(array) is not storage or storage.version != self._recomputed_version:
            return
        copy, own = storage.pool.lease(array.shape, array.dtype, "activation")
        if storage.device is not META:
            backend(storage.device.type).copy(array, copy)
        self.array, self._recomputed_version = copy, own.version

    def read(self, keep: bool) -> Any:
        """The value, if it is here and as it was saved; the place is empty afterwards unless it is to keep it.

        Raises:
            RuntimeError: if the region itself wrote into it after it was saved.
        """
        array = self.array
        if not keep:
            self.array = None
        if array is not None:
            storage = storage_of(array)
            if storage is not None and storage.version != self._recomputed_version:
                self.array = None
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation:"
                    f" {self.text()} was changed by the checkpointed region after it was saved; change a copy (clone())"
                )
        return array

    def text(self) -> str:
        """The value in words."""
        return _text(self.op, self.slot, self.shape, self.dtype, self.strides)


def checksum(array: Any) -> int:
    """CRC-32 of an array's elements in C order."""
    found = 0
    for run in byte_runs(to_host(array)):
        found = zlib.crc32(run.data, found)
    return found


def _text(op: str, slot: str, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> str:
    return f"{op}, {slot!r} of shape {list(shape)}, {dtype}, strides {list(strides)} bytes"
