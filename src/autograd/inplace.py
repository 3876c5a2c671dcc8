"""Writing into tensors: the checks, the version, the write.

In-place ops that would have to be recorded are refused with an error: they need the history of the tensor, and of
every view of its memory, to be rewritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import META, pool
from ..saved_tensors.state import current
from .arrays import overlaps_itself
from .ops.cast import copy_between
from .ops.elementwise import Binary
from .ops.promotion import category
from .random import Generator, default_generator
from .record import broadcast_shapes
from .variable import Variable


def check_writable(name: str, target: Any, *operands: Any) -> None:
    """Raise if a tensor may not be written in place now.

    Raises:
        RuntimeError: for a leaf that requires grad (or a view of one), for anything that would be recorded, and for
            memory in which elements overlap.
    """
    if current().grad_enabled:
        _check_history(name, target, operands)
    if overlaps_itself(target._array) and target._storage.device is not META:
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single"
            " memory location. Please clone() the tensor before performing the operation."
        )


def _check_history(name: str, target: Any, operands: tuple[Any, ...]) -> None:
    base = target._meta.base if target._meta is not None else None
    if target._requires_grad and target._grad_fn is None:
        raise RuntimeError(f"{name}: a leaf Variable that requires grad is being used in an in-place operation.")
    if base is not None and base._requires_grad and base._grad_fn is None:
        raise RuntimeError(
            f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    operand = any(isinstance(value, Variable) and value._requires_grad for value in operands)
    if target._requires_grad or operand or (base is not None and base._requires_grad):
        raise RuntimeError(
            f"{name}: an in-place operation that autograd would record is not supported; use the out-of-place"
            " operation, or stowgrad.no_grad() where no gradient is needed"
        )


def written(target: Any) -> Any:
    """Count a write; returns the tensor."""
    target._storage.version += 1
    return target


def _fits(name: str, target: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if np.broadcast_shapes(target.shape, shape) != target.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape of {list(shape)}"
        )
    if category(dtype) > category(target.dtype):
        raise RuntimeError(f"{name}: result type {dtype} can't be cast to the desired output type {target.dtype}")


def binary_(op: Binary, target: Any, other: Any) -> Any:
    """``target = op(target, other)``, in the memory of ``target``."""
    name = f"{op.name}_"
    check_writable(name, target, other)
    array, value = target._array, other._array if isinstance(other, Variable) else other
    ((shape, dtype),) = op.infer(array, value)
    _fits(name, array, shape, dtype)
    device = target._storage.device
    if isinstance(other, Variable) and other._storage.device is not device:
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, {device} and"
            f" {other._storage.device}"
        )
    if device is META:
        return written(target)
    k = backend(device.type)
    if array.flags.c_contiguous and dtype == array.dtype and getattr(value, "dtype", dtype) == dtype:
        op.kernel(k, array, value, array)
    else:
        result, _ = pool(device).lease(array.shape, dtype, "temporary")
        op.kernel(k, array, value, result)
        _write(k, result, array)
    return written(target)


def _write(k: Any, source: Any, target: Any) -> None:
    """Fill an array that may have any strides."""
    if target.flags.c_contiguous:
        k.copy(source, target)
    else:
        target[...] = source


def copy_(target: Any, source: Any) -> Any:
    """Fill a tensor with another's values, which are broadcast and cast, from any device."""
    check_writable("copy_", target, source)
    array, values = target._array, source._array
    if broadcast_shapes("copy_", array.shape, values.shape) != array.shape:
        raise RuntimeError(
            f"copy_: The expanded size of the tensor {list(array.shape)} must match the existing size"
            f" {list(values.shape)}"
        )
    if target._storage.device is META:
        return written(target)
    if target._storage.device.type == "cuda" or source._storage.device.type == "cuda":
        copy_between(values, array)
    else:
        _write(backend("cpu"), values, array)
    return written(target)


def fill_(target: Any, value: Any) -> Any:
    """Fill a tensor with a number."""
    check_writable("fill_", target)
    if target._storage.device is not META:
        if target._array.flags.c_contiguous:
            backend(target._storage.device.type).fill(target._array, value)
        else:
            target._array[...] = value
    return written(target)


def setitem(target: Any, index: Any, value: Any) -> None:
    """Write into the elements that an index selects."""
    check_writable("__setitem__", target, value)
    values = value._array if isinstance(value, Variable) else value
    try:
        if target._storage.device is not META:
            target._array[index] = values
    except ValueError as error:
        raise RuntimeError(f"__setitem__: the value does not fit the selected elements: {error}") from None
    written(target)


def random_(name: str, target: Any, draw: str, generator: Generator | None, **keywords: float) -> Any:
    """Fill a tensor with random numbers, by the kernel called ``draw``."""
    check_writable(name, target)
    source = default_generator() if generator is None else generator
    array = target._array
    key, counter = source.take(backend("cpu").counter_steps(array.size))
    if target._storage.device is META:
        return written(target)
    k = backend(target._storage.device.type)
    if array.flags.c_contiguous:
        getattr(k, draw)(array, key=key, counter=counter, **keywords)
    else:
        drawn, _ = pool(target._storage.device).lease(array.shape, array.dtype, "temporary")
        getattr(k, draw)(drawn, key=key, counter=counter, **keywords)
        array[...] = drawn
    return written(target)
