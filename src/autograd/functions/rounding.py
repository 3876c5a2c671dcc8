"""Rounding, and the division that leaves a remainder."""

from __future__ import annotations

from typing import Any

from ..ops import rounding as ops
from ..out import into

__all__ = [
    "ceil",
    "fix",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "nextafter",
    "remainder",
    "round",
    "trunc",
]


def floor(input: Any, *, out: Any = None) -> Any:
    """The largest whole numbers that are not larger."""
    return ops.floor(input) if out is None else into(out, ops.floor, input)


def ceil(input: Any, *, out: Any = None) -> Any:
    """The smallest whole numbers that are not smaller."""
    return ops.ceil(input) if out is None else into(out, ops.ceil, input)


def trunc(input: Any, *, out: Any = None) -> Any:
    """Without what comes after the point."""
    return ops.trunc(input) if out is None else into(out, ops.trunc, input)


def fix(input: Any, *, out: Any = None) -> Any:
    """`trunc`."""
    return ops.trunc(input) if out is None else into(out, ops.trunc, input)


def frac(input: Any, *, out: Any = None) -> Any:
    """What comes after the point, with its sign."""
    return ops.frac(input) if out is None else into(out, ops.frac, input)


def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input // other``: the quotients, rounded down."""
    return ops.floor_divide(input, other) if out is None else into(out, ops.floor_divide, input, other)


def remainder(input: Any, other: Any, *, out: Any = None) -> Any:
    """``input % other``: what `floor_divide` leaves, with the sign of ``other``."""
    return ops.remainder(input, other) if out is None else into(out, ops.remainder, input, other)


def fmod(input: Any, other: Any, *, out: Any = None) -> Any:
    """What the quotient rounded towards 0 leaves, with the sign of ``input``."""
    return ops.fmod(input, other) if out is None else into(out, ops.fmod, input, other)


def nextafter(input: Any, other: Any, *, out: Any = None) -> Any:
    """The numbers next to ``input`` in the direction of ``other``."""
    return ops.nextafter(input, other) if out is None else into(out, ops.nextafter, input, other)


def round(input: Any, *, decimals: int = 0, out: Any = None) -> Any:
    """The nearest whole numbers, the even ones of two; or so many decimals (to powers of ten if negative).

    >>> import stowgrad
    >>> stowgrad.round(stowgrad.tensor([0.5, 1.5, 2.55]), decimals=1).tolist()
    [0.5, 1.5, 2.5999999046325684]
    """
    return ops.round(input, decimals) if out is None else into(out, ops.round, input, decimals)
