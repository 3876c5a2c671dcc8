"""Parts of complex numbers, as methods and attributes."""

from __future__ import annotations

from ..functions import complex as functions


class ComplexMethods:
    """Conjugation and parts."""

    __slots__ = ()

    conj = functions.conj
    real = property(functions.real, doc="The real part: a view; a real tensor itself.")
    imag = property(functions.imag, doc="The imaginary part: a view.")
