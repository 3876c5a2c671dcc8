"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import trigonometric as ops

from .case import Case, apart, binary_cases, positive, rand, unary_cases


def _inside(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers of sizes below 0.9."""
    return rand(*sizes, low=-0.9, high=0.9)


def _beyond(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers from 1.5 to 3."""
    return rand(*sizes, low=1.5, high=3.0)


UNARY = {
    "tan": (ops.tan, rand),
    "asin": (ops.asin, _inside),
    "acos": (ops.acos, _inside),
    "atan": (ops.atan, rand),
    "sinh": (ops.sinh, rand),
    "cosh": (ops.cosh, rand),
    "asinh": (ops.asinh, rand),
    "acosh": (ops.acosh, _beyond),
    "atanh": (ops.atanh, _inside),
    "sinc": (ops.sinc, apart),
    "deg2rad": (ops.deg2rad, rand),
    "rad2deg": (ops.rad2deg, rand),
}

CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    Case("sinc", ops.sinc, (np.array([0.0, 1.0, -2.0, 0.5]),), "at 0 and roots"),
    *binary_cases("atan2", ops.atan2, positive),
    *binary_cases("hypot", ops.hypot, positive),
    *binary_cases("copysign", ops.copysign, apart, smooth=False),
]
