"""The operators: ``x + y``, ``x @ y``, ``x < y``, ``x += y``."""

from __future__ import annotations

from typing import Any, Self

from .. import inplace
from ..dispatch import SCALARS
from ..ops import elementwise, linalg


def _is_comparable(other: object) -> bool:
    """Whether a comparison is about elements; with None and the like Python compares identities."""
    return isinstance(other, SCALARS) or hasattr(other, "dtype")


class Operators:
    """What Python's operators do with tensors."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return elementwise.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return elementwise.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return elementwise.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return elementwise.mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return elementwise.div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return elementwise.div(other, self)

    def __pow__(self, other: Any) -> Any:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return linalg.matmul(self, other)

    def __neg__(self) -> Any:
        return elementwise.neg(self)

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
