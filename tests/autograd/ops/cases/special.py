"""Special functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import bessel, gamma
from stowgrad.autograd.ops import special as ops

from .case import Case, positive, rand, unary_cases


def _inside(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers of sizes below 0.8."""
    return rand(*sizes, low=-0.8, high=0.8)


def _probability(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers from 0.2 to 0.8."""
    return rand(*sizes, low=0.2, high=0.8)


UNARY = {
    "erfc": (ops.erfc, rand),
    "erfinv": (ops.erfinv, _inside),
    "erfcx": (ops.erfcx, rand),
    "ndtr": (ops.ndtr, rand),
    "ndtri": (ops.ndtri, _probability),
    "log_ndtr": (ops.log_ndtr, rand),
    "entr": (ops.entr, positive),
    "logit": (ops.logit, _probability),
    "lgamma": (gamma.lgamma, positive),
    "digamma": (gamma.digamma, positive),
    "polygamma": (lambda x: gamma.polygamma(x, 1), positive),
    "mvlgamma": (lambda x: gamma.mvlgamma(x, 2), lambda *sizes: positive(*sizes) + 1),
    "i0": (bessel.i0, rand),
    "i1": (bessel.i1, positive),
    "i0e": (bessel.i0e, positive),
    "i1e": (bessel.i1e, positive),
    "bessel_j0": (bessel.bessel_j0, rand),
    "bessel_j1": (bessel.bessel_j1, positive),
    "bessel_y0": (bessel.bessel_y0, positive),
    "bessel_y1": (bessel.bessel_y1, positive),
    "modified_bessel_k0": (bessel.modified_bessel_k0, positive),
    "modified_bessel_k1": (bessel.modified_bessel_k1, positive),
    "scaled_modified_bessel_k0": (bessel.scaled_modified_bessel_k0, positive),
    "scaled_modified_bessel_k1": (bessel.scaled_modified_bessel_k1, positive),
}
_SECOND = {"igamma": gamma.igamma, "igammac": gamma.igammac, "zeta": gamma.zeta}

CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    Case("logit", lambda x: ops.logit(x, 0.15), (np.array([0.05, 0.3, 0.6, 0.95]),), "eps"),
    Case("polygamma", lambda x: gamma.polygamma(x, 0), (positive(2, 3),), "order 0"),
    Case("polygamma", lambda x: gamma.polygamma(x, 2), (positive(2, 3),), "order 2"),
    *(
        Case(name, lambda x, op=op: op(x.detach() * 0 + 1.5, x), (positive(2, 3),), "second operand")
        for name, op in _SECOND.items()
    ),
]
