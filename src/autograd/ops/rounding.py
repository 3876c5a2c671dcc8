"""Rounding, and the division that leaves a remainder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..record import Do, Slot, Spec
from .elementwise import mul, neg
from .marks import MarkingBinary, keep_marked
from .pointwise import Binary, Unary, zeros_like
from .promotion import category


class _Rounded(Unary):
    """A whole number near an element: constant between jumps."""

    to_float = False
    lowest = 1
    takes_complex = False

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        if category(x.dtype) < 2:
            k.copy(x, out)
        else:
            super().kernel(k, x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_like, grads[0]),)


class Floor(_Rounded):
    """The largest whole number that is not larger."""

    name = "floor"
    ufunc = np.floor


class Ceil(_Rounded):
    """The smallest whole number that is not smaller."""

    name = "ceil"
    ufunc = np.ceil


class Trunc(_Rounded):
    """The whole number next to it towards 0."""

    name = "trunc"
    ufunc = np.trunc


class Round(_Rounded):
    """The nearest whole number, the even one of two; or so many decimals."""

    name = "round"

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        if any(args[1:]) and category(args[0].dtype) < 2:
            raise NotImplementedError(f"round: decimals are not implemented for {args[0].dtype}")
        return super().infer(*args)

    def kernel(self, k: Any, x: Any, *attrs_and_out: Any) -> None:
        *decimals, out = attrs_and_out
        if category(x.dtype) < 2:
            k.copy(x, out)
        elif decimals and decimals[0]:
            k.round(x, out, decimals=decimals[0])
        else:
            k.rint(x, out)


class Frac(Unary):
    """What `Trunc` takes away."""

    name = "frac"
    to_float = False
    lowest = 2
    takes_complex = False
    fresh = False

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (grads[0],)


class _Division(Binary):
    """A division with a whole quotient: of integers, division by 0 is an error."""

    lowest = 1
    takes_complex = False

    def kernel(self, k: Any, x: Any, y: Any, out: Any) -> None:
        if category(out.dtype) > 1:
            super().kernel(k, x, y, out)
            return
        try:
            with np.errstate(divide="raise"):
                super().kernel(k, x, y, out)
        except FloatingPointError:
            raise RuntimeError("ZeroDivisionError") from None

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        need_x, need_y = node.needs_grad
        return do(zeros_like, grad) if need_x else None, do(zeros_like, grad) if need_y else None


class FloorDivide(_Division):
    """The largest whole number that is not larger than the quotient."""

    name = "floor_divide"
    ufunc = np.floor_divide


class TruncDivide(_Division):
    """The quotient without its fraction."""

    name = "trunc_divide"


class _Remainder(_Division):
    """What a division with a whole quotient leaves."""

    fresh = False
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(1,)))
    quotient: Binary

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        by_y = do(neg, do(mul, grad, do(self.quotient, x, y))) if need_y else None
        return grad if need_x else None, by_y


class Remainder(_Remainder):
    """What `FloorDivide` leaves: it has the sign of the divisor."""

    name = "remainder"
    ufunc = np.remainder


class Fmod(_Remainder):
    """What `TruncDivide` leaves: it has the sign of the dividend."""

    name = "fmod"
    ufunc = np.fmod


class Nextafter(MarkingBinary):
    """The number next to ``x`` in the direction of ``y``."""

    name = "nextafter"
    ufunc = np.nextafter
    lowest = 2

    def kernel(self, k: Any, x: Any, y: Any, out: Any, *masks: Any) -> None:
        if masks:
            k.mark(x, y, masks[0], shape=out.shape, relation="not_equal")
        super().kernel(k, x, y, out)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        need_x, need_y = node.needs_grad
        by_x = do(keep_marked, grad, operands[0]) if need_x else None
        return by_x, do(zeros_like, grad) if need_y else None


floor = Floor()
ceil = Ceil()
trunc = Trunc()
round = Round()
frac = Frac()
floor_divide = Remainder.quotient = FloorDivide()
trunc_divide = Fmod.quotient = TruncDivide()
remainder = Remainder()
fmod = Fmod()
nextafter = Nextafter()
