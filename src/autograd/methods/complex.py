"""Parts of complex numbers, as methods and attributes."""

from __future__ import annotations

from ..functions.complex import angle, conj, conj_physical, imag, is_complex, isreal, real, resolve_conj, resolve_neg


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
