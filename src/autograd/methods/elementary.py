"""Exponentials, angles, rounding and extremes, as methods."""

from __future__ import annotations

from typing import Any, Self

from .. import inplace
from ..functions import exponential, extremes, fused, rounding, trigonometric
from ..functions.complex import view_as_real
from ..ops import elementwise
from ..ops import exponential as exponential_ops
from ..ops import extremes as extreme_ops
from ..ops import fused as fused_ops
from ..ops import rounding as rounding_ops
from ..ops import trigonometric as trigonometric_ops
from .writing import binary_, unary_


class ElementaryMethods:
    """Elementary functions of each element by itself, and their forms that write in place."""

    __slots__ = ()

    _array: Any

    exp2 = exponential.exp2
    expm1 = exponential.expm1
    log2 = exponential.log2
    log10 = exponential.log10
    log1p = exponential.log1p
    logaddexp = exponential.logaddexp
    logaddexp2 = exponential.logaddexp2
    xlogy = exponential.xlogy
    tan = trigonometric.tan
    asin = trigonometric.asin
    acos = trigonometric.acos
    atan = trigonometric.atan
    sinh = trigonometric.sinh
    cosh = trigonometric.cosh
    asinh = trigonometric.asinh
    acosh = trigonometric.acosh
    atanh = trigonometric.atanh
    sinc = trigonometric.sinc
    deg2rad = trigonometric.deg2rad
    rad2deg = trigonometric.rad2deg
    arcsin = trigonometric.arcsin
    arccos = trigonometric.arccos
    arctan = trigonometric.arctan
    arcsinh = trigonometric.arcsinh
    arccosh = trigonometric.arccosh
    arctanh = trigonometric.arctanh
    atan2 = trigonometric.atan2
    arctan2 = trigonometric.arctan2
    hypot = trigonometric.hypot
    copysign = trigonometric.copysign
    floor = rounding.floor
    ceil = rounding.ceil
    trunc = rounding.trunc
    frac = rounding.frac
    fix = rounding.fix
    round = rounding.round
    floor_divide = rounding.floor_divide
    remainder = rounding.remainder
    fmod = rounding.fmod
    nextafter = rounding.nextafter
    maximum = extremes.maximum
    minimum = extremes.minimum
    fmax = extremes.fmax
    fmin = extremes.fmin
    clamp = extremes.clamp
    clip = extremes.clip
    clamp_min = extremes.clamp_min
    clamp_max = extremes.clamp_max
    nan_to_num = extremes.nan_to_num
    lerp = fused.lerp
    addcmul = fused.addcmul
    addcdiv = fused.addcdiv
    ldexp = fused.ldexp
    frexp = fused.frexp

    exp2_ = unary_(exponential_ops.exp2)
    expm1_ = unary_(exponential_ops.expm1)
    log2_ = unary_(exponential_ops.log2)
    log10_ = unary_(exponential_ops.log10)
    log1p_ = unary_(exponential_ops.log1p)
    xlogy_ = binary_(exponential_ops.xlogy)
    tan_ = unary_(trigonometric_ops.tan)
    asin_ = unary_(trigonometric_ops.asin)
    acos_ = unary_(trigonometric_ops.acos)
    atan_ = unary_(trigonometric_ops.atan)
    sinh_ = unary_(trigonometric_ops.sinh)
    cosh_ = unary_(trigonometric_ops.cosh)
    asinh_ = unary_(trigonometric_ops.asinh)
    acosh_ = unary_(trigonometric_ops.acosh)
    atanh_ = unary_(trigonometric_ops.atanh)
    sinc_ = unary_(trigonometric_ops.sinc)
    deg2rad_ = unary_(trigonometric_ops.deg2rad)
    rad2deg_ = unary_(trigonometric_ops.rad2deg)
    arcsin_ = asin_
    arccos_ = acos_
    arctan_ = atan_
    arcsinh_ = asinh_
    arccosh_ = acosh_
    arctanh_ = atanh_
    atan2_ = binary_(trigonometric_ops.atan2)
    arctan2_ = atan2_
    hypot_ = binary_(trigonometric_ops.hypot)
    copysign_ = binary_(trigonometric_ops.copysign)
    floor_ = unary_(rounding_ops.floor)
    ceil_ = unary_(rounding_ops.ceil)
    trunc_ = unary_(rounding_ops.trunc)
    frac_ = unary_(rounding_ops.frac)
    fix_ = trunc_
    floor_divide_ = binary_(rounding_ops.floor_divide)
    remainder_ = binary_(rounding_ops.remainder)
    fmod_ = binary_(rounding_ops.fmod)
    nextafter_ = binary_(rounding_ops.nextafter)

    def round_(self, *, decimals: int = 0) -> Self:
        """Round to whole numbers, or to decimals."""
        return inplace.op_(rounding_ops.round, 0, self, decimals)  # type: ignore[no-any-return]

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """Hold the elements between bounds: numbers or tensors."""
        return inplace.op_(extremes.bounded(min, max), 0, self, min, max)  # type: ignore[no-any-return]

    clip_ = clamp_

    def clamp_min_(self, min: Any) -> Self:
        """Raise smaller elements to a bound."""
        return self.clamp_(min, None)

    def clamp_max_(self, max: Any) -> Self:
        """Lower larger elements to a bound."""
        return self.clamp_(None, max)

    def nan_to_num_(self, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Replace NaN and infinities by numbers."""
        if self._array.dtype.kind == "c":
            inplace.op_(extreme_ops.nan_to_num, 0, view_as_real(self), nan, posinf, neginf)
            return self
        return inplace.op_(extreme_ops.nan_to_num, 0, self, nan, posinf, neginf)  # type: ignore[no-any-return]

    def lerp_(self, end: Any, weight: Any) -> Self:
        """Go towards ``end`` by a weight."""
        return inplace.op_(fused_ops.lerp, 0, self, end, weight)  # type: ignore[no-any-return]

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """Add ``value * tensor1 * tensor2``."""
        return inplace.op_(fused_ops.addcmul, 0, self, tensor1, tensor2, value)  # type: ignore[no-any-return]

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """Add ``value * tensor1 / tensor2``."""
        return inplace.op_(fused_ops.addcdiv, 0, self, tensor1, tensor2, value)  # type: ignore[no-any-return]

    def ldexp_(self, other: Any) -> Self:
        """Multiply by ``2 ** other``."""
        return inplace.binary_(elementwise.mul, self, elementwise.pow(2.0, other))  # type: ignore[no-any-return]
