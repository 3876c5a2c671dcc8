"""Arithmetic and elementary functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import complex, elementwise

from .case import Case, apart, binary_cases, positive, rand, unary_cases

UNARY = {
    "neg": (elementwise.neg, rand),
    "exp": (elementwise.exp, rand),
    "log": (elementwise.log, positive),
    "sqrt": (elementwise.sqrt, positive),
    "square": (elementwise.square, rand),
    "reciprocal": (elementwise.reciprocal, positive),
    "rsqrt": (elementwise.rsqrt, positive),
    "sin": (elementwise.sin, rand),
    "cos": (elementwise.cos, rand),
    "abs": (elementwise.abs, apart),
    "sign": (elementwise.sign, apart),
}
BINARY = {
    "add": (elementwise.add, rand),
    "sub": (elementwise.sub, rand),
    "mul": (elementwise.mul, rand),
    "div": (elementwise.div, positive),
    "pow": (elementwise.pow, positive),
}


def _complex_size(x: Any, y: Any) -> Any:
    """The sizes of complex numbers, and the parts of what has their directions."""
    z = x + y * 1j
    unit = elementwise.sgn(z)
    return elementwise.abs(z), complex.real(unit), complex.imag(unit)


_MASK = np.array([[True, False, True], [False, True, True]])

CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    *(case for name, (op, draw) in BINARY.items() for case in binary_cases(name, op, draw)),
    *unary_cases("pow", lambda x: elementwise.pow(x, 2), rand),
    *unary_cases("pow", lambda x: elementwise.pow(x, 3.0), rand),
    Case("complex_abs", _complex_size, (positive(2, 3), rand(2, 3))),
    Case("sgn", _complex_size, (positive(2, 3), rand(2, 3)), "complex"),
    Case("where", elementwise.where, (_MASK, rand(2, 3), rand(2, 3))),
    Case("where", elementwise.where, (_MASK, rand(3), rand(2, 1)), "broadcast"),
    Case("where", lambda c, x: elementwise.where(c, x, 0.5), (_MASK, rand(2, 3)), "number"),
    Case("where", lambda c, x: elementwise.where(c, -1, x), (_MASK.repeat(400, 0), rand(800, 3)), "large"),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"eq", "ne", "lt", "le", "gt", "ge", "zeros_like"}
