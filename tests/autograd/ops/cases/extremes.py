"""The larger and the smaller of two, and values held between bounds, away from where they meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import extremes as ops
from stowgrad.autograd.ops import marks

from .case import Case, apart, binary_cases, rand, unary_cases


def _small(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers no two of which are nearer than 0.005: differences are exact enough for large sums of them."""
    return apart(*sizes) * 0.1


BINARY = {"maximum": ops.maximum, "minimum": ops.minimum, "fmax": ops.fmax, "fmin": ops.fmin}
_MASK = np.array([0b10110000], np.uint8)
_OTHER = np.array([0b01101000], np.uint8)

CASES = [
    *(case for name, op in BINARY.items() for case in binary_cases(name, op, _small, smooth=False)),
    *unary_cases("clamp", lambda x: ops.clamp(x, -0.42, 0.53), apart),
    Case("clamp", lambda x: ops.clamp(x, None, 0.53), (apart(2, 3),), "only max"),
    Case("clamp", lambda x: ops.clamp(x, -0.42, None), (apart(2, 3),), "only min"),
    Case("clamp_between", ops.clamp_between, (apart(3, 4), rand(3, 4) * 0.01 - 0.35, rand(3, 4) * 0.01 + 0.35)),
    Case("clamp_between", ops.clamp_between, (apart(3, 4), rand(4) * 0.01 - 0.35, rand(3, 1) * 0.01), "broadcast"),
    Case("clamp_between", ops.clamp_between, (apart(3, 4), np.array(0.34), np.array(-0.36)), "crossed"),
    Case("clamp_between", lambda x, y: ops.clamp_between(x, y, None), (apart(2, 3), apart(3) + 0.03), "only min"),
    Case("clamp_between", lambda x, y: ops.clamp_between(x, None, y), (apart(2, 3), apart(3) + 0.03), "only max"),
    *unary_cases("nan_to_num", lambda x: ops.nan_to_num(x, 0.0, None, None), apart),
    Case("keep_marked", marks.keep_marked, (rand(5), _MASK)),
    Case("keep_marked", lambda x, bits: marks.keep_marked(x, bits, True), (rand(5), _MASK), "contrary"),
    Case("turn_marked", marks.turn_marked, (rand(5), _MASK, np.invert(_MASK) & _OTHER)),
    Case("share_marked", marks.share_marked, (rand(5), _MASK, _OTHER)),
]
