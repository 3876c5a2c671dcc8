"""Exponentials and logarithms."""

from __future__ import annotations

from typing import Any

from ..ops import elementwise
from ..ops import exponential as ops
from ..out import into
from .complex import real

__all__ = [
    "exp2",
    "expm1",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "xlogy",
]


def exp2(input: Any, *, out: Any = None) -> Any:
    """``2 ** input``."""
    return ops.exp2(input) if out is None else into(out, ops.exp2, input)


def expm1(input: Any, *, out: Any = None) -> Any:
    """``exp(input) - 1``, exact near 0."""
    return ops.expm1(input) if out is None else into(out, ops.expm1, input)


def log2(input: Any, *, out: Any = None) -> Any:
    """The logarithm to base 2."""
    return ops.log2(input) if out is None else into(out, ops.log2, input)


def log10(input: Any, *, out: Any = None) -> Any:
    """The logarithm to base 10."""
    return ops.log10(input) if out is None else into(out, ops.log10, input)


def log1p(input: Any, *, out: Any = None) -> Any:
    """``log(1 + input)``, exact near 0."""
    return ops.log1p(input) if out is None else into(out, ops.log1p, input)


def logaddexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """``log(exp(input) + exp(other))``, without overflow in between."""
    is_complex = any(value._array.dtype.kind == "c" for value in (input, other) if hasattr(value, "_array"))
    op = _complex_logaddexp if is_complex else ops.logaddexp
    return op(input, other) if out is None else into(out, op, input, other)


def _complex_logaddexp(x: Any, y: Any) -> Any:
    """The larger one, by its real part, and the logarithm of what the other one adds to it."""
    swapped = elementwise.lt(real(x), real(y))
    larger, smaller = elementwise.where(swapped, y, x), elementwise.where(swapped, x, y)
    return elementwise.add(larger, ops.log1p(elementwise.exp(elementwise.sub(smaller, larger))))


def logaddexp2(input: Any, other: Any, *, out: Any = None) -> Any:
    """``log2(2 ** input + 2 ** other)``, without overflow in between."""
    return ops.logaddexp2(input, other) if out is None else into(out, ops.logaddexp2, input, other)


def xlogy(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input * log(other)``, which is 0 where ``input`` is, unless ``other`` is NaN; either may be a number."""
    return ops.xlogy(input, other) if out is None else into(out, ops.xlogy, input, other)
