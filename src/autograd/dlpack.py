"""DLPack: a tensor's memory in a capsule that other libraries understand, and how such capsules are read.

NOTE [ Capsules ]
1. NumPy and CuPy make the capsules, and take them: each holds an array whose life decides about our memory, so that it
   stays counted, and isn't used again, until the consumer lets go.
2. What neither of them knows (bfloat16, floats of 8 bits) goes as unsigned integers of that width. What the capsule
   says of the dtype is changed: behind the producer on the way out, before the consumer, which owns it, on the way in.
"""

from __future__ import annotations

import ctypes
import enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..memory import CPU, META, Device, as_device
from .ops.cast import clone, to_device

__all__ = ["Capsule", "DLDeviceType", "as_integers", "device_of", "exported"]


# DLPack's numbers for kinds of devices.
DLDeviceType = enum.IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1,
        "kDLCUDA": 2,
        "kDLCUDAHost": 3,
        "kDLOpenCL": 4,
        "kDLVulkan": 7,
        "kDLMetal": 8,
        "kDLVPI": 9,
        "kDLROCM": 10,
        "kDLROCMHost": 11,
        "kDLExtDev": 12,
        "kDLCUDAManaged": 13,
        "kDLOneAPI": 14,
        "kDLWebGPU": 15,
        "kDLHexagon": 16,
        "kDLMAIA": 17,
    },
)

_FLOAT8 = {"e4m3fn": 10, "e4m3fnuz": 11, "e5m2": 12, "e5m2fnuz": 13, "e8m0fnu": 14}
# DLPack's numbers for the dtypes of ml_dtypes (note, rule 2).
_CODES: dict[np.dtype[Any], int] = {np.dtype(ml_dtypes.bfloat16): 4}
_CODES |= {np.dtype(getattr(ml_dtypes, f"float8_{name}")): code for name, code in _FLOAT8.items()}
_UNSIGNED = 1
_IS_COPIED = 2  # in the flags


# -- what lies in a capsule (dlpack.h) ---------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_KINDS = ((b"dltensor", _Managed), (b"dltensor_versioned", _Versioned))


class Capsule:
    """What a capsule that nobody has taken yet says of its memory.

    Args:
        capsule: the capsule.

    Raises:
        RuntimeError: if it is none, or was taken.
    """

    def __init__(self, capsule: Any) -> None:
        for name, structure in _KINDS:
            if _is_valid(capsule, name):
                self._managed: Any = structure.from_address(_pointer(capsule, name))
                self._tensor = self._managed.tensor
                return
        raise RuntimeError(
            f"from_dlpack received an invalid capsule ({capsule!r}). Note that DLTensor capsules can be consumed only"
            " once, so you might have already constructed a tensor from it once."
        )

    @property
    def device(self) -> tuple[int, int]:
        """The kind of device, and which of them."""
        return self._tensor.device_type, self._tensor.device_id

    @property
    def has_flags(self) -> bool:
        """Whether it can say that memory must not be written."""
        return isinstance(self._managed, _Versioned)

    def take_as_integers(self) -> np.dtype[Any] | None:
        """Let unsigned integers stand for a dtype of ml_dtypes (note, rule 2); returns that dtype, or None."""
        tensor = self._tensor
        for dtype, code in _CODES.items():
            if tensor.code == code and tensor.bits == 8 * dtype.itemsize and tensor.lanes == 1:
                tensor.code = _UNSIGNED
                return dtype
        return None

    def say(self, dtype: np.dtype[Any], copied: bool) -> None:
        """Note what its memory really holds, and whether it is a copy made for the consumer."""
        self._tensor.code = _CODES.get(dtype, self._tensor.code)
        if copied and self.has_flags:
            self._managed.flags |= _IS_COPIED


def as_integers(array: Any) -> Any:
    """An array of a dtype of ml_dtypes as one of unsigned integers, any other as it is (note, rule 2)."""
    return array.view(f"u{array.itemsize}") if array.dtype in _CODES else array


# -- out ---------------------------------------------------------------------------------------------------------------


class Wishes(NamedTuple):
    """What a consumer asks for, by the names of the protocol."""

    stream: Any = None
    max_version: tuple[int, int] | None = None
    dl_device: tuple[int, int] | None = None
    copy: bool | None = None


def exported(tensor: Any, wishes: Wishes) -> Any:
    """A capsule over a tensor's memory, or over that of a copy.

    Raises:
        BufferError: for the meta device and stand-ins, for a device that there is not, for a stream on the CPU.
        ValueError: if ``copy`` is False, and another device asked for.
        TypeError: if the stream is no integer.
    """
    here = tensor._storage.device
    if wishes.stream is not None and type(wishes.stream) is not int:
        raise TypeError(f"stream must be an int or None, got {type(wishes.stream).__name__}")
    there = here if wishes.dl_device is None else _device(*wishes.dl_device)
    moved = there is not here
    if moved and wishes.copy is False:
        raise ValueError(f"cannot move (i.e. copy=False) tensor from {here} to {there} without copying.")
    if there is not CPU and there.type != "cuda":
        raise BufferError(f"a tensor on the {there} device has no memory to export; copy it with .cpu() first")
    if moved or wishes.copy:
        tensor = to_device(tensor, there) if moved else clone(tensor)
    carrier = as_integers(tensor._array)
    versioned = wishes.max_version is not None and wishes.max_version[0] >= 1
    if there is CPU:
        if not moved and wishes.stream not in (None, -1):
            raise BufferError(f"a {there} tensor has no stream; expected None, got {wishes.stream}")
        found = carrier.__dlpack__(max_version=wishes.max_version) if versioned else carrier.__dlpack__()
    else:
        found = _of_cupy(carrier, there, wishes, versioned)
    Capsule(found).say(tensor._array.dtype, bool(moved or wishes.copy))
    return found


def _of_cupy(array: Any, device: Device, wishes: Wishes, versioned: bool) -> Any:
    """CuPy's capsule; it lets the consumer's stream wait for the current one of the array's device."""
    import cupy

    with cupy.cuda.Device(device.index):
        if versioned:
            try:
                return array.__dlpack__(stream=wishes.stream, max_version=wishes.max_version)
            except TypeError:
                pass  # CuPy before version 14: there are capsules of the former kind only
        return array.__dlpack__(stream=wishes.stream)


def _device(kind: int, number: int) -> Device:
    """The device that DLPack's numbers name."""
    if int(kind) == DLDeviceType.kDLCPU:
        return CPU
    if int(kind) == DLDeviceType.kDLCUDA:
        return as_device(f"cuda:{number}")
    raise BufferError(f"unsupported device_type: {int(kind)}; expected 1 (CPU) or 2 (CUDA)")


def device_of(tensor: Any) -> tuple[DLDeviceType, int]:
    """DLPack's numbers for the device of a tensor.

    Raises:
        BufferError: for the meta device, which has no memory.
    """
    device = tensor._storage.device
    if device is META:
        raise BufferError("a tensor on the meta device has no memory to export")
    kinds = {"cpu": DLDeviceType.kDLCPU, "cuda": DLDeviceType.kDLCUDA}
    return kinds.get(device.type, DLDeviceType.kDLExtDev), device.index or 0
