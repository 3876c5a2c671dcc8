"""Tensors over memory of other libraries: through DLPack, and from what lies on a CUDA device."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...memory import DeviceLike, as_device, import_cupy, pool, referable_array
from ..dlpack import Capsule, DLDeviceType
from ..ops.cast import clone
from ..protocols import constant
from ..variable import Variable

__all__ = ["cuda_array", "from_dlpack", "to_dlpack"]

_HOST = (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost)
_CUDA = (DLDeviceType.kDLCUDA, DLDeviceType.kDLCUDAManaged)
_LEGACY_DEFAULT_STREAM = 1


def from_dlpack(ext_tensor: Any, *, device: DeviceLike | None = None, copy: bool | None = None) -> Any:
    """A tensor over the memory of another library's array, which has ``__dlpack__`` and ``__dlpack_device__``.

    The memory is counted under category input for as long as a tensor looks at it. A tensor of stowgrad's own comes
    back detached, over the same memory. What the other library says must not be written can't be.

    Args:
        ext_tensor: the array, or a capsule that nobody has taken yet.
        device: where the tensor is to be; where the memory is by default.
        copy: True for a tensor with memory of its own, False for an error where a copy is needed.

    Raises:
        RuntimeError: for what does not speak DLPack, and for a capsule that was taken.
        BufferError: for memory or a dtype that can't be exported, such as that of a tensor that requires grad.
        ValueError: if a copy is needed and must not be made.

    >>> import numpy as np, stowgrad
    >>> array = np.arange(3.0)
    >>> stowgrad.from_dlpack(array).mul_(2)
    tensor([0., 2., 4.], dtype=float64)
    >>> array
    array([0., 2., 4.])
    """
    if isinstance(ext_tensor, Variable):
        if ext_tensor.requires_grad:  # type: ignore[attr-defined]
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        taken: Any = ext_tensor.detach()  # type: ignore[attr-defined]
    elif hasattr(ext_tensor, "__dlpack__"):
        taken = _received(_asked(ext_tensor, copy))
    else:
        if type(ext_tensor).__name__ == "PyCapsule" and (device is not None or copy is not None):
            raise TypeError("from_dlpack(): device and copy are not for capsules, whose memory is what it is")
        taken = _received(ext_tensor)
    there = taken.device if device is None else as_device(device)
    if there is not taken.device:
        if copy is False:
            raise ValueError(f"from_dlpack(): can't move memory from {taken.device} to {there} without a copy")
        return taken.to(there)
    return clone(taken) if copy else taken


def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule over a tensor's memory, which stays counted until the consumer lets go: see `Tensor.__dlpack__`.

    Raises:
        BufferError: if the tensor requires grad, or has no memory.
    """
    return tensor.__dlpack__()


def _asked(source: Any, copy: bool | None) -> Any:
    """The capsule of an object, ready for the stream on which we shall use it."""
    kind, number = source.__dlpack_device__()
    keywords = {"copy": False} if copy is False else {}
    if kind not in _CUDA:
        try:
            return source.__dlpack__(max_version=(1, 0), **keywords)
        except TypeError:  # of the time before version 1.0
            return source.__dlpack__(**keywords)
    pool(f"cuda:{number}")  # whether there is such a device, and CuPy
    cupy = import_cupy()
    with cupy.cuda.Device(number):
        stream = cupy.cuda.get_current_stream().ptr
        return source.__dlpack__(stream=stream or _LEGACY_DEFAULT_STREAM, **keywords)


class _Carrier:
    """Hands a capsule to NumPy."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class _Writable:
    """The memory of an array that is marked as not to be written, without the mark."""

    def __init__(self, array: Any) -> None:
        self.base = array
        said = array.__array_interface__
        self.__array_interface__ = {**said, "data": (said["data"][0], False)}


def _received(capsule: Any) -> Any:
    """The tensor of a capsule, which is taken with that."""
    found = Capsule(capsule)
    kind, number = found.device
    if kind not in (*_HOST, *_CUDA):
        raise BufferError(f"from_dlpack(): expected memory of the CPU or of CUDA (1, 2, 3 or 13), got device {kind}")
    narrow = found.take_as_integers()
    if kind in _CUDA:
        pool(f"cuda:{number}")
        array = import_cupy().from_dlpack(capsule)
        return constant(referable_array(array, narrow or array.dtype, _extent(array)))
    array = np.from_dlpack(_Carrier(capsule, (kind, number)))
    if not found.has_flags:  # it can't say that it must not be written; NumPy is careful then, PyTorch is not
        array = np.asarray(_Writable(array))
    return constant(array if narrow is None else array.view(narrow))


def _extent(array: Any) -> int:
    """Bytes from the first of an array's elements in memory to the last."""
    if not array.size:
        return 0
    pairs = zip(array.shape, array.strides, strict=True)
    return int(array.itemsize + sum(abs(stride) * (size - 1) for size, stride in pairs))


def cuda_array(data: Any) -> Any:
    """The CuPy array of what lies on a CUDA device: an array of CuPy, or of who has its array interface; else None."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(data, cupy.ndarray):
        return data
    if hasattr(type(data), "__cuda_array_interface__") and not isinstance(data, Variable):
        return import_cupy().asarray(data)
    return None
