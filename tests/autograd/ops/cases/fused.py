"""Arithmetic on three operands, and numbers taken apart."""

from __future__ import annotations

from stowgrad.autograd.ops import fused as ops

from .case import Case, positive, rand

_THREE = (rand(2, 3), rand(2, 3), positive(2, 3))
_BROADCAST = (rand(3), rand(2, 1), positive(2, 3))
_LARGE = (rand(40, 17), rand(40, 17), positive(40, 17))

CASES = [
    *(
        Case(name, lambda x, y, z, op=op, value=value: op(x, y, z, value), inputs, label)
        for name, op in (("addcmul", ops.addcmul), ("addcdiv", ops.addcdiv))
        for label, inputs, value in (
            ("same shape", _THREE, 1),
            ("broadcast", _BROADCAST, 1),
            ("value", _THREE, -0.5),
            ("large", _LARGE, 0.5),
        )
    ),
    Case("lerp", ops.lerp, _THREE, "same shape"),
    Case("lerp", ops.lerp, _BROADCAST, "broadcast"),
    Case("lerp", ops.lerp, _LARGE, "large"),
    Case("lerp", lambda x, y: ops.lerp(x, y, 0.25), (rand(2, 3), rand(3)), "number"),
    Case("lerp", lambda x, y: ops.lerp(x, y, 0.75), (rand(2, 3), rand(3)), "number near 1"),
    Case("frexp", lambda x: ops.frexp(x)[0], (rand(3, 4, low=1.1, high=1.9),)),
]
