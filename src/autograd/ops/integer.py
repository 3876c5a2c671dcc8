"""What only integers and bools have: bitwise logic, shifts, divisors. None of it has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from .pointwise import Binary, Unary
from .promotion import category


def _check_whole(name: str, dtype: np.dtype[Any]) -> None:
    if category(dtype) > 1:
        raise NotImplementedError(f"{name}: only implemented for integers and bool, got {dtype}; convert it first")


class _Whole(Binary):
    """An op on two operands of integers, or bools if it takes them."""

    differentiable = False

    def __init__(self) -> None:
        super().__init__()
        self.small, self.plain = None, False  # those ways are for floats

    def _dtype(self, x: Any, y: Any) -> np.dtype[Any]:
        dtype = super()._dtype(x, y)
        _check_whole(self.name, dtype)
        return dtype


class BitwiseAnd(_Whole):
    """The bits that both have."""

    name = "bitwise_and"
    ufunc = np.bitwise_and


class BitwiseOr(_Whole):
    """The bits that one has."""

    name = "bitwise_or"
    ufunc = np.bitwise_or


class BitwiseXor(_Whole):
    """The bits that exactly one has."""

    name = "bitwise_xor"
    ufunc = np.bitwise_xor


class BitwiseLeftShift(_Whole):
    """``x * 2 ** y``, without the bits that leave on the left."""

    name = "bitwise_left_shift"
    ufunc = np.left_shift
    lowest = 1


class BitwiseRightShift(_Whole):
    """``x // 2 ** y``."""

    name = "bitwise_right_shift"
    ufunc = np.right_shift
    lowest = 1


class Gcd(_Whole):
    """The greatest common divisor."""

    name = "gcd"
    ufunc = np.gcd
    lowest = 1


class Lcm(_Whole):
    """The least common multiple."""

    name = "lcm"
    ufunc = np.lcm
    lowest = 1


class BitwiseNot(Unary):
    """All bits turned over; of bools, the contrary."""

    name = "bitwise_not"
    differentiable = False
    to_float = False

    def __init__(self) -> None:
        super().__init__()
        self.plain = False  # that way is for floats

    def check(self, dtype: np.dtype[Any]) -> None:
        _check_whole(self.name, dtype)


bitwise_and = BitwiseAnd()
bitwise_or = BitwiseOr()
bitwise_xor = BitwiseXor()
bitwise_left_shift = BitwiseLeftShift()
bitwise_right_shift = BitwiseRightShift()
gcd = Gcd()
lcm = Lcm()
bitwise_not = BitwiseNot()
