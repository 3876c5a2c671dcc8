"""Tensors of data that is there: Python's numbers and sequences of them, arrays, buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...memory import DeviceLike, as_device, storage_for_user
from ..dispatch import SCALARS
from ..ops.cast import clone, copy_array_to
from ..ops.promotion import category, get_default_dtype, is_numeric, number_dtype, promote
from ..protocols import constant
from ..variable import Variable
from .exchanged import cuda_array
from .options import as_dtype, finished, fitting, placed, planned, python_number

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """A new tensor with a copy of ``data``: numbers, nested sequences, arrays or tensors.

    Python floats become the default dtype and integers int64, as in PyTorch; arrays keep their dtype.

    Raises:
        TypeError: if ``data`` is not numeric.
        ValueError: for sequences of different lengths in one dimension.
        RuntimeError: for a number that the dtype doesn't have, for what is no data, and for ``requires_grad`` with a
            dtype that has no gradients.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    wanted = None if dtype is None else as_dtype("tensor", dtype)
    on_cuda = cuda_array(data)
    if on_cuda is not None:
        data = constant(on_cuda)
    if isinstance(data, Variable) and device is None:
        device = data._storage.device
    source = values_of(data, wanted)
    return finished(Variable._tensor_class._wrap(*copy_array_to(source, placed(device), "activation")), requires_grad)


def values_of(data: Any, dtype: np.dtype[Any] | None) -> Any:
    """The array of ``data`` in a dtype, its own by default; of arrays and tensors of that dtype no copy."""
    if isinstance(data, Variable):
        found = data.numpy(force=True)  # type: ignore[attr-defined]
    elif isinstance(data, np.ndarray | np.generic):
        found = np.asarray(data)
        _check_numeric(found)
    else:
        return _from_python(data, dtype)
    if dtype is None or found.dtype == dtype:
        return found
    with np.errstate(invalid="ignore"):
        return (found.real if found.dtype.kind == "c" and dtype.kind != "c" else found).astype(dtype)


def _check_numeric(array: Any) -> None:
    if not is_numeric(array.dtype):
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}; expected numbers or bools")


def _from_python(data: Any, dtype: np.dtype[Any] | None) -> Any:
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        return values_of(np.asarray(data), dtype)
    plain = _plain(data)
    inferred = _inferred(plain)
    try:
        array = np.asarray(plain)
    except ValueError:
        raise ValueError("expected sequences of the same length in each dimension; these differ") from None
    if array.dtype.kind not in "biufc" or (array.dtype == np.uint64 and inferred == _INT64):
        if array.dtype.kind in "Ou":
            raise ValueError(f"Overflow when unpacking long long: an integer in {type(data).__name__} has over 64 bits")
        raise TypeError(f"new(): can't make a tensor of {type(data).__name__} data ({array.dtype})")
    if dtype is None:
        return array.astype(inferred, copy=False)
    return _converted(array, dtype)


def _converted(array: Any, dtype: np.dtype[Any]) -> Any:
    """Python's numbers in a dtype, which must have them."""
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError("must be real number, not complex")
    if category(dtype) == 1 and array.size and array.dtype.kind in "if":
        for bound in (array.min().item(), array.max().item()):
            fitting("tensor", bound, dtype)
    with np.errstate(all="ignore"):
        return array.astype(dtype, copy=False)


def _plain(data: Any) -> Any:
    """Nested lists with arrays in place of the tensors among them."""
    if isinstance(data, Variable):
        return data.numpy(force=True)  # type: ignore[attr-defined]
    if isinstance(data, list | tuple) and not set(map(type, data)) <= set(SCALARS):
        return [_plain(part) for part in data]
    if isinstance(data, range | bytearray) or (not isinstance(data, list | tuple) and _is_sequence(data)):
        return list(data)
    return data


def _is_sequence(data: Any) -> bool:
    return not isinstance(data, (*SCALARS, str, bytes, dict, np.ndarray, np.generic)) and (
        hasattr(data, "__getitem__") and hasattr(data, "__len__")
    )


def _inferred(data: Any) -> np.dtype[Any]:
    """The dtype of what Python's data becomes.

    Raises:
        RuntimeError: for what is neither a number nor a sequence.
    """
    if isinstance(data, np.ndarray | np.generic):
        return data.dtype
    if isinstance(data, SCALARS):
        return number_dtype(data)
    if isinstance(data, str | bytes):
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    if not isinstance(data, list | tuple):
        if hasattr(data, "__float__") or hasattr(data, "__index__"):
            return get_default_dtype()
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    kinds = set(map(type, data))
    if kinds <= set(SCALARS):
        parts = [number_dtype(kind()) for kind in kinds]
    else:
        parts = list({_inferred(part) for part in data})
    if not parts:
        return get_default_dtype()
    found = parts[0]
    for part in parts[1:]:
        found = promote(found, part)
    return found


def from_numpy(array: np.ndarray[Any, Any]) -> Any:
    """A tensor over the memory of a NumPy array: whoever writes to one writes to the other.

    Strides are kept, negative ones too. The memory is counted under category input, outside the limit; it has one
    version however often it comes in.

    Raises:
        TypeError: for anything but an array of numbers.
        ValueError: for an array in the other byte order.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    _check_numeric(array)
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order; copy it with astype()")
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return Variable._tensor_class._wrap(array, storage_for_user(array))


def as_tensor(data: Any, dtype: Any = None, device: DeviceLike | None = None) -> Any:
    """``data`` as a tensor, sharing its memory where that is possible.

    So it is for arrays of NumPy and CuPy, and for what has the array interface of either.
    """
    if isinstance(data, Variable):
        result: Any = data
    elif isinstance(data, np.ndarray):
        result = from_numpy(data)
    else:
        on_cuda = cuda_array(data)
        if on_cuda is None:
            return tensor(data, dtype=dtype, device=device)
        result = constant(on_cuda)
    return result.to(dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Any:
    """``obj`` as a tensor: sharing its memory where that is possible, unless ``copy`` says always (True) or never.

    With ``copy=False`` what can't be shared is an error. Unless ``requires_grad`` is set the result of a tensor keeps
    its history.

    Raises:
        ValueError: if memory can't be shared and must not be copied.
    """
    on_cuda = cuda_array(obj)
    if on_cuda is not None:
        obj = constant(on_cuda)
    if isinstance(obj, Variable | np.ndarray):
        result: Any = obj if isinstance(obj, Variable) else from_numpy(obj)
        wanted = result.dtype if dtype is None else as_dtype("asarray", dtype)
        there = result.device if device is None else as_device(device)
        if copy is False and (wanted != result.dtype or there is not result.device):
            raise ValueError(
                f"asarray: can't alias a tensor of {result.dtype} on {result.device} as {wanted} on {there} without a"
                " copy"
            )
        shared = result.to(dtype=wanted, device=there)
        result = clone(shared) if copy and shared is result else shared
        if requires_grad and not result._requires_grad:
            result = result.detach().requires_grad_()
        return result
    if copy is False and not _has_buffer(obj):
        raise ValueError("asarray: can't alias arbitrary sequence into a tensor.")
    if _has_buffer(obj) and not isinstance(obj, bytearray):
        return asarray(np.asarray(obj), dtype=dtype, device=device, copy=copy, requires_grad=requires_grad)
    return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)


def _has_buffer(obj: Any) -> bool:
    return isinstance(obj, memoryview) or hasattr(obj, "__array_interface__") or hasattr(obj, "__dlpack__")


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A tensor of one dimension over the memory of an object with Python's buffer protocol.

    Args:
        count: how many elements; -1 means all.
        offset: how many bytes to leave out at the beginning.

    Raises:
        ValueError: if the buffer is empty, has no such part, or is not a multiple of the elements' size.
    """
    kind = as_dtype("frombuffer", dtype)
    length = memoryview(buffer).nbytes
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    left = length - offset
    if count < 0 and left % kind.itemsize:
        raise ValueError(
            f"buffer length ({left} bytes) after offset ({offset} bytes) must be a multiple of element size"
            f" ({kind.itemsize})"
        )
    if count > 0 and count * kind.itemsize > left:
        raise ValueError(
            f"requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} bytes) must not be"
            f" greater than actual buffer length ({length} bytes)"
        )
    result = from_numpy(np.frombuffer(buffer, kind, count, offset))
    return result.requires_grad_() if requires_grad else result


def scalar_tensor(s: Any, **options: Any) -> Any:
    """A number as a tensor without dimensions, of the default dtype unless one is named.

    Raises:
        TypeError: if it is no number.
    """
    plan = planned("scalar_tensor", options)
    value = fitting("scalar_tensor", python_number("scalar_tensor", s), plan.dtype)
    made = copy_array_to(np.asarray(value).astype(plan.dtype), plan.device, "activation")
    return finished(Variable._tensor_class._wrap(*made), plan.requires_grad)
