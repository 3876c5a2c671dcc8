"""Arithmetic and elementary functions."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import elementwise

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
    "maximum": (elementwise.maximum, apart),
    "minimum": (elementwise.minimum, apart),
}
_MASK = np.array([[True, False, True], [False, True, True]])

CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    *(
        case
        for name, (op, draw) in BINARY.items()
        for case in binary_cases(name, op, draw, smooth=name not in ("maximum", "minimum"))
    ),
    Case("where", elementwise.where, (_MASK, rand(2, 3), rand(2, 3))),
    Case("where", elementwise.where, (_MASK, rand(3), rand(2, 1)), "broadcast"),
    Case("where", lambda c, x: elementwise.where(c, x, 0.5), (_MASK, rand(2, 3)), "number"),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"eq", "ne", "lt", "le", "gt", "ge"}
