"""Bessel functions."""

from __future__ import annotations

from typing import Any

from ..record import Do
from .elementwise import add, div, eq, mul, neg, sgn, sub, where
from .pointwise import RESULT, SELF, Unary


class _Bessel(Unary):
    """A function of real numbers."""

    takes_complex = False


def _quotient(do: Do, y: Any, x: Any) -> Any:
    """``y / x``, and at 0 the slope 1/2 that both `I1` and `BesselJ1` have there."""
    zero = do(eq, x, 0)
    return do(where, zero, 0.5, do(div, y, do(where, zero, 1.0, x)))


class I0(_Bessel):
    """The modified one of the first kind and order 0."""

    name = "i0"
    saves = (SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(i1, saved[0])),)


class I1(_Bessel):
    """The modified one of the first kind and order 1."""

    name = "i1"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        return (do(mul, grads[0], do(sub, do(i0, x), _quotient(do, y, x))),)


class I0e(_Bessel):
    """``exp(-abs(x)) * i0(x)``."""

    name = "i0e"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        return (do(mul, grads[0], do(sub, do(i1e, x), do(mul, do(sgn, x), y))),)


class I1e(_Bessel):
    """``exp(-abs(x)) * i1(x)``."""

    name = "i1e"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        slope = do(sub, do(sub, do(i0e, x), _quotient(do, y, x)), do(mul, do(sgn, x), y))
        return (do(mul, grads[0], slope),)


class BesselJ0(_Bessel):
    """The one of the first kind and order 0."""

    name = "bessel_j0"
    saves = (SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(neg, do(mul, grads[0], do(bessel_j1, saved[0]))),)


class BesselJ1(_Bessel):
    """The one of the first kind and order 1."""

    name = "bessel_j1"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        return (do(mul, grads[0], do(sub, do(bessel_j0, x), _quotient(do, y, x))),)


class BesselY0(_Bessel):
    """The one of the second kind and order 0."""

    name = "bessel_y0"
    saves = (SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(neg, do(mul, grads[0], do(bessel_y1, saved[0]))),)


class BesselY1(_Bessel):
    """The one of the second kind and order 1."""

    name = "bessel_y1"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        return (do(mul, grads[0], do(sub, do(bessel_y0, x), do(div, y, x))),)


class ModifiedBesselK0(_Bessel):
    """The modified one of the second kind and order 0."""

    name = "modified_bessel_k0"
    saves = (SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(neg, do(mul, grads[0], do(modified_bessel_k1, saved[0]))),)


class ModifiedBesselK1(_Bessel):
    """The modified one of the second kind and order 1."""

    name = "modified_bessel_k1"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        return (do(neg, do(mul, grads[0], do(add, do(modified_bessel_k0, x), do(div, y, x)))),)


class ScaledModifiedBesselK0(_Bessel):
    """``exp(x)`` times the modified one of the second kind and order 0."""

    name = "scaled_modified_bessel_k0"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        return (do(mul, grads[0], do(sub, y, do(scaled_modified_bessel_k1, x))),)


class ScaledModifiedBesselK1(_Bessel):
    """``exp(x)`` times the modified one of the second kind and order 1."""

    name = "scaled_modified_bessel_k1"
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        slope = do(sub, do(sub, y, do(scaled_modified_bessel_k0, x)), do(div, y, x))
        return (do(mul, grads[0], slope),)


i0 = I0()
i1 = I1()
i0e = I0e()
i1e = I1e()
bessel_j0 = BesselJ0()
bessel_j1 = BesselJ1()
bessel_y0 = BesselY0()
bessel_y1 = BesselY1()
modified_bessel_k0 = ModifiedBesselK0()
modified_bessel_k1 = ModifiedBesselK1()
scaled_modified_bessel_k0 = ScaledModifiedBesselK0()
scaled_modified_bessel_k1 = ScaledModifiedBesselK1()
