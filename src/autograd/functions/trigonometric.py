"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

from typing import Any

from ..ops import trigonometric as ops
from ..out import into

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "copysign",
    "cosh",
    "deg2rad",
    "hypot",
    "rad2deg",
    "sinc",
    "sinh",
    "tan",
]


def tan(input: Any, *, out: Any = None) -> Any:
    """The tangent."""
    return ops.tan(input) if out is None else into(out, ops.tan, input)


def asin(input: Any, *, out: Any = None) -> Any:
    """The inverse of the sine."""
    return ops.asin(input) if out is None else into(out, ops.asin, input)


def acos(input: Any, *, out: Any = None) -> Any:
    """The inverse of the cosine."""
    return ops.acos(input) if out is None else into(out, ops.acos, input)


def atan(input: Any, *, out: Any = None) -> Any:
    """The inverse of the tangent."""
    return ops.atan(input) if out is None else into(out, ops.atan, input)


def sinh(input: Any, *, out: Any = None) -> Any:
    """The hyperbolic sine."""
    return ops.sinh(input) if out is None else into(out, ops.sinh, input)


def cosh(input: Any, *, out: Any = None) -> Any:
    """The hyperbolic cosine."""
    return ops.cosh(input) if out is None else into(out, ops.cosh, input)


def asinh(input: Any, *, out: Any = None) -> Any:
    """The inverse of the hyperbolic sine."""
    return ops.asinh(input) if out is None else into(out, ops.asinh, input)


def acosh(input: Any, *, out: Any = None) -> Any:
    """The inverse of the hyperbolic cosine."""
    return ops.acosh(input) if out is None else into(out, ops.acosh, input)


def atanh(input: Any, *, out: Any = None) -> Any:
    """The inverse of the hyperbolic tangent."""
    return ops.atanh(input) if out is None else into(out, ops.atanh, input)


def sinc(input: Any, *, out: Any = None) -> Any:
    """``sin(pi * input) / (pi * input)``, which is 1 at 0."""
    return ops.sinc(input) if out is None else into(out, ops.sinc, input)


def deg2rad(input: Any, *, out: Any = None) -> Any:
    """Degrees to radians."""
    return ops.deg2rad(input) if out is None else into(out, ops.deg2rad, input)


def rad2deg(input: Any, *, out: Any = None) -> Any:
    """Radians to degrees."""
    return ops.rad2deg(input) if out is None else into(out, ops.rad2deg, input)


def atan2(input: Any, other: Any, *, out: Any = None) -> Any:
    """The angle whose tangent is ``input / other``, in the quadrant of the point ``(other, input)``."""
    return ops.atan2(input, other) if out is None else into(out, ops.atan2, input, other)


def hypot(input: Any, other: Any, *, out: Any = None) -> Any:
    """``sqrt(input ** 2 + other ** 2)``, without overflow in between."""
    return ops.hypot(input, other) if out is None else into(out, ops.hypot, input, other)


def copysign(input: Any, other: Any, *, out: Any = None) -> Any:
    """The size of ``input`` with the sign of ``other``; that may be a number."""
    return ops.copysign(input, other) if out is None else into(out, ops.copysign, input, other)


def arcsin(input: Any, *, out: Any = None) -> Any:
    """`asin`."""
    return ops.asin(input) if out is None else into(out, ops.asin, input)


def arccos(input: Any, *, out: Any = None) -> Any:
    """`acos`."""
    return ops.acos(input) if out is None else into(out, ops.acos, input)


def arctan(input: Any, *, out: Any = None) -> Any:
    """`atan`."""
    return ops.atan(input) if out is None else into(out, ops.atan, input)


def arcsinh(input: Any, *, out: Any = None) -> Any:
    """`asinh`."""
    return ops.asinh(input) if out is None else into(out, ops.asinh, input)


def arccosh(input: Any, *, out: Any = None) -> Any:
    """`acosh`."""
    return ops.acosh(input) if out is None else into(out, ops.acosh, input)


def arctanh(input: Any, *, out: Any = None) -> Any:
    """`atanh`."""
    return ops.atanh(input) if out is None else into(out, ops.atanh, input)


def arctan2(input: Any, other: Any, *, out: Any = None) -> Any:
    """`atan2`."""
    return ops.atan2(input, other) if out is None else into(out, ops.atan2, input, other)
