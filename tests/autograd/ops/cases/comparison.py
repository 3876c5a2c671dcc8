"""Questions about elements, logic, and what only integers have: no derivatives."""

from __future__ import annotations

from .case import Case

CASES: list[Case] = []
NOT_DIFFERENTIABLE = {
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "gcd",
    "heaviside",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lcm",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "signbit",
}
