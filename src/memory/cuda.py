"""Blocks of memory on CUDA devices, through CuPy.

CuPy is imported when the first CUDA device is asked for, never before.

NOTE [ CUDA memory ]
1. A block is one allocation of the driver. Each lease makes a new CuPy memory object on it; arrays and their views all
   hold that object, so a `Storage` that refers to it weakly learns when the last of them has died.
2. The first CUDA pool becomes CuPy's allocator: what CuPy's functions and libraries take for themselves is leased too,
   category temporary, and so are arrays that the user makes with CuPy from then on.
3. A block belongs to the stream that was current when it was leased; work on one stream runs in order, so there the
   block can be used again at once. On another stream the work waits for an event of the first one.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .device import Device
from .storage import Pool

_BYTE = np.dtype(np.uint8)
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


def import_cupy() -> Any:
    """The module ``cupy``.

    Raises:
        ModuleNotFoundError: if it is not installed.
    """
    try:
        import cupy
    except ImportError as error:
        raise ModuleNotFoundError(
            f"device 'cuda' needs the package CuPy, which cannot be imported ({error}); install it for your CUDA"
            " version with: pip install stowgrad[cuda13]  (or stowgrad[cuda12])",
            name="cupy",
        ) from error
    return cupy


def _check_device(cupy: Any, device: Device) -> None:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device {str(device)!r} cannot be used: no CUDA device or driver was found ({error})"
        ) from error
    if device.index is None or device.index >= count:
        raise RuntimeError(
            f"device {str(device)!r} does not exist: there are {count} CUDA devices, 'cuda:0' to 'cuda:{count - 1}'"
            if count
            else f"device {str(device)!r} does not exist: there is no CUDA device"
        )


class _Block:
    """A block, and the stream on which it was used last (note, rule 3)."""

    __slots__ = ("memory", "stream")

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.stream: Any = None


class CudaBacking:
    """Blocks of one CUDA device.

    Args:
        device: the device.
        pool: gives the pool of a device: what CuPy takes for itself comes from there.

    Raises:
        ModuleNotFoundError: if CuPy is not installed.
        RuntimeError: if there is no such device.
    """

    def __init__(self, device: Device, pool: Callable[[Device], Pool]) -> None:
        self._cupy = cupy = import_cupy()
        _check_device(cupy, device)
        self._index = device.index
        self._root: Any = _root_class(cupy)
        _become_allocator(cupy, pool)

    def allocate(self, nbytes: int) -> _Block:
        cupy = self._cupy
        try:
            with cupy.cuda.Device(self._index):
                return _Block(cupy.cuda.Memory(nbytes))
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            raise MemoryError(f"cuda:{self._index} has no {nbytes:,} bytes free ({error})") from error

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], block: _Block) -> Any:
        cupy = self._cupy
        stream = cupy.cuda.get_current_stream(self._index)
        if block.stream is not None and block.stream.ptr != stream.ptr:
            stream.wait_event(block.stream.record())
        block.stream = stream
        root = self._root(block.memory.ptr, block.memory.size, block, self._index)
        return cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(root, 0))

    def owner(self, array: Any) -> Any:
        return array.data.mem

    retire = None  # what was issued for a block comes first on its stream


@functools.cache
def _root_class(cupy: Any) -> Any:
    """CuPy's class for memory that it doesn't own, made weakly referable by being subclassed."""

    class LeasedMemory(cupy.cuda.UnownedMemory):  # type: ignore[misc]
        """Memory of a block while it is leased (note, rule 1)."""

    return LeasedMemory


# id(memory) -> what stands for it, as long as that lives: memory has one storage however often it comes in.
_stand_ins: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def referable_array(array: Any, dtype: np.dtype[Any] | None = None, nbytes: int | None = None) -> Any:
    """A CuPy array over the same memory, which can be referred to weakly; the array itself if its memory can be.

    CuPy's own memory objects can't: another one, of our class, stands for them and keeps them.

    Args:
        dtype: what the elements are, if not what the array says.
        nbytes: of the memory, if not what its object says.
    """
    cupy = import_cupy()
    memory, kind = array.data.mem, _root_class(cupy)
    if isinstance(memory, kind) and dtype in (None, array.dtype):
        return array
    root = memory if isinstance(memory, kind) else _stand_ins.get(id(memory))
    if root is None:
        size = int(memory.size) if nbytes is None else nbytes
        root = _stand_ins[id(memory)] = kind(memory.ptr, size, memory, memory.device_id)
    pointer = cupy.cuda.MemoryPointer(root, array.data.ptr - memory.ptr)
    return cupy.ndarray(array.shape, dtype or array.dtype, memptr=pointer, strides=array.strides)


@functools.cache
def _become_allocator(cupy: Any, pool: Callable[[Device], Pool]) -> None:
    """Let CuPy take its memory from our pools (note, rule 2)."""

    def allocate(nbytes: int) -> Any:
        device = Device("cuda", cupy.cuda.runtime.getDevice())
        return pool(device).lease((nbytes,), _BYTE, "temporary")[0].data

    cupy.cuda.set_allocator(allocate)
