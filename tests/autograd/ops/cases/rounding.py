"""Rounding, and the division that leaves a remainder, away from jumps."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import rounding as ops

from .case import Case, binary_cases, rand, unary_cases


def _off(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers from 0.1 to 0.4 above a whole number."""
    values = rand(*sizes, low=0.1, high=0.4)
    return values + np.arange(values.size).reshape(sizes) % 5 - 2


def _divisors(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers near 1.25, which quotients that aren't whole come of."""
    return rand(*sizes, low=1.24, high=1.26)


UNARY = {"floor": ops.floor, "ceil": ops.ceil, "trunc": ops.trunc, "round": ops.round, "frac": ops.frac}
BINARY = {
    "floor_divide": ops.floor_divide,
    "trunc_divide": ops.trunc_divide,
    "remainder": ops.remainder,
    "fmod": ops.fmod,
}
_DIVIDENDS = np.array([[-2.9, -1.7, 0.6], [1.5, 2.9, 4.1]])

CASES = [
    *(case for name, op in UNARY.items() for case in unary_cases(name, op, _off)),
    Case("round", lambda x: ops.round(x, 1), (rand(3, 4) * 0.01 + np.arange(4) * 0.1,), "decimals"),
    *(Case(name, op, (_DIVIDENDS, _divisors(2, 3)), "same shape") for name, op in BINARY.items()),
    *(Case(name, op, (_DIVIDENDS, _divisors(3)), "broadcast") for name, op in BINARY.items()),
    *(Case(name, lambda x, op=op: op(x, 1.25), (_DIVIDENDS,), "number right") for name, op in BINARY.items()),
    *(Case(name, lambda y, op=op: op(4.1, y), (_divisors(2, 3),), "number left") for name, op in BINARY.items()),
    *binary_cases("nextafter", ops.nextafter, _off, smooth=False),
]
