"""Element by element, as functions: ``stowgrad.exp(x)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import inplace
from ..inplace import checked_fill_value
from ..ops import elementwise as ops
from ..ops import rounding
from ..ops.cast import clone, to_dtype
from ..ops.promotion import is_floating
from ..out import into
from .index import nonzero

__all__ = [
    "abs",
    "absolute",
    "add",
    "cos",
    "div",
    "divide",
    "exp",
    "fill",
    "float_power",
    "log",
    "masked_fill",
    "mul",
    "multiply",
    "neg",
    "negative",
    "positive",
    "pow",
    "reciprocal",
    "rsqrt",
    "rsub",
    "sgn",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "true_divide",
    "where",
]

DOUBLE = np.dtype(np.float64)


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


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """``input / other``, rounded down (``rounding_mode="floor"``), towards 0 (``"trunc"``) or not at all (None).

    >>> import stowgrad
    >>> stowgrad.div(stowgrad.tensor([-7, 7]), 2, rounding_mode="trunc").tolist()
    [-3, 3]
    """
    op = division(rounding_mode)
    return op(input, other) if out is None else into(out, op, input, other)


def division(rounding_mode: str | None) -> Any:
    """The op that divides and rounds in a mode."""
    modes = {None: ops.div, "floor": rounding.floor_divide, "trunc": rounding.trunc_divide}
    if rounding_mode not in modes:
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
        )
    return modes[rounding_mode]


def true_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input / other``."""
    return div(input, other, out=out)


def rsub(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """``other - alpha * input``."""
    return ops.sub(other, input if alpha == 1 else scaled(input, alpha))


def multiply(input: Any, other: Any, *, out: Any = None) -> Any:
    """`mul`."""
    return mul(input, other, out=out)


def divide(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """`div`."""
    return div(input, other, rounding_mode=rounding_mode, out=out)


def subtract(input: Any, other: Any, *, alpha: float = 1, out: Any = None) -> Any:
    """`sub`."""
    return sub(input, other, alpha=alpha, out=out)


def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """``input ** exponent``."""
    return ops.pow(input, exponent) if out is None else into(out, ops.pow, input, exponent)


def float_power(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """``input ** exponent`` computed in float64, or complex128."""
    return _float_power(input, exponent) if out is None else into(out, _float_power, input, exponent)


def _float_power(input: Any, exponent: Any) -> Any:
    given = [getattr(value, "_array", value) for value in (input, exponent)]
    is_complex = any(isinstance(value, complex) or getattr(value, "dtype", DOUBLE).kind == "c" for value in given)
    dtype = np.dtype(np.complex128) if is_complex else DOUBLE
    operands = [
        to_dtype(v, dtype) if hasattr(v, "_array") and v._array.dtype != dtype else v for v in (input, exponent)
    ]
    return ops.pow(*operands)


def neg(input: Any, *, out: Any = None) -> Any:
    """``-input``."""
    return ops.neg(input) if out is None else into(out, ops.neg, input)


def abs(input: Any, *, out: Any = None) -> Any:
    """The absolute value."""
    return ops.abs(input) if out is None else into(out, ops.abs, input)


def negative(input: Any, *, out: Any = None) -> Any:
    """`neg`."""
    return neg(input, out=out)


def positive(input: Any) -> Any:
    """The tensor itself.

    Raises:
        RuntimeError: for bools.
    """
    if input._array.dtype == bool:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def absolute(input: Any, *, out: Any = None) -> Any:
    """`abs`."""
    return abs(input, out=out)


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


def sgn(input: Any, *, out: Any = None) -> Any:
    """`sign`; of complex numbers, ``input / abs(input)`` or 0."""
    return ops.sgn(input) if out is None else into(out, ops.sgn, input)


def fill(input: Any, value: Any) -> Any:
    """A tensor of the shape and dtype of ``input`` filled with a number or a tensor of no dimension."""
    return inplace.fill_(clone(input), value)


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Elements of ``input`` where ``condition`` (of bools) is true, of ``other`` elsewhere.

    With a condition alone: where it is not 0, as ``nonzero(condition, as_tuple=True)``.
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): expected a condition alone, or with two Tensors or numbers")
    return ops.where(condition, input, other) if out is None else into(out, ops.where, condition, input, other)


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """A copy with the elements where ``mask`` is true set to a number or a tensor of no dimension."""
    return ops.where(mask, checked_fill_value("masked_fill", input, mask, value), input)
