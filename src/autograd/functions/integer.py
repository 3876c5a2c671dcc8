"""What only integers and bools have: bitwise logic, shifts, divisors."""

from __future__ import annotations

from typing import Any

from ..ops import integer as ops
from ..out import into

__all__ = [
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "gcd",
    "lcm",
]


def bitwise_and(input: Any, other: Any, *, out: Any = None) -> Any:
    """The bits that both have; of bools, whether both are true."""
    return ops.bitwise_and(input, other) if out is None else into(out, ops.bitwise_and, input, other)


def bitwise_or(input: Any, other: Any, *, out: Any = None) -> Any:
    """The bits that one has; of bools, whether one is true."""
    return ops.bitwise_or(input, other) if out is None else into(out, ops.bitwise_or, input, other)


def bitwise_xor(input: Any, other: Any, *, out: Any = None) -> Any:
    """The bits that exactly one has; of bools, whether they differ."""
    return ops.bitwise_xor(input, other) if out is None else into(out, ops.bitwise_xor, input, other)


def bitwise_not(input: Any, *, out: Any = None) -> Any:
    """All bits turned over; of bools, the contrary."""
    return ops.bitwise_not(input) if out is None else into(out, ops.bitwise_not, input)


def bitwise_left_shift(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input << other``."""
    return ops.bitwise_left_shift(input, other) if out is None else into(out, ops.bitwise_left_shift, input, other)


def bitwise_right_shift(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input >> other``."""
    return ops.bitwise_right_shift(input, other) if out is None else into(out, ops.bitwise_right_shift, input, other)


def gcd(input: Any, other: Any, *, out: Any = None) -> Any:
    """The greatest common divisors."""
    return ops.gcd(input, other) if out is None else into(out, ops.gcd, input, other)


def lcm(input: Any, other: Any, *, out: Any = None) -> Any:
    """The least common multiples."""
    return ops.lcm(input, other) if out is None else into(out, ops.lcm, input, other)
