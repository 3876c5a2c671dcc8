"""Special functions under the names of ``torch.special``.

Those of the gamma, error and Bessel families are computed by SciPy: ``pip install "stowgrad[scipy]"``.
"""

from __future__ import annotations

from .autograd.functions.activation import erf, sigmoid
from .autograd.functions.exponential import exp2, expm1, log1p, xlogy
from .autograd.functions.reduce import logsumexp
from .autograd.functions.rounding import round
from .autograd.functions.soft import log_softmax, softmax
from .autograd.functions.special import digamma, erfc, erfinv, i0, igamma, igammac, lgamma, logit, mvlgamma, polygamma
from .autograd.functions.special_only import (
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    betaln,
    cbrt,
    entr,
    erfcx,
    i0e,
    i1,
    i1e,
    log_ndtr,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    ndtr,
    ndtri,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
    xlog1py,
    zeta,
)
from .autograd.functions.trigonometric import sinc

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "betaln",
    "cbrt",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

expit = sigmoid
gammaln = lgamma
psi = digamma
multigammaln = mvlgamma
gammainc = igamma
gammaincc = igammac
