"""Comparisons, logic and what only integers have, as methods."""

from __future__ import annotations

from ..functions import comparison as functions
from ..functions import integer
from ..ops import comparison as ops
from ..ops import elementwise
from ..ops import integer as integer_ops
from .writing import binary_, unary_


class ComparisonMethods:
    """Comparisons, questions and logic, and their forms that write in place."""

    __slots__ = ()

    eq = functions.eq
    ne = functions.ne
    lt = functions.lt
    le = functions.le
    gt = functions.gt
    ge = functions.ge
    not_equal = functions.not_equal
    less = functions.less
    less_equal = functions.less_equal
    greater = functions.greater
    greater_equal = functions.greater_equal
    logical_and = functions.logical_and
    logical_or = functions.logical_or
    logical_xor = functions.logical_xor
    logical_not = functions.logical_not
    isnan = functions.isnan
    isinf = functions.isinf
    isfinite = functions.isfinite
    isposinf = functions.isposinf
    isneginf = functions.isneginf
    signbit = functions.signbit
    isclose = functions.isclose
    allclose = functions.allclose
    equal = functions.equal
    heaviside = functions.heaviside
    bitwise_and = integer.bitwise_and
    bitwise_or = integer.bitwise_or
    bitwise_xor = integer.bitwise_xor
    bitwise_left_shift = integer.bitwise_left_shift
    bitwise_right_shift = integer.bitwise_right_shift
    gcd = integer.gcd
    lcm = integer.lcm
    bitwise_not = integer.bitwise_not

    eq_ = binary_(elementwise.eq)
    ne_ = binary_(elementwise.ne)
    lt_ = binary_(elementwise.lt)
    le_ = binary_(elementwise.le)
    gt_ = binary_(elementwise.gt)
    ge_ = binary_(elementwise.ge)
    not_equal_ = ne_
    less_ = lt_
    less_equal_ = le_
    greater_ = gt_
    greater_equal_ = ge_
    logical_and_ = binary_(ops.logical_and)
    logical_or_ = binary_(ops.logical_or)
    logical_xor_ = binary_(ops.logical_xor)
    logical_not_ = unary_(ops.logical_not)
    heaviside_ = binary_(ops.heaviside, "values")
    bitwise_and_ = binary_(integer_ops.bitwise_and)
    bitwise_or_ = binary_(integer_ops.bitwise_or)
    bitwise_xor_ = binary_(integer_ops.bitwise_xor)
    bitwise_left_shift_ = binary_(integer_ops.bitwise_left_shift)
    bitwise_right_shift_ = binary_(integer_ops.bitwise_right_shift)
    gcd_ = binary_(integer_ops.gcd)
    lcm_ = binary_(integer_ops.lcm)
    bitwise_not_ = unary_(integer_ops.bitwise_not)
