"""Making tensors: from data, filled, counted, random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import CPU, META, DeviceLike, as_device, pool, storage_for_user
from ..saved_tensors.state import current
from . import inplace
from .ops.cast import copy_array_to
from .ops.promotion import default_dtype, is_floating
from .random import Generator, default_generator
from .tensor import Tensor


def _finished(tensor: Tensor, requires_grad: bool) -> Tensor:
    if current().inference:
        tensor._storage.mark_inference()
    return tensor.requires_grad_() if requires_grad else tensor


def _sizes(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], tuple | list):
        size = tuple(size[0])
    for part in size:
        if isinstance(part, bool) or not isinstance(part, int | np.integer):
            raise TypeError(f"expected sizes as integers, got {type(part).__name__}")
        if part < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {part}: {list(size)}")
    return tuple(int(part) for part in size)


def tensor(data: Any, *, dtype: Any = None, device: DeviceLike | None = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of ``data``: numbers, nested sequences, arrays or tensors.

    Python floats become float32 and integers int64, as in PyTorch; arrays keep their dtype.

    Raises:
        TypeError: if ``data`` is not numeric.
        RuntimeError: for ``requires_grad`` with a dtype that has no gradients.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    if isinstance(data, Tensor):
        source = data.numpy(force=True)
    else:
        source = np.asarray(data)
        if source.dtype.kind not in "biufcV":
            raise TypeError(f"new(): can't make a tensor of {type(data).__name__} data ({source.dtype})")
        if dtype is None and not isinstance(data, np.ndarray | np.generic) and source.dtype == np.float64:
            dtype = default_dtype
    if dtype is not None:
        source = source.astype(dtype, copy=False)
    return _finished(Tensor._wrap(*copy_array_to(source, as_device(device), "activation")), requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over the memory of a NumPy array: whoever writes to one writes to the other.

    The memory is counted under category input, outside the limit; it has one version however often it comes in.

    Raises:
        TypeError: for anything but an array of numbers.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    if array.dtype.kind not in "biufc" and not is_floating(array.dtype):
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}; expected numbers or bools")
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order; copy it with astype()")
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return Tensor._wrap(array, storage_for_user(array))  # type: ignore[no-any-return]


def as_tensor(data: Any, dtype: Any = None, device: DeviceLike | None = None) -> Tensor:
    """``data`` as a tensor, sharing its memory where that is possible."""
    if isinstance(data, Tensor):
        result = data
    elif isinstance(data, np.ndarray):
        result = from_numpy(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    return result.to(dtype=dtype, device=device)  # type: ignore[no-any-return]


def empty(*size: Any, dtype: Any = None, device: DeviceLike | None = None, requires_grad: bool = False) -> Tensor:
    """An uninitialised tensor."""
    array, storage = pool(as_device(device)).lease(_sizes(size), np.dtype(dtype or default_dtype), "activation")
    return _finished(Tensor._wrap(array, storage), requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: DeviceLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor filled with a number, whose kind gives the dtype unless one is named."""
    if dtype is None:
        dtype = default_dtype if isinstance(fill_value, float) else np.asarray(fill_value).dtype
    made = empty(*_sizes((size,) if isinstance(size, int) else tuple(size)), dtype=dtype, device=device)
    if made.device is not META:
        backend(made.device.type).fill(made._array, fill_value)
    return _finished(made, requires_grad)


def zeros(*size: Any, dtype: Any = None, device: DeviceLike | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return full(_sizes(size), 0, dtype=dtype or default_dtype, device=device, requires_grad=requires_grad)


def ones(*size: Any, dtype: Any = None, device: DeviceLike | None = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return full(_sizes(size), 1, dtype=dtype or default_dtype, device=device, requires_grad=requires_grad)


def _like(like: Tensor, dtype: Any, device: DeviceLike | None) -> dict[str, Any]:
    return {"dtype": dtype or like.dtype, "device": device or like.device}


def empty_like(like: Tensor, *, dtype: Any = None, device: DeviceLike | None = None) -> Tensor:
    """An uninitialised tensor of another's shape, dtype and device."""
    return empty(like.shape, **_like(like, dtype, device))


def zeros_like(like: Tensor, *, dtype: Any = None, device: DeviceLike | None = None) -> Tensor:
    """Zeros of another tensor's shape, dtype and device."""
    return zeros(like.shape, **_like(like, dtype, device))


def ones_like(like: Tensor, *, dtype: Any = None, device: DeviceLike | None = None) -> Tensor:
    """Ones of another tensor's shape, dtype and device."""
    return ones(like.shape, **_like(like, dtype, device))


def arange(
    start: float, end: float | None = None, step: float = 1, *, dtype: Any = None, device: DeviceLike | None = None
) -> Tensor:
    """Numbers from ``start`` (0 if only one is given) up to ``end``, without it.

    Raises:
        RuntimeError: if ``step`` is zero or leads away from ``end``.
    """
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"arange: upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}")
    if dtype is None:
        dtype = np.int64 if all(isinstance(part, int) for part in (start, end, step)) else default_dtype
    return tensor(np.arange(start, end, step).astype(dtype), device=device)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform random numbers from 0 (included) to 1 (not)."""
    made = empty(*size, dtype=dtype, device=device)
    return _finished(inplace.random_("rand", made, "uniform", generator, low=0.0, high=1.0), requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal random numbers of mean 0 and variance 1."""
    made = empty(*size, dtype=dtype, device=device)
    return _finished(inplace.random_("randn", made, "normal", generator, mean=0.0, std=1.0), requires_grad)


def randint(
    low: int,
    high: int | Any,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """Random integers from ``low`` (0 if only one bound is given) up to ``high``, without it.

    Raises:
        RuntimeError: if there are none.
    """
    if size is None:
        low, high, size = 0, low, high
    if high <= low:
        raise RuntimeError(f"randint: from must be less than to, but got {low} and {high}")
    made = empty(*size, dtype=dtype or np.int64, device=device)
    return inplace.random_("randint", made, "integers", generator, low=low, high=high)  # type: ignore[no-any-return]


def randperm(n: int, *, generator: Generator | None = None, device: DeviceLike | None = None) -> Tensor:
    """The integers below ``n`` in random order."""
    source = default_generator() if generator is None else generator
    key, counter = source.take(max(math.ceil(n), 1))
    bits = np.random.Philox(key=key, counter=counter)
    return tensor(np.random.Generator(bits).permutation(n).astype(np.int64), device=device or CPU)
