"""Special functions, as methods."""

from __future__ import annotations

from typing import Any, Self

from .. import inplace
from ..functions import special as functions
from ..ops import activation, bessel, gamma
from ..ops import special as ops
from .writing import binary_, unary_


class SpecialMethods:
    """Special functions, and their forms that write in place."""

    __slots__ = ()

    erfc = functions.erfc
    erfinv = functions.erfinv
    lgamma = functions.lgamma
    digamma = functions.digamma
    mvlgamma = functions.mvlgamma
    i0 = functions.i0
    igamma = functions.igamma
    igammac = functions.igammac
    logit = functions.logit

    erf_ = unary_(activation.erf)
    erfc_ = unary_(ops.erfc)
    erfinv_ = unary_(ops.erfinv)
    lgamma_ = unary_(gamma.lgamma)
    digamma_ = unary_(gamma.digamma)
    i0_ = unary_(bessel.i0)
    igamma_ = binary_(gamma.igamma)
    igammac_ = binary_(gamma.igammac)

    def polygamma(self, n: int) -> Any:
        """The derivative of order ``n`` of `digamma`."""
        return gamma.polygamma(self, n)

    def polygamma_(self, n: int) -> Self:
        """Take the derivative of order ``n`` of `digamma`."""
        return inplace.op_(gamma.polygamma, 0, self, n)  # type: ignore[no-any-return]

    def mvlgamma_(self, p: int) -> Self:
        """Take the logarithm of the gamma function of dimension ``p``."""
        return inplace.op_(gamma.mvlgamma, 0, self, p)  # type: ignore[no-any-return]

    def logit_(self, eps: float | None = None) -> Self:
        """Take the logit, of elements held between ``eps`` and ``1 - eps`` if that is given."""
        return inplace.op_(ops.logit, 0, self, eps)  # type: ignore[no-any-return]
