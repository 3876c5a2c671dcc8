"""Arithmetic on three operands in one pass, and numbers taken apart."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..ops import fused as ops
from ..ops.elementwise import mul, pow
from ..out import into

__all__ = [
    "addcdiv",
    "addcmul",
    "frexp",
    "ldexp",
    "lerp",
]


class Frexp(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any


def lerp(input: Any, end: Any, weight: Any, *, out: Any = None) -> Any:
    """``input + weight * (end - input)``; the weight is a number or a tensor."""
    return ops.lerp(input, end, weight) if out is None else into(out, ops.lerp, input, end, weight)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1, out: Any = None) -> Any:
    """``input + value * tensor1 * tensor2``."""
    given = (input, tensor1, tensor2, value)
    return ops.addcmul(*given) if out is None else into(out, ops.addcmul, *given)


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1, out: Any = None) -> Any:
    """``input + value * tensor1 / tensor2``; not for integers alone."""
    given = (input, tensor1, tensor2, value)
    return ops.addcdiv(*given) if out is None else into(out, ops.addcdiv, *given)


def ldexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input * 2 ** other``."""
    return scaled_by_power(input, other) if out is None else into(out, scaled_by_power, input, other)


def scaled_by_power(input: Any, other: Any) -> Any:
    """`ldexp`, as a new tensor."""
    return mul(input, pow(2.0, other))


def frexp(input: Any, *, out: Any = None) -> Any:
    """Mantissas, of sizes from 0.5 to 1, and exponents (int32): ``input == mantissa * 2 ** exponent``.

    >>> import stowgrad
    >>> [part.tolist() for part in stowgrad.frexp(stowgrad.tensor([6.0, -0.25]))]
    [[0.75, -0.5], [3, -1]]
    """
    return Frexp(*ops.frexp(input)) if out is None else Frexp(*into(out, ops.frexp, input))
