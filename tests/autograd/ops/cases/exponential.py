"""Exponentials and logarithms."""

from __future__ import annotations

from stowgrad.autograd.ops import exponential as ops

from .case import binary_cases, positive, rand, unary_cases

UNARY = {
    "exp2": (ops.exp2, rand),
    "expm1": (ops.expm1, rand),
    "cbrt": (ops.cbrt, positive),
    "log2": (ops.log2, positive),
    "log10": (ops.log10, positive),
    "log1p": (ops.log1p, positive),
}
BINARY = {
    "logaddexp": (ops.logaddexp, rand),
    "logaddexp2": (ops.logaddexp2, rand),
    "xlogy": (ops.xlogy, positive),
    "xlog1py": (ops.xlog1py, positive),
}

CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    *(case for name, (op, draw) in BINARY.items() for case in binary_cases(name, op, draw)),
]
