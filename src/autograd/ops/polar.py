"""Complex numbers by absolute value and angle."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec, broadcast_shapes
from .complex import complex_dtype, imag, real, rotate
from .elementwise import add, cos, div, eq, mul, sin, square, sub, where
from .pointwise import SELF, Unary, zeros_like
from .promotion import category, get_default_dtype
from .sum_to import reduced


class Polar(Op):
    """The complex numbers of given absolute values and angles."""

    name = "polar"
    inputs = 2
    saves = (Slot("angle", 1, needed_for=(0,)), Slot("result", 0, True, needed_for=(1,)))
    complex_saved = "plain"

    def infer(self, x: Any, angle: Any) -> tuple[Spec, ...]:
        return ((broadcast_shapes("polar", x.shape, angle.shape), complex_dtype("polar", x.dtype, angle.dtype)),)

    def kernel(self, k: Any, x: Any, angle: Any, out: Any) -> None:
        for function, part in ((k.cos, out.real), (k.sin, out.imag)):
            k.copy(angle, part)
            function(part, part)
            k.multiply(part, x, part)

    def attrs(self, x: Any, angle: Any) -> Any:
        return x.shape, angle.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        angle, result = saved
        a, b = do(real, grads[0]), do(imag, grads[0])
        by_x = by_angle = None
        if node.needs_grad[0]:
            by_x = reduced(do, do(add, do(mul, a, do(cos, angle)), do(mul, b, do(sin, angle))), node.op_attrs[0])
        if node.needs_grad[1]:
            turning = do(sub, do(mul, b, do(real, result)), do(mul, a, do(imag, result)))
            by_angle = reduced(do, turning, node.op_attrs[1])
        return by_x, by_angle


class Angle(Unary):
    """The angle of complex numbers, from -pi to pi."""

    name = "angle"
    saves = (SELF,)
    complex_saved = "plain"

    def __call__(self, x: Any) -> Any:
        return super().__call__(x) if x._array.dtype.kind == "c" else angle_of_real(x)

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, np.dtype(np.float32) if x.dtype == np.complex64 else np.dtype(np.float64)),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.arctan2(x.imag, x.real, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (z,) = saved
        squared = do(add, do(square, do(real, z)), do(square, do(imag, z)))
        share = do(where, do(eq, squared, 0), 0.0, do(div, grads[0], squared))
        return (do(mul, share, do(rotate, z, 1j)),)


class AngleOfReal(Op):
    """0, or pi for negative numbers."""

    name = "angle_of_real"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, get_default_dtype() if category(x.dtype) < 2 else x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.add(x, 0.0, out)  # which makes 0.0 of -0.0, whose angle would be pi
        k.arctan2(0.0, out, out)

    def attrs(self, x: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_like, grads[0]),)


polar = Polar()
angle = Angle()
angle_of_real = AngleOfReal()
