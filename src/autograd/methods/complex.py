"""Parts of complex numbers, as methods and attributes."""

from __future__ import annotations

from typing import Any, Self

from .. import inplace
from ..functions.complex import angle, conj, conj_physical, imag, is_complex, isreal, real, resolve_conj, resolve_neg
from ..ops.complex import conj as conj_op


class ComplexMethods:
    """Conjugation and parts."""

    __slots__ = ()

    angle = angle
    conj = conj
    conj_physical = conj_physical
    is_complex = is_complex
    isreal = isreal
    real = property(real, doc="The real part: a view; a real tensor itself.")
    imag = property(imag, doc="The imaginary part: a view.")
    resolve_conj = resolve_conj
    resolve_neg = resolve_neg

    _array: Any

    def conj_physical_(self) -> Self:
        """Take the complex conjugate in place; a real tensor stays as it is."""
        if self._array.dtype.kind == "c":
            inplace.unary_(conj_op, self)
        return self
