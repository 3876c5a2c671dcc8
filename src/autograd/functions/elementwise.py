"""Element by element, as functions: ``stowgrad.exp(x)``."""

from __future__ import annotations

from typing import Any

from ..inplace import checked_fill_value
from ..ops import elementwise as ops
from ..ops.cast import to_dtype
from ..ops.promotion import is_floating
from ..out import into

__all__ = [
    "abs",
    "add",
    "cos",
    "div",
    "eq",
    "exp",
    "log",
    "masked_fill",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "pow",
    "reciprocal",
    "rsqrt",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "where",
]


def add(input: Any, other: Any, *, alpha: float = 1, out: Any = None) -> Any:
    """``input + alpha * other``."""
    other = other if alpha == 1 else scaled(other, alpha)
    return ops.add(input, other) if out is None else into(out, ops.add, input, other)


def sub(input: Any, other: Any, *, alpha: float = 1, out: Any = None) -> Any:
    """``input - alpha * other``."""
    other = other if alpha == 1 else scaled(other, alpha)
    return ops.sub(input, other) if out is None else into(out, ops.sub, input, other)


def scaled(value: Any, alpha: float) -> Any:
    """``alpha * value`` in the dtype of ``value``, which ``alpha`` must not leave.

    Raises:
        RuntimeError: for a float with a tensor of integers or bools.
    """
    if not hasattr(value, "_array"):
        return value * alpha
    dtype = value._array.dtype
    if isinstance(alpha, float) and not is_floating(dtype):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    product = ops.mul(value, alpha)
    return product if product._array.dtype == dtype else to_dtype(product, dtype)  # bool * 2 is no bool


def mul(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input * other``."""
    return ops.mul(input, other) if out is None else into(out, ops.mul, input, other)


def div(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input / other``."""
    return ops.div(input, other) if out is None else into(out, ops.div, input, other)


def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """``input ** exponent``."""
    return ops.pow(input, exponent) if out is None else into(out, ops.pow, input, exponent)


def maximum(input: Any, other: Any, *, out: Any = None) -> Any:
    """The larger of two."""
    return ops.maximum(input, other) if out is None else into(out, ops.maximum, input, other)


def minimum(input: Any, other: Any, *, out: Any = None) -> Any:
    """The smaller of two."""
    return ops.minimum(input, other) if out is None else into(out, ops.minimum, input, other)


def eq(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input == other``."""
    return ops.eq(input, other) if out is None else into(out, ops.eq, input, other)


def neg(input: Any, *, out: Any = None) -> Any:
    """``-input``."""
    return ops.neg(input) if out is None else into(out, ops.neg, input)


def abs(input: Any, *, out: Any = None) -> Any:
    """The absolute value."""
    return ops.abs(input) if out is None else into(out, ops.abs, input)


def exp(input: Any, *, out: Any = None) -> Any:
    """The exponential."""
    return ops.exp(input) if out is None else into(out, ops.exp, input)


def log(input: Any, *, out: Any = None) -> Any:
    """The natural logarithm."""
    return ops.log(input) if out is None else into(out, ops.log, input)


def sqrt(input: Any, *, out: Any = None) -> Any:
    """The square root."""
    return ops.sqrt(input) if out is None else into(out, ops.sqrt, input)


def rsqrt(input: Any, *, out: Any = None) -> Any:
    """One over the square root."""
    return ops.rsqrt(input) if out is None else into(out, ops.rsqrt, input)


def square(input: Any, *, out: Any = None) -> Any:
    """The square."""
    return ops.square(input) if out is None else into(out, ops.square, input)


def reciprocal(input: Any, *, out: Any = None) -> Any:
    """``1 / input``."""
    return ops.reciprocal(input) if out is None else into(out, ops.reciprocal, input)


def sin(input: Any, *, out: Any = None) -> Any:
    """The sine."""
    return ops.sin(input) if out is None else into(out, ops.sin, input)


def cos(input: Any, *, out: Any = None) -> Any:
    """The cosine."""
    return ops.cos(input) if out is None else into(out, ops.cos, input)


def sign(input: Any, *, out: Any = None) -> Any:
    """-1, 0 or 1."""
    return ops.sign(input) if out is None else into(out, ops.sign, input)


def where(condition: Any, input: Any, other: Any, *, out: Any = None) -> Any:
    """Elements of ``input`` where ``condition`` (of bools) is true, of ``other`` elsewhere."""
    return ops.where(condition, input, other) if out is None else into(out, ops.where, condition, input, other)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """A copy with the elements where ``mask`` is true set to a number or a tensor of no dimension."""
    return ops.where(mask, checked_fill_value("masked_fill", input, mask, value), input)
