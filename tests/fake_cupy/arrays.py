"""The double's memory, arrays and functions."""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import threading
from typing import Any

import numpy as np


def words(text: str) -> list[str]:
    """Names, one after another."""
    return text.split()


# -- memory and arrays -------------------------------------------------------------------------------------------------


class BaseMemory:
    """What CuPy's memory objects have in common; as there, none but those of subclasses can be referred to weakly."""

    __slots__ = ("device_id", "ptr", "size")


class Memory(BaseMemory):
    """A driver allocation."""

    __slots__ = ("_bytes",)
    failing = False

    def __init__(self, size: int) -> None:
        if Memory.failing:
            raise CUDARuntimeError(2)
        self._bytes = (ctypes.c_uint8 * (size + 256))()
        start = ctypes.addressof(self._bytes)
        # Aligned as the driver's: how NumPy rounds a sum depends on it.
        self.ptr, self.size, self.device_id = start + -start % 256, size, state.current


class UnownedMemory(BaseMemory):
    __slots__ = ("_owner",)

    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError {status}")
        self.status = status


class Device:
    def __init__(self, index: int) -> None:
        self.id = index

    def __enter__(self) -> None:
        self._before, state.current = state.current, self.id

    def __exit__(self, *exc_info: object) -> None:
        state.current = self._before


class Event(tuple[str, int]):
    """What a stream has recorded: it has come."""

    done = True

    def synchronize(self) -> None:
        """Nothing is under way."""


class Stream:
    """A stream that notes which others it waited for."""

    _numbers = itertools.count()

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.ptr = next(Stream._numbers)
        self.waited: list[object] = []

    def record(self) -> tuple[str, int]:
        return Event(("event", self.ptr))

    def wait_event(self, event: object) -> None:
        self.waited.append(event)

    def __enter__(self) -> Stream:
        self._before, state.stream = state.stream, self
        return self

    def __exit__(self, *exc_info: object) -> None:
        state.stream = self._before


class State:
    """What the double's functions read: tests change it."""

    current = 0
    device_count = 2
    allocator: Any = None

    def __init__(self) -> None:
        self.ordered: list[tuple[int, int]] = []
        self._null = Stream()
        self._thread = threading.local()

    @property
    def stream(self) -> Stream:
        """The current stream of this thread."""
        return getattr(self._thread, "stream", self._null)

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._thread.stream = stream


state = State()


def count_devices() -> int:
    if state.device_count < 0:
        raise CUDARuntimeError(100)
    return state.device_count


class _Flags:
    def __init__(self, flags: Any) -> None:
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous


def host(value: Any) -> Any:
    """What NumPy may compute with: a device array's elements, or a number."""
    if isinstance(value, ndarray):
        if value._mem.device_id != state.current:
            raise ValueError(f"an array of device {value._mem.device_id} on device {state.current}")
        return value._a
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _device(result: Any) -> Any:
    """What NumPy computed, in device memory."""
    result = np.asarray(result)
    out = empty(result.shape, result.dtype)
    out._a[...] = result
    return out


class ndarray:  # noqa: N801  # CuPy's name
    """An array in device memory."""

    __array_ufunc__ = None

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None) -> None:
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if memptr is None:
            nbytes = math.prod(shape) * dtype.itemsize
            memptr = state.allocator(nbytes) if state.allocator else MemoryPointer(Memory(nbytes), 0)
        mem = memptr.mem
        whole = np.frombuffer((ctypes.c_uint8 * max(mem.size, 1)).from_address(mem.ptr), np.uint8)
        self._mem = mem
        self._a = np.ndarray(shape, dtype, whole, memptr.ptr - mem.ptr, strides)

    def _view(self, array: np.ndarray[Any, Any]) -> ndarray:
        """A result of indexing and the like: a view of the same memory, or a copy in new memory."""
        start, address = self._mem.ptr, array.__array_interface__["data"][0]
        if array.size and not start <= address < start + self._mem.size:
            return _device(array)
        view = object.__new__(ndarray)
        view._a, view._mem = array, self._mem
        return view

    shape = property(lambda self: self._a.shape, lambda self, shape: self._set_shape(shape))
    dtype = property(lambda self: self._a.dtype)
    strides = property(lambda self: self._a.strides)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    itemsize = property(lambda self: self._a.itemsize)
    nbytes = property(lambda self: self._a.nbytes)
    flags = property(lambda self: _Flags(self._a.flags))
    T = property(lambda self: self._view(self._a.T))
    real = property(lambda self: self._view(self._a.real))
    imag = property(lambda self: self._view(self._a.imag))
    base = property(lambda self: None)

    @property
    def data(self) -> MemoryPointer:
        return MemoryPointer(self._mem, self._a.__array_interface__["data"][0] - self._mem.ptr)

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        try:
            self._a = self._a.reshape(shape, copy=False)
        except ValueError:
            raise AttributeError("Incompatible shape for in-place modification.") from None

    def reshape(self, *shape: Any) -> ndarray:
        return self._view(self._a.reshape(*shape))

    def transpose(self, *axes: Any) -> ndarray:
        return self._view(self._a.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> ndarray:
        return self._view(self._a.swapaxes(a, b))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
        found = self._a.diagonal(offset, axis1, axis2)
        found.flags.writeable = True  # CuPy's may be written
        return self._view(found)

    def view(self, dtype: Any = None) -> ndarray:
        return self._view(self._a.view() if dtype is None else self._a.view(dtype))

    def astype(self, dtype: Any, copy: bool = True) -> ndarray:
        return self if not copy and self.dtype == dtype else _device(self._a.astype(dtype))

    def copy(self) -> ndarray:
        return _device(self._a)

    def fill(self, value: Any) -> None:
        self._a.fill(host(value))

    def get(
        self, stream: Any = None, order: str = "C", out: np.ndarray[Any, Any] | None = None, blocking: bool = True
    ) -> np.ndarray[Any, Any]:
        if out is None:
            return self._a.copy()
        if out.dtype != self.dtype or out.shape != self.shape or not out.flags.c_contiguous:
            raise TypeError("get: the out does not fit")
        out[...] = self._a
        return out

    def set(self, array: np.ndarray[Any, Any], stream: Any = None) -> None:
        if type(array) is not np.ndarray or array.dtype != self.dtype or array.shape != self.shape:
            raise TypeError("set: the array does not fit")
        if not self._a.flags.c_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        self._a[...] = array

    def any(self) -> ndarray:
        return _device(host(self).any())

    def all(self) -> ndarray:
        return _device(host(self).all())

    def min(self) -> ndarray:
        return _device(host(self).min())

    def max(self) -> ndarray:
        return _device(host(self).max())

    def sum(self) -> ndarray:
        return _device(host(self).sum())

    def item(self) -> Any:
        return self._a.item()

    def __len__(self) -> int:
        return len(self._a)

    def __getitem__(self, key: Any) -> ndarray:
        key = tuple(map(host, key)) if isinstance(key, tuple) else host(key)
        found = self._a[key]
        return self._view(found if isinstance(found, np.ndarray) else self._a[(*np.atleast_1d(key), ...)])

    def __setitem__(self, key: Any, value: Any) -> None:
        key = tuple(map(host, key)) if isinstance(key, tuple) else host(key)
        self._a[key] = host(value)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.shape:
            return args[0].shape
        if function is np.count_nonzero:
            return _device(np.count_nonzero(host(args[0])))
        raise TypeError(f"numpy.{function.__name__} of CuPy arrays: not among the calls that are used")


for _name in ("bool", "int", "float", "index"):
    _convert = {"bool": bool, "int": int, "float": float, "index": operator.index}[_name]
    setattr(ndarray, f"__{_name}__", lambda self, convert=_convert: convert(self._a))
for _name in words("add sub mul truediv floordiv mod pow and or xor eq ne lt le gt ge"):
    _operation = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__{_name}__", lambda x, y, f=_operation: _device(f(host(x), host(y))))


# -- functions ---------------------------------------------------------------------------------------------------------


def writing(function: Any) -> Any:
    """A function of NumPy with ``out=``, on device arrays."""

    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            if out is None:
                return _device(function(*map(host, args), **kwargs))
            if not isinstance(out, ndarray):
                raise TypeError("out must be a CuPy array")
            function(*map(host, args), out=host(out), **kwargs)
            return out

    return run


def empty(shape: Any, dtype: Any) -> ndarray:
    made = ndarray(shape, dtype)
    made._a.reshape(-1).view(np.uint8)[...] = 0xA5  # what nobody wrote shows
    return made


def full(shape: Any, value: Any, dtype: Any) -> ndarray:
    return _device(np.full(shape, value, dtype))


def zeros(shape: Any, dtype: Any) -> ndarray:
    return full(shape, 0, dtype)


def copyto(dst: ndarray, src: Any, casting: Any = "same_kind", where: Any = None) -> None:
    np.copyto(host(dst), host(src), casting=casting, where=True if where is None else host(where))


def take(a: ndarray, indices: ndarray, axis: int, out: ndarray) -> ndarray:
    if out.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    np.take(host(a), host(indices), axis, out=host(out), mode="wrap")
    return out


def argsort(a: ndarray, axis: int = -1, kind: str | None = None) -> ndarray:
    if kind not in (None, "stable"):
        raise ValueError("only stable sorts")
    return _device(np.argsort(host(a), axis, "stable"))


def bincount(x: ndarray, weights: ndarray | None = None, minlength: int = 0) -> ndarray:
    return _device(np.bincount(host(x), host(weights), minlength))


def matmul(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    if max(a.ndim, b.ndim) > 2 and a.dtype.char not in "efdFD":
        raise TypeError("no batched product of this dtype")
    return writing(np.matmul)(a, b, out=out)  # type: ignore[no-any-return]


def ascontiguousarray(a: ndarray) -> ndarray:
    return a if a._a.flags.c_contiguous else _device(host(a))


def broadcast_to(a: ndarray, shape: Any) -> ndarray:
    return a._view(np.broadcast_to(a._a, shape))


def as_strided(x: ndarray, shape: Any, strides: Any) -> ndarray:
    return x._view(np.lib.stride_tricks.as_strided(x._a, shape, strides))


def flatnonzero(a: ndarray) -> ndarray:
    return _device(np.flatnonzero(host(a)))
