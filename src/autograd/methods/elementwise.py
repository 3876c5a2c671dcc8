"""Arithmetic and elementary functions, as methods."""

from __future__ import annotations

from typing import Any, Self

from .. import inplace
from ..functions import elementwise as functions
from ..ops import elementwise as ops
from .writing import binary_, unary_


class ElementwiseMethods:
    """Functions of each element by itself, and their forms that write in place."""

    __slots__ = ()

    add = functions.add
    sub = functions.sub
    mul = functions.mul
    div = functions.div
    pow = functions.pow
    maximum = functions.maximum
    minimum = functions.minimum
    eq = functions.eq
    neg = functions.neg
    abs = functions.abs
    exp = functions.exp
    log = functions.log
    sqrt = functions.sqrt
    rsqrt = functions.rsqrt
    square = functions.square
    reciprocal = functions.reciprocal
    sin = functions.sin
    cos = functions.cos
    sign = functions.sign
    masked_fill = functions.masked_fill

    mul_ = binary_(ops.mul)
    div_ = binary_(ops.div)
    pow_ = binary_(ops.pow, "exponent")
    neg_ = unary_(ops.neg)
    abs_ = unary_(ops.abs)
    square_ = unary_(ops.square)
    sqrt_ = unary_(ops.sqrt)
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

    def copy_(self, source: Any) -> Self:
        """Take the values of ``source``, which are broadcast and cast."""
        return inplace.copy_(self, source)  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Self:
        """Set all elements to a number, or to a tensor of no dimension."""
        return inplace.fill_(self, value)  # type: ignore[no-any-return]

    def zero_(self) -> Self:
        """Set all elements to 0."""
        return inplace.fill_(self, 0, "zero")  # type: ignore[no-any-return]

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Set the elements where ``mask`` is true to a number or a tensor of no dimension."""
        return inplace.masked_fill_(self, mask, value)  # type: ignore[no-any-return]

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Self:
        """Fill with normal random numbers."""
        return inplace.random_("normal_", self, "normal", generator, mean=mean, std=std)  # type: ignore[no-any-return]

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Self:
        """Fill with random numbers from ``low`` (included) to ``high`` (not)."""
        return inplace.random_("uniform_", self, "uniform", generator, low=low, high=high)  # type: ignore[no-any-return]
