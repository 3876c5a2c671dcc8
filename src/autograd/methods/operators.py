"""The operators: ``x + y``, ``x @ y``, ``x < y``, ``x += y``."""

from __future__ import annotations

from typing import Any, Self

from .. import inplace
from ..dispatch import SCALARS
from ..functions.elementwise import positive
from ..ops import elementwise, integer, linalg, rounding
from ..ops.cast import to_dtype
from ..ops.promotion import category, promote
from ..protocols import constant
from ..variable import Variable

# Bound once: calling the op itself looks its `__call__` up each time.
_add, _sub, _mul, _div = (op.__call__ for op in (elementwise.add, elementwise.sub, elementwise.mul, elementwise.div))


def _is_comparable(other: object) -> bool:
    """Whether a comparison is about elements; with None and the like Python compares identities."""
    return isinstance(other, SCALARS) or hasattr(other, "dtype")


def _met(x: Any, y: Any) -> tuple[Any, Any]:
    """The operands of ``@``: an array becomes a tensor, and then both get the dtype in which they meet."""
    if isinstance(x, Variable) and isinstance(y, Variable):
        return x, y
    x, y = constant(x), constant(y)
    dtype = promote(x._array.dtype, y._array.dtype) if isinstance(x, Variable) and isinstance(y, Variable) else None
    x, y = (v if dtype is None or v._array.dtype == dtype else to_dtype(v, dtype) for v in (x, y))
    return x, y


class Operators:
    """What Python's operators do with tensors."""

    __slots__ = ()

    _array: Any

    def __add__(self, other: Any) -> Any:
        return _add(self, other)

    def __radd__(self, other: Any) -> Any:
        return _add(other, self)

    def __sub__(self, other: Any) -> Any:
        return _sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return _mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return _div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _div(other, self)

    __rdiv__ = __rtruediv__

    def __floordiv__(self, other: Any) -> Any:
        return rounding.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return rounding.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return rounding.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return rounding.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return linalg.matmul(*_met(self, other))

    def __rmatmul__(self, other: Any) -> Any:
        return linalg.matmul(*_met(other, self))

    def __neg__(self) -> Any:
        return elementwise.neg(self)

    def __pos__(self) -> Any:
        return positive(self)

    def __invert__(self) -> Any:
        if category(self._array.dtype) > 1:
            raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
        return integer.bitwise_not(self)

    def __and__(self, other: Any) -> Any:
        return integer.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return integer.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return integer.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return integer.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return integer.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return integer.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return integer.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return integer.bitwise_left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return integer.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return integer.bitwise_right_shift(other, self)

    def __abs__(self) -> Any:
        return elementwise.abs(self)

    def __eq__(self, other: object) -> Any:
        return elementwise.eq(self, other) if _is_comparable(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return elementwise.ne(self, other) if _is_comparable(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return elementwise.lt(self, other)

    def __le__(self, other: Any) -> Any:
        return elementwise.le(self, other)

    def __gt__(self, other: Any) -> Any:
        return elementwise.gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return elementwise.ge(self, other)

    def __hash__(self) -> int:
        return id(self)

    def __iadd__(self, other: Any) -> Self:
        return inplace.binary_(elementwise.add, self, other)  # type: ignore[no-any-return]

    def __isub__(self, other: Any) -> Self:
        return inplace.binary_(elementwise.sub, self, other)  # type: ignore[no-any-return]

    def __imul__(self, other: Any) -> Self:
        return inplace.binary_(elementwise.mul, self, other)  # type: ignore[no-any-return]

    def __itruediv__(self, other: Any) -> Self:
        return inplace.binary_(elementwise.div, self, other)  # type: ignore[no-any-return]

    def __ipow__(self, other: Any) -> Self:
        return inplace.binary_(elementwise.pow, self, other)  # type: ignore[no-any-return]

    def __ifloordiv__(self, other: Any) -> Self:
        return inplace.binary_(rounding.floor_divide, self, other)  # type: ignore[no-any-return]

    def __imod__(self, other: Any) -> Self:
        return inplace.binary_(rounding.remainder, self, other)  # type: ignore[no-any-return]

    def __iand__(self, other: Any) -> Self:
        return inplace.binary_(integer.bitwise_and, self, other)  # type: ignore[no-any-return]

    def __ior__(self, other: Any) -> Self:
        return inplace.binary_(integer.bitwise_or, self, other)  # type: ignore[no-any-return]

    def __ixor__(self, other: Any) -> Self:
        return inplace.binary_(integer.bitwise_xor, self, other)  # type: ignore[no-any-return]

    def __ilshift__(self, other: Any) -> Self:
        return inplace.binary_(integer.bitwise_left_shift, self, other)  # type: ignore[no-any-return]

    def __irshift__(self, other: Any) -> Self:
        return inplace.binary_(integer.bitwise_right_shift, self, other)  # type: ignore[no-any-return]
