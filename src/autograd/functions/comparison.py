"""Comparisons, questions about elements, and logic: results are bools."""

from __future__ import annotations

from typing import Any

from ..grad_mode import no_grad
from ..ops import comparison as ops
from ..ops import elementwise
from ..ops.cast import to_dtype
from ..ops.elementwise import abs, add, mul, sub
from ..ops.promotion import category, get_default_dtype
from ..out import into
from ..queries import check_tensors as _check_tensors
from ..variable import Variable

__all__ = [
    "allclose",
    "eq",
    "equal",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "le",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
    "not_equal",
    "signbit",
]


def eq(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether elements are equal."""
    return elementwise.eq(input, other) if out is None else into(out, elementwise.eq, input, other)


def ne(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether elements are different."""
    return elementwise.ne(input, other) if out is None else into(out, elementwise.ne, input, other)


def lt(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input < other``."""
    return elementwise.lt(input, other) if out is None else into(out, elementwise.lt, input, other)


def le(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input <= other``."""
    return elementwise.le(input, other) if out is None else into(out, elementwise.le, input, other)


def gt(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input > other``."""
    return elementwise.gt(input, other) if out is None else into(out, elementwise.gt, input, other)


def ge(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input >= other``."""
    return elementwise.ge(input, other) if out is None else into(out, elementwise.ge, input, other)


def not_equal(input: Any, other: Any, *, out: Any = None) -> Any:
    """`ne`."""
    return elementwise.ne(input, other) if out is None else into(out, elementwise.ne, input, other)


def less(input: Any, other: Any, *, out: Any = None) -> Any:
    """`lt`."""
    return elementwise.lt(input, other) if out is None else into(out, elementwise.lt, input, other)


def less_equal(input: Any, other: Any, *, out: Any = None) -> Any:
    """`le`."""
    return elementwise.le(input, other) if out is None else into(out, elementwise.le, input, other)


def greater(input: Any, other: Any, *, out: Any = None) -> Any:
    """`gt`."""
    return elementwise.gt(input, other) if out is None else into(out, elementwise.gt, input, other)


def greater_equal(input: Any, other: Any, *, out: Any = None) -> Any:
    """`ge`."""
    return elementwise.ge(input, other) if out is None else into(out, elementwise.ge, input, other)


def logical_and(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether both elements are not 0."""
    return ops.logical_and(input, other) if out is None else into(out, ops.logical_and, input, other)


def logical_or(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether one of the elements is not 0."""
    return ops.logical_or(input, other) if out is None else into(out, ops.logical_or, input, other)


def logical_xor(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether exactly one of the elements is not 0."""
    return ops.logical_xor(input, other) if out is None else into(out, ops.logical_xor, input, other)


def logical_not(input: Any, *, out: Any = None) -> Any:
    """Whether elements are 0."""
    return ops.logical_not(input) if out is None else into(out, ops.logical_not, input)


def isposinf(input: Any, *, out: Any = None) -> Any:
    """Which elements are infinity."""
    return ops.isposinf(input) if out is None else into(out, ops.isposinf, input)


def isneginf(input: Any, *, out: Any = None) -> Any:
    """Which elements are minus infinity."""
    return ops.isneginf(input) if out is None else into(out, ops.isneginf, input)


def signbit(input: Any, *, out: Any = None) -> Any:
    """Which elements have a minus sign, as -0.0 has."""
    return ops.signbit(input) if out is None else into(out, ops.signbit, input)


def heaviside(input: Any, values: Any, *, out: Any = None) -> Any:
    """0 for negative elements, 1 for positive ones, ``values`` at 0. It has no derivative.

    Raises:
        TypeError: if one of the two is no tensor.
    """
    _check_tensors("heaviside", input=input, values=values)
    return ops.heaviside(input, values) if out is None else into(out, ops.heaviside, input, values)


def isnan(input: Any) -> Any:
    """Which elements are NaN."""
    return ops.isnan(input)


def isinf(input: Any) -> Any:
    """Which elements are infinite."""
    return ops.isinf(input)


def isfinite(input: Any) -> Any:
    """Which elements are neither NaN nor infinite."""
    return ops.isfinite(input)


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Where ``abs(input - other) <= atol + rtol * abs(other)``, or both are equal (NaN too, if ``equal_nan``).

    Raises:
        RuntimeError: for different dtypes, and for negative tolerances.
    """
    _check_tensors("isclose", input=input, other=other)
    if input._array.dtype != other._array.dtype:
        raise RuntimeError(
            f"isclose: {input._array.dtype} did not match {other._array.dtype}; convert one of them first"
        )
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"isclose: {name} must be greater than or equal to zero, but got {value}")
    with no_grad():
        close = elementwise.eq(input, other)
        if equal_nan and category(input._array.dtype) > 1:
            close = ops.logical_or(close, ops.logical_and(ops.isnan(input), ops.isnan(other)))
        if rtol == 0 and atol == 0:
            return close
        if category(input._array.dtype) < 2:
            input, other = (to_dtype(value, get_default_dtype()) for value in (input, other))
        allowed = add(abs(mul(other, rtol)), atol)
        distance = abs(sub(input, other))
        near = ops.logical_and(ops.isfinite(distance), elementwise.le(distance, allowed))
        return ops.logical_or(close, near)


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether `isclose` holds for all elements."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and elements.

    >>> import stowgrad
    >>> stowgrad.equal(stowgrad.ones(2), stowgrad.ones(3))
    False
    """
    for value in (input, other):
        if not isinstance(value, Variable):
            raise TypeError(f"equal: expected Tensors, got {type(value).__name__}")
    if input._array.shape != other._array.shape:
        return False
    with no_grad():
        return bool(elementwise.eq(input, other).all())
