"""Tensors of one number, or of whatever was in memory."""

from __future__ import annotations

from typing import Any

from ...kernels import backend
from ...memory import META
from ..ops.promotion import number_dtype
from ..ops.view import strided
from ..variable import Variable
from .options import Options, delivered, finished, fitting, leased, like_out, planned, python_number, sizes


def empty(*size: Any, out: Any = None, **options: Any) -> Any:
    """An uninitialised tensor."""
    plan = planned("empty", options if out is None else like_out(out, options))
    made = leased(sizes("empty", size, options), plan)
    return finished(made, plan.requires_grad) if out is None else delivered("empty", out, made)


def empty_strided(size: Any, stride: Any, **options: Any) -> Any:
    """An uninitialised tensor of given strides, in elements.

    Raises:
        RuntimeError: for another number of strides than of sizes, and for negative ones.
    """
    plan = planned("empty_strided", options)
    shape, steps = sizes("empty_strided", (size,)), tuple(stride)
    if len(shape) != len(steps) or any(step < 0 for step in steps):
        raise RuntimeError(f"empty_strided: expected a stride, 0 or more, for each of {list(shape)}, got {list(steps)}")
    span = sum((part - 1) * step for part, step in zip(shape, steps, strict=True)) + 1 if all(shape) else 0
    whole = leased((span,), plan)
    itemsize = plan.dtype.itemsize
    array = (
        strided(whole._array, shape, tuple(step * itemsize for step in steps)) if span else whole._array.reshape(shape)
    )
    return finished(Variable._tensor_class._wrap(array, whole._storage), plan.requires_grad)


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Any:
    """An uninitialised tensor whose dimensions lie in memory in a given order, the outermost first.

    Raises:
        RuntimeError: if that is no order of the dimensions.
    """
    shape, order = sizes("empty_permuted", (size,)), [int(dim) for dim in physical_layout]
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(f"empty_permuted: expected an order of {len(shape)} dimensions, got {order}")
    steps, step = [0] * len(shape), 1
    for dim in reversed(order):
        steps[dim] = step
        step *= max(shape[dim], 1)
    return empty_strided(shape, steps, **options)


def filled(name: str, shape: tuple[int, ...], value: Any, out: Any, options: Options, dtype: Any = None) -> Any:
    """A tensor of one number."""
    plan = planned(name, options if out is None else like_out(out, options), dtype)
    value = fitting(name, value, plan.dtype)
    made = leased(shape, plan)
    if plan.device is not META:
        backend(plan.device.type).fill(made._array, value)
    return finished(made, plan.requires_grad) if out is None else delivered(name, out, made)


def full(size: Any, fill_value: Any, *, out: Any = None, **options: Any) -> Any:
    """A tensor filled with a number, whose kind gives the dtype unless one is named.

    Raises:
        TypeError: if ``fill_value`` is no number.
        RuntimeError: if the dtype has no such number.
    """
    shape = sizes("full", (size,))
    given = fill_value._array.dtype if isinstance(fill_value, Variable) else None
    value = python_number("full", fill_value)
    return filled("full", shape, value, out, options, given or number_dtype(value))


def zeros(*size: Any, out: Any = None, **options: Any) -> Any:
    """A tensor of zeros."""
    return filled("zeros", sizes("zeros", size, options), 0, out, options)


def ones(*size: Any, out: Any = None, **options: Any) -> Any:
    """A tensor of ones."""
    return filled("ones", sizes("ones", size, options), 1, out, options)


def like(name: str, other: Any, options: Options) -> tuple[tuple[int, ...], Options]:
    """The shape of a tensor, and options with its dtype and device where they name none.

    Raises:
        TypeError: if it is no tensor.
    """
    if not isinstance(other, Variable):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(other).__name__}")
    merged = {"dtype": other._array.dtype, "device": other._storage.device}
    return other._array.shape, merged | {key: value for key, value in options.items() if value is not None}


def empty_like(input: Any, **options: Any) -> Any:
    """An uninitialised tensor of another's shape, dtype and device."""
    shape, merged = like("empty_like", input, options)
    return empty(shape, **merged)


def zeros_like(input: Any, **options: Any) -> Any:
    """Zeros of another tensor's shape, dtype and device."""
    shape, merged = like("zeros_like", input, options)
    return filled("zeros_like", shape, 0, None, merged)


def ones_like(input: Any, **options: Any) -> Any:
    """Ones of another tensor's shape, dtype and device."""
    shape, merged = like("ones_like", input, options)
    return filled("ones_like", shape, 1, None, merged)


def full_like(input: Any, fill_value: Any, **options: Any) -> Any:
    """One number in another tensor's shape, dtype and device."""
    shape, merged = like("full_like", input, options)
    return filled("full_like", shape, python_number("full_like", fill_value), None, merged)


def eye(n: Any, m: Any = None, *, out: Any = None, **options: Any) -> Any:
    """A matrix with ones on its diagonal and zeros elsewhere.

    Raises:
        TypeError: for a size that is no integer.
        RuntimeError: for a negative one.
    """
    plan = planned("eye", options if out is None else like_out(out, options))
    for what, size in (("n", n), ("m", m)):
        if size is not None and not isinstance(size, bool) and isinstance(size, int) and size < 0:
            raise RuntimeError(f"eye: {what} must be greater or equal to 0, got {size}")
    rows, columns = sizes("eye", (n, n if m is None else m))
    made = filled("eye", (rows, columns), 0, None, plan.options())
    if plan.device is not META:
        diagonal = made._array.reshape(-1)[: min(rows, columns) * columns : columns + 1]
        backend(plan.device.type).fill(diagonal, 1)
    return finished(made, plan.requires_grad) if out is None else delivered("eye", out, made)
