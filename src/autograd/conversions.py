"""A tensor in another dtype, on another device, or as a Python number: methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import CPU, Device, as_device
from . import dtypes
from .creation.options import as_dtype
from .ops.cast import clone, to_device, to_dtype
from .ops.promotion import bfloat16
from .protocols import warn_of_element
from .variable import Variable


class ConversionMethods:
    """`to`, short names for it, and conversion to Python's numbers."""

    __slots__ = ()

    _array: Any
    _storage: Any
    item: Any

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """This tensor on another device, in another dtype, or like another tensor: itself where nothing changes.

        Called as ``to(dtype)``, ``to(device, dtype=None)`` or ``to(other)``, each with ``non_blocking`` and ``copy``
        after that. ``non_blocking`` and ``memory_format=`` are accepted for PyTorch's sake; ``copy`` says to copy in
        any case.

        Raises:
            TypeError: for any other arguments.
            RuntimeError: for a device that does not exist.
        """
        dtype, device, copy = _target(args, dict(kwargs))
        result: Any = self
        if dtype is not None and dtype != self._array.dtype:
            result = to_dtype(result, dtype)
        if device is not None and device is not self._storage.device:
            result = to_device(result, device)
        return clone(result) if copy and result is self else result

    def type(self, dtype: Any = None, non_blocking: Any = False) -> Any:
        """The tensor in another dtype, which PyTorch's old type names say as well; without one, its old type name.

        Raises:
            ValueError: for a type name that there is not.

        >>> import stowgrad
        >>> stowgrad.zeros(2).type()
        'torch.FloatTensor'
        """
        if dtype is None:
            return dtypes.type_name(self._array.dtype, self._storage.device.type)
        if isinstance(dtype, str) and dtype.endswith("Tensor"):
            return self.to(dtypes.dtype_of_type(dtype))
        return self.to(as_dtype("type", dtype))

    def type_as(self, other: Any) -> Any:
        """The tensor in the dtype of another, and on its device.

        Raises:
            TypeError: if that is no tensor.
        """
        if not isinstance(other, Variable):
            raise TypeError(f"type_as(): argument 'other' must be Tensor, not {_name(other)}")
        return self.to(other)

    def cpu(self, memory_format: Any = None) -> Any:
        """The tensor on the CPU."""
        return self.to(CPU)

    def cuda(self, device: Any = None, non_blocking: Any = False, memory_format: Any = None) -> Any:
        """The tensor on a CUDA device, the first by default: a `Device`, its name or its number."""
        if device is None or isinstance(device, int):
            device = f"cuda:{device or 0}"
        return self.to(as_device(device))

    def float(self, memory_format: Any = None) -> Any:
        """The tensor in float32."""
        return self.to(dtypes.float32)

    def double(self, memory_format: Any = None) -> Any:
        """The tensor in float64."""
        return self.to(dtypes.float64)

    def half(self, memory_format: Any = None) -> Any:
        """The tensor in float16."""
        return self.to(dtypes.float16)

    def bfloat16(self, memory_format: Any = None) -> Any:
        """The tensor in bfloat16."""
        return self.to(bfloat16)

    def cfloat(self, memory_format: Any = None) -> Any:
        """The tensor in complex64."""
        return self.to(dtypes.complex64)

    def cdouble(self, memory_format: Any = None) -> Any:
        """The tensor in complex128."""
        return self.to(dtypes.complex128)

    def bool(self, memory_format: Any = None) -> Any:
        """The tensor as bool."""
        return self.to(dtypes.bool_)

    def byte(self, memory_format: Any = None) -> Any:
        """The tensor in uint8."""
        return self.to(dtypes.uint8)

    def char(self, memory_format: Any = None) -> Any:
        """The tensor in int8."""
        return self.to(dtypes.int8)

    def short(self, memory_format: Any = None) -> Any:
        """The tensor in int16."""
        return self.to(dtypes.int16)

    def int(self, memory_format: Any = None) -> Any:
        """The tensor in int32."""
        return self.to(dtypes.int32)

    def long(self, memory_format: Any = None) -> Any:
        """The tensor in int64."""
        return self.to(dtypes.int64)

    def __bool__(self) -> Any:
        if self._array.size != 1:
            raise RuntimeError(f"Boolean value of Tensor with {self._array.size} values is ambiguous")
        return bool(self.item())

    def __float__(self) -> Any:
        return float(self._only_element())

    def __int__(self) -> Any:
        return int(self._only_element())

    def _only_element(self) -> Any:
        if self._array.size != 1:  # Python's conversions raise ValueError, `item` RuntimeError: PyTorch's types
            raise ValueError(
                f"only one element tensors can be converted to Python scalars; this one has {self._array.size}"
            )
        warn_of_element(self)
        return self.item()

    def __index__(self) -> Any:
        if self._array.dtype.kind not in "iu" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._array.ndim == 0 else object.__format__(self, spec)

    def __complex__(self) -> Any:
        return complex(self._only_element())


def _name(value: Any) -> Any:
    return value.__class__.__name__


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """The dtype and the device that the arguments of `to` name, and whether a copy is wanted."""
    kwargs.pop("memory_format", None)
    dtype, device, other = (kwargs.pop(name, None) for name in ("dtype", "device", "other"))
    flags = [arg for arg in args if isinstance(arg, bool)]
    places = [arg for arg in args if not isinstance(arg, bool) and arg is not None]
    copy = bool(kwargs.pop("copy", len(flags) > 1 and flags[1]))
    kwargs.pop("non_blocking", None)
    if kwargs or len(places) > 2 or len(flags) > 2:
        raise TypeError(f"to() got unexpected arguments: {', '.join(kwargs) or places + flags}")
    for arg in places if other is None else [other, *places]:
        if isinstance(arg, Variable):
            dtype, device = arg._array.dtype, arg._storage.device
        elif isinstance(arg, Device | str) and (isinstance(arg, Device) or not _names_dtype(arg)):
            device = arg
        else:
            dtype = arg
    return (
        None if dtype is None else as_dtype("to", dtype),
        None if device is None else as_device(device),
        copy,
    )


def _names_dtype(text: str) -> bool:
    try:
        np.dtype(text)
    except TypeError:
        return False
    return True
