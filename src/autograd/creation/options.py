"""What the makers of tensors are told besides sizes: dtype, device, and words of PyTorch's that mean little here.

`Options` are the keywords that all of them take. ``layout``, ``memory_format`` and ``pin_memory`` are accepted for
PyTorch's sake: results lie in C order, in memory of their device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...memory import CPU, META, Device, as_device, pool
from ...saved_tensors.state import current
from .. import inplace
from ..dispatch import SCALARS
from ..ops.promotion import category, get_default_dtype, is_numeric
from ..variable import Variable


class Layout:
    """How elements lie in memory, by PyTorch's name for it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"stowgrad.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided, contiguous_format, preserve_format = Layout("strided"), Layout("contiguous_format"), Layout("preserve_format")


# By name; ``size`` only where a maker is told sizes one by one.
Options: TypeAlias = dict[str, Any]
_KNOWN = ("dtype", "device", "requires_grad", "layout", "memory_format", "pin_memory", "size")


_default_device: Device = CPU


def get_default_device() -> Device:
    """Where makers of tensors put them that are told no device."""
    return _default_device


def set_default_device(device: Any) -> None:
    """Set what `get_default_device` returns, for all threads; None means the CPU."""
    global _default_device
    _default_device = as_device(device)


class Plan(NamedTuple):
    """`Options` with the defaults filled in."""

    dtype: np.dtype[Any]
    device: Device
    requires_grad: bool

    def options(self) -> Options:
        """The dtype and the device as options."""
        return {"dtype": self.dtype, "device": self.device}


def as_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """A dtype of tensors from anything that names one.

    Raises:
        TypeError: if nothing of that name can be the dtype of a tensor.
    """
    if isinstance(dtype, np.dtype):
        found = dtype
    else:
        try:
            found = np.dtype(dtype)
        except TypeError:
            raise TypeError(
                f"{name}(): argument 'dtype' must be a dtype, like stowgrad.float32, got {dtype!r}"
            ) from None
    if not is_numeric(found):
        raise TypeError(f"{name}(): argument 'dtype' must be a dtype of numbers or bools, got {found}")
    return found


def placed(device: Any) -> Device:
    """A device, the default one if none is named."""
    return _default_device if device is None else as_device(device)


def planned(name: str, options: Options, dtype: np.dtype[Any] | None = None, device: Device | None = None) -> Plan:
    """The options, with defaults.

    Raises:
        TypeError: for an option that there is not.
        NotImplementedError: for a layout other than the strided one.
    """
    unknown = [key for key in options if key not in _KNOWN]
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument '{unknown[0]}'")
    if options.get("layout") not in (None, strided):
        raise NotImplementedError(f"{name}(): there are strided tensors only, got layout={options['layout']!r}")
    given, where = options.get("dtype"), options.get("device")
    return Plan(
        (dtype or get_default_dtype()) if given is None else as_dtype(name, given),
        placed(where) if where is not None or device is None else device,
        bool(options.get("requires_grad", False)),
    )


def sizes(name: str, size: tuple[Any, ...], options: Options | None = None) -> tuple[int, ...]:
    """The sizes that a maker was called with: one by one, as one sequence, or as ``size=``.

    Raises:
        TypeError: for what is no integer.
        RuntimeError: for a negative size.
    """
    if options is not None and "size" in options:
        if size:
            raise TypeError(f"{name}() got multiple values for argument 'size'")
        size = (options["size"],)
    if len(size) == 1 and isinstance(size[0], tuple | list):
        size = tuple(size[0])
    return tuple([_size(name, part) for part in size])


def _size(name: str, part: Any) -> int:
    if isinstance(part, int) and not isinstance(part, bool):
        found = part
    elif isinstance(part, np.integer) or (isinstance(part, Variable) and part._array.dtype.kind in "iu"):
        found = int(python_number(name, part))
    else:
        raise TypeError(f"{name}(): expected sizes as integers, got {type(part).__name__}")
    if found < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {found}")
    return found


def leased(shape: tuple[int, ...], plan: Plan) -> Any:
    """An uninitialised tensor."""
    return Variable._tensor_class._wrap(*pool(plan.device).lease(shape, plan.dtype, "activation"))


def finished(tensor: Any, requires_grad: bool) -> Any:
    """A new tensor as its maker returns it."""
    if current().inference:
        tensor._storage.mark_inference()
    return tensor.requires_grad_() if requires_grad else tensor


def delivered(name: str, out: Any, made: Any) -> Any:
    """A new tensor, or ``out`` with its elements, of that shape.

    Raises:
        TypeError: if ``out`` is no tensor.
        RuntimeError: if it has another dtype, or lies on another device.
    """
    if not isinstance(out, Variable):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if out._array.dtype != made._array.dtype:
        raise RuntimeError(
            f"{name}(): dtype {made._array.dtype} does not match dtype of out parameter ({out._array.dtype})"
        )
    if out._storage.device is not made._storage.device:
        raise RuntimeError(f"{name}(): out is on {out._storage.device}, not on {made._storage.device}")
    if out._array.shape == made._array.shape:
        return inplace.copy_(out, made)
    out._array, out._storage = made._array, made._storage
    return out


def like_out(out: Any, options: Options) -> Options:
    """Options with the dtype and device of ``out`` where they name none."""
    if not isinstance(out, Variable):
        return options
    return {"dtype": out._array.dtype, "device": out._storage.device} | options


def python_number(name: str, value: Any) -> Any:
    """A Python number from one, from NumPy's or from a tensor of one element.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(value, Variable) and value._array.size == 1 and value._storage.device is not META:
        return value.item()  # type: ignore[attr-defined]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, SCALARS):
        if getattr(value, "ndim", 0):
            raise RuntimeError(
                f"{name} only supports 0-dimensional tensors, but got one with {value.ndim} dimension(s)"
            )
        raise TypeError(f"{name}(): expected a number, got {type(value).__name__}")
    return value


def fitting(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """A number as an element of a dtype.

    Raises:
        RuntimeError: if it can't be one: too large for an integer, complex for a real dtype.
    """
    rank = category(dtype)
    problem = isinstance(value, complex) and rank < 3 and value.imag != 0
    if not problem and rank == 1 and not isinstance(value, bool):
        value = value.real if isinstance(value, complex) else value
        limits = np.iinfo(dtype)
        low = -limits.max - 1 if dtype.kind == "u" else limits.min  # negative numbers count from above
        problem = not math.isfinite(value) or not low <= int(value) <= limits.max
        if not problem:
            return int(value) % (limits.max + 1) if dtype.kind == "u" else int(value)
    if problem:
        raise RuntimeError(f"{name}: value cannot be converted to type {dtype} without overflow: {value}")
    return value.real if isinstance(value, complex) and rank < 3 else value
