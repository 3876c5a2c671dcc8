"""The double's DLPack: NumPy's capsules, which say that the memory is a CUDA device's."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .arrays import BaseMemory, MemoryPointer, UnownedMemory, ndarray, state

CUDA = 2
# Where `DLTensor.device` stands in a capsule's structure, in 32-bit words.
_PLACES = {b"dltensor": 2, b"dltensor_versioned": 10}


def _words(capsule: Any) -> Any:
    """The device in a capsule: its kind and its number."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for name, place in _PLACES.items():
        if api.PyCapsule_IsValid(capsule, name):
            return (ctypes.c_int32 * 2).from_address(api.PyCapsule_GetPointer(capsule, name) + 4 * place)
    raise ValueError(f"A DLPack tensor object cannot be consumed multiple times. Got: {capsule!r}")


class _Kept(np.ndarray[Any, Any]):
    """Host memory of a device array, which keeps that memory's object."""

    memory: Any


def capsule_of(
    self: ndarray, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
) -> Any:
    """``ndarray.__dlpack__``; the streams that it puts in order are noted."""
    if copy:
        raise BufferError("copy=True only supported for copy to CPU.")
    if self.dtype.kind not in "biufc":
        raise BufferError("dtype is not supported for dlpack export")
    if self._mem.device_id != state.current:
        raise ValueError("not the current device")
    consumer = 1 if stream is None else stream
    if consumer < -1 or consumer == 0:
        raise ValueError(f"On CUDA, the valid stream for the DLPack protocol is -1, 1, 2, ..., but {stream} was given")
    if consumer > 0 and consumer != (state.stream.ptr or 1):
        state.ordered.append((state.stream.ptr, consumer))
    kept = self._a.view(_Kept)
    kept.memory = self._mem
    found = kept.__dlpack__(max_version=max_version) if max_version else kept.__dlpack__()
    _words(found)[:] = CUDA, self._mem.device_id
    return found


class DLPackMemory(BaseMemory):
    """Memory of a capsule; as in CuPy the size is none of it."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any], device_id: int) -> None:
        self._array = array
        self.ptr, self.device_id = array.__array_interface__["data"][0], device_id
        self.size = sum(array.shape) * array.itemsize


class _Taken:
    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def from_dlpack(array: Any) -> ndarray:
    """``cupy.from_dlpack`` of a capsule."""
    device = _words(array)
    kind, number = device
    if kind != CUDA:
        raise RuntimeError("CuPy is built against CUDA, different from the backend that backs the incoming tensor")
    device[:] = 1, 0
    found = np.from_dlpack(_Taken(array))
    made = object.__new__(ndarray)  # whose size nobody looks at
    made._a, made._mem = found, DLPackMemory(found, number)
    return made


def asarray(a: Any) -> ndarray:
    """``cupy.asarray`` of who has the array interface."""
    said = a.__cuda_array_interface__
    dtype = np.dtype(said["typestr"])
    memory = UnownedMemory(said["data"][0], int(np.prod(said["shape"])) * dtype.itemsize, a, state.current)
    return ndarray(said["shape"], dtype, MemoryPointer(memory, 0), said["strides"])


def interface_of(self: ndarray) -> dict[str, Any]:
    """``ndarray.__cuda_array_interface__``."""
    said = self._a.__array_interface__
    return {"shape": said["shape"], "typestr": said["typestr"], "data": said["data"], "strides": said["strides"]} | {
        "version": 3,
        "stream": state.stream.ptr or 1,
    }


ndarray.__dlpack__ = capsule_of  # type: ignore[attr-defined]
ndarray.__dlpack_device__ = lambda self: (CUDA, self._mem.device_id)  # type: ignore[attr-defined]
ndarray.__cuda_array_interface__ = property(interface_of)  # type: ignore[attr-defined]
__all__ = ["asarray", "from_dlpack"]
