"""Trigonometric and hyperbolic functions, and what belongs to right-angled triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..record import Do, Slot
from .elementwise import Sloped, add, cos, div, eq, mul, neg, rsqrt, sin, square, sub, where
from .pointwise import OTHER, RESULT, SELF, Binary, Unary, is_number, zeros_like


class Tan(Sloped):
    """The tangent."""

    name = "tan"
    ufunc = np.tan
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(add, do(square, saved), 1.0)


class Asin(Sloped):
    """The inverse of the sine."""

    name = "asin"
    ufunc = np.arcsin
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(rsqrt, do(sub, 1.0, do(square, saved)))


class Acos(Sloped):
    """The inverse of the cosine."""

    name = "acos"
    ufunc = np.arccos
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(neg, do(rsqrt, do(sub, 1.0, do(square, saved))))


class Atan(Unary):
    """The inverse of the tangent."""

    name = "atan"
    ufunc = np.arctan
    saves = (SELF,)
    complex_saved = "conjugated"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(add, do(square, saved[0]), 1.0)),)


class Sinh(Sloped):
    """The hyperbolic sine."""

    name = "sinh"
    ufunc = np.sinh
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(cosh, saved)


class Cosh(Sloped):
    """The hyperbolic cosine."""

    name = "cosh"
    ufunc = np.cosh
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(sinh, saved)


class Asinh(Sloped):
    """The inverse of the hyperbolic sine."""

    name = "asinh"
    ufunc = np.arcsinh
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(rsqrt, do(add, do(square, saved), 1.0))


class Acosh(Sloped):
    """The inverse of the hyperbolic cosine."""

    name = "acosh"
    ufunc = np.arccosh
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, do(rsqrt, do(sub, saved, 1.0)), do(rsqrt, do(add, saved, 1.0)))


class Atanh(Unary):
    """The inverse of the hyperbolic tangent."""

    name = "atanh"
    ufunc = np.arctanh
    saves = (SELF,)
    complex_saved = "conjugated"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(sub, 1.0, do(square, saved[0]))),)


class Sinc(Sloped):
    """``sin(pi x) / (pi x)``, which is 1 at 0."""

    name = "sinc"
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        angle = do(mul, saved, math.pi)
        rise = do(sub, do(mul, angle, do(cos, angle)), do(sin, angle))
        zero = do(eq, saved, 0)
        slope = do(div, rise, do(where, zero, 1.0, do(mul, angle, saved)))
        # The numerator is 0 at 0; so that the second derivative is right there, too, it is -pi^2 x / 3 near it.
        return do(where, zero, do(mul, saved, -math.pi * math.pi / 3), slope)


class _Degrees(Unary):
    """Angles in another unit: a multiple."""

    takes_complex = False
    factor = 1.0

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], self.factor),)


class Deg2rad(_Degrees):
    """Degrees to radians."""

    name = "deg2rad"
    ufunc = np.deg2rad
    factor = math.pi / 180


class Rad2deg(_Degrees):
    """Radians to degrees."""

    name = "rad2deg"
    ufunc = np.rad2deg
    factor = 180 / math.pi


class Atan2(Binary):
    """The angle of the point ``(y, x)``: of ``x / y`` in the right quadrant."""

    name = "atan2"
    ufunc = np.arctan2
    to_float = True
    takes_complex = False
    saves = (SELF, OTHER)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        distance = do(add, *[v * v if is_number(v) else do(square, v) for v in (x, y)])
        share = do(where, do(eq, distance, 0), 0.0, do(div, grad, distance))
        by_x = do(mul, share, y) if need_x else None
        return by_x, do(neg, do(mul, share, x)) if need_y else None


class Hypot(Binary):
    """``sqrt(x * x + y * y)``, without overflow in between."""

    name = "hypot"
    ufunc = np.hypot
    lowest = 2
    takes_complex = False
    saves = (Slot("self", 0, needed_for=(0,)), Slot("other", 1, needed_for=(1,)), RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        partials = [
            do(mul, grads[0], do(div, value, saved[2])) if needed else None
            for value, needed in zip(self.operands(node, saved), node.needs_grad, strict=True)
        ]
        return self.folded(do, node, tuple(partials))


class Copysign(Binary):
    """The size of ``x`` with the sign of ``y``."""

    name = "copysign"
    ufunc = np.copysign
    to_float = True
    takes_complex = False
    saves = (Slot("self", 0, needed_for=(0,)), Slot("result", 0, output=True, needed_for=(0,)))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        need_x, need_y = node.needs_grad
        by_x = None
        if need_x:
            zero = do(eq, saved[0], 0)
            ratio = do(div, saved[1], do(where, zero, 1.0, saved[0]))
            by_x = do(mul, grad, do(where, zero, 0.0, ratio))
        return self.folded(do, node, (by_x, do(zeros_like, grad) if need_y else None))

    def attrs(self, x: Any, y: Any) -> Any:
        found = super().attrs(x, y)
        return found and found[:2]

    def number(self, node: Any, slot: Slot) -> Any:
        return None


tan = Tan()
asin = Asin()
acos = Acos()
atan = Atan()
sinh = Sinh()
cosh = Cosh()
asinh = Asinh()
acosh = Acosh()
atanh = Atanh()
sinc = Sinc()
deg2rad = Deg2rad()
rad2deg = Rad2deg()
atan2 = Atan2()
hypot = Hypot()
copysign = Copysign()
