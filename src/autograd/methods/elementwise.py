"""Arithmetic, and writing values, as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .. import inplace
from ..functions import elementwise as functions
from ..mapped import map_
from ..ops import elementwise as ops
from .comparison import ComparisonMethods
from .elementary import ElementaryMethods
from .special import SpecialMethods
from .writing import binary_, unary_


class ElementwiseMethods(ElementaryMethods, ComparisonMethods, SpecialMethods):
    """Functions of each element by itself, and their forms that write in place."""

    __slots__ = ()

    _array: Any

    add = functions.add
    sub = functions.sub
    mul = functions.mul
    div = functions.div
    pow = functions.pow
    true_divide = functions.true_divide
    multiply = functions.multiply
    divide = functions.divide
    subtract = functions.subtract
    float_power = functions.float_power
    neg = functions.neg
    negative = functions.negative
    positive = functions.positive
    abs = functions.abs
    absolute = functions.absolute
    exp = functions.exp
    log = functions.log
    sqrt = functions.sqrt
    rsqrt = functions.rsqrt
    square = functions.square
    reciprocal = functions.reciprocal
    sin = functions.sin
    cos = functions.cos
    sign = functions.sign
    sgn = functions.sgn
    masked_fill = functions.masked_fill

    mul_ = binary_(ops.mul)
    multiply_ = mul_
    true_divide_ = binary_(ops.div)
    pow_ = binary_(ops.pow, "exponent")
    neg_ = unary_(ops.neg)
    negative_ = neg_
    abs_ = unary_(ops.abs)
    absolute_ = abs_
    sign_ = unary_(ops.sign)
    square_ = unary_(ops.square)
    sqrt_ = unary_(ops.sqrt)
    rsqrt_ = unary_(ops.rsqrt)
    reciprocal_ = unary_(ops.reciprocal)
    exp_ = unary_(ops.exp)
    log_ = unary_(ops.log)
    sin_ = unary_(ops.sin)
    cos_ = unary_(ops.cos)

    def add_(self, other: Any, *, alpha: float = 1) -> Self:
        """Add ``alpha * other``."""
        return inplace.binary_(ops.add, self, other if alpha == 1 else functions.scaled(other, alpha))  # type: ignore[no-any-return]

    def sub_(self, other: Any, *, alpha: float = 1) -> Self:
        """Subtract ``alpha * other``."""
        return inplace.binary_(ops.sub, self, other if alpha == 1 else functions.scaled(other, alpha))  # type: ignore[no-any-return]

    subtract_ = sub_

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """Divide by ``other``, rounded down or towards 0 in a ``rounding_mode``."""
        return inplace.binary_(functions.division(rounding_mode), self, other)  # type: ignore[no-any-return]

    divide_ = div_

    def float_power_(self, exponent: Any) -> Self:
        """Raise to a power in float64, which the tensor must be of."""
        dtype = np.dtype(np.complex128 if self._array.dtype.kind == "c" else np.float64)
        if self._array.dtype != dtype:
            raise RuntimeError(
                f"float_power_: the base given to float_power_ has dtype {self._array.dtype} but the operation's"
                f" result requires dtype {dtype}"
            )
        return inplace.binary_(ops.pow, self, exponent)  # type: ignore[no-any-return]

    def sgn_(self) -> Self:
        """Take the signs, of complex numbers ``self / abs(self)``."""
        return inplace.unary_(ops.sgn if self._array.dtype.kind == "c" else ops.sign, self)  # type: ignore[no-any-return]

    def where(self, condition: Any, other: Any) -> Any:
        """The elements where ``condition`` is true, those of ``other`` elsewhere."""
        return functions.where(condition, self, other)

    def copy_(self, source: Any) -> Self:
        """Take the values of ``source``, which are broadcast and cast."""
        return inplace.copy_(self, source)  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Self:
        """Set all elements to a number, or to a tensor of no dimension."""
        return inplace.fill_(self, value)  # type: ignore[no-any-return]

    def zero_(self) -> Self:
        """Set all elements to 0."""
        return inplace.fill_(self, 0, "zero")  # type: ignore[no-any-return]

    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Replace each element by what a function of Python numbers makes of it: slow, and without a gradient.

        Raises:
            RuntimeError: for a tensor that requires grad.
            TypeError: for one that is not on the CPU.
        """
        return map_("apply_", self, callable)  # type: ignore[no-any-return]

    def map_(self, tensor: Any, callable: Callable[[Any, Any], Any]) -> Self:
        """Replace each element by ``callable(element, element of the other tensor)``: see `apply_`."""
        return map_("map_", self, callable, tensor)  # type: ignore[no-any-return]

    def map2_(self, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Self:
        """Replace each element by ``callable(element, element of x, element of y)``: see `apply_`."""
        return map_("map2_", self, callable, x, y)  # type: ignore[no-any-return]

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Set the elements where ``mask`` is true to a number or a tensor of no dimension."""
        return inplace.masked_fill_(self, mask, value)  # type: ignore[no-any-return]
