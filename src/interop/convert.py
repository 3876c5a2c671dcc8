"""NumPy's arguments as ours: arrays and sequences as tensors, operands in one dtype, axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..autograd import Tensor
from ..autograd import functions as F
from ..autograd.dispatch import SCALARS
from ..autograd.ops.cast import to_dtype
from ..autograd.ops.promotion import category, get_default_dtype, result_dtype
from ..autograd.protocols import constant
from ..memory import CPU, pool, storage_of

__all__ = [
    "as_axes",
    "axis_of",
    "beside",
    "float_of",
    "floats",
    "met",
    "number_or_tensor",
    "owned",
    "plain",
    "promoted",
    "requires_grad",
    "tensor_of",
    "tensors_in",
    "tensors_of",
]


def tensor_of(value: Any) -> Any:
    """Anything array-like as a tensor: arrays share their memory, sequences with tensors among them are stacked."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, tuple | list) and next(tensors_in(value), None) is not None:
        return F.stack(met(*[tensor_of(part) for part in value]))
    converted = constant(value)
    return converted if isinstance(converted, Tensor) else constant(np.asarray(value))


def tensors_of(values: Iterable[Any]) -> list[Any]:
    """Several array-likes as tensors."""
    return [tensor_of(value) for value in (values.unbind(0) if isinstance(values, Tensor) else values)]


def owned(array: Any, like: Any = None) -> Any:
    """A tensor of an array that NumPy made for us: counted as an activation; on the device of another tensor."""
    array = np.asarray(array)
    if array.base is not None or storage_of(array) is not None:
        tensor = constant(array)
    else:
        tensor = Tensor._wrap(array, pool(CPU).adopt(array, "activation"))
    return tensor if like is None or like.device is CPU else tensor.to(like.device)


def number_or_tensor(value: Any) -> Any:
    """An operand of an element-wise function: Python's and NumPy's scalars are numbers, the rest are tensors."""
    if isinstance(value, SCALARS):
        return value
    return value.item() if isinstance(value, np.generic) else tensor_of(value)


def met(*tensors: Any) -> list[Any]:
    """Tensors in the one dtype that all of them can be converted to; those without dimensions don't widen others."""
    arrays = [tensor._array for tensor in tensors]
    common = arrays[0]
    for array in arrays[1:]:
        dtype = result_dtype(common, array)
        common = np.empty((0,) if common.ndim or array.ndim else (), dtype)
    return [to_dtype(tensor, common.dtype) if tensor._array.dtype != common.dtype else tensor for tensor in tensors]


def promoted(*values: Any) -> list[Any]:
    """Array-likes as tensors of one dtype; numbers and sequences are put on the device of the tensors."""
    like = next((value for value in values if isinstance(value, Tensor)), None)
    return met(*[beside(value, like) for value in values])


def beside(value: Any, like: Any) -> Any:
    """An array-like as a tensor: of a number or a sequence, on the device of another tensor."""
    tensor = tensor_of(value)
    if like is None or like.device is tensor.device or isinstance(value, Tensor | np.ndarray):
        return tensor
    return tensor.to(like.device)


def floats(*values: Any) -> list[Any]:
    """Array-likes as tensors of one floating-point dtype."""
    tensors = promoted(*values)
    return [to_dtype(x, get_default_dtype()) if category(x._array.dtype) < 2 else x for x in tensors]


def float_of(value: Any) -> Any:
    """An array-like as a tensor of a floating-point dtype."""
    return floats(value)[0]


def as_axes(axis: Any) -> Any:
    """NumPy's axes: None, a number, or a tuple."""
    return tuple(int(part) for part in axis) if isinstance(axis, tuple | list) else axis_of(axis)


def axis_of(axis: Any) -> int | None:
    """A single axis, or None."""
    return None if axis is None else int(axis)


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested sequences and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)


def requires_grad(*values: Any) -> bool:
    """Whether a tensor among the values, or in the sequences and dicts among them, requires grad."""
    return any(tensor.requires_grad for tensor in tensors_in(values))


def plain(value: Any) -> Any:
    """A structure with each tensor replaced by its NumPy array, whether gradients are asked for or not."""
    if isinstance(value, Tensor):
        return value.numpy(force=True)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[plain(part) for part in value])
    if isinstance(value, tuple | list):
        return type(value)([plain(part) for part in value])
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value
