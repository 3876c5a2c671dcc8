"""Error functions, the normal distribution, entropy and the logit."""

from __future__ import annotations

import math
from typing import Any

from ..record import Do
from .elementwise import Sloped, div, exp, log, lt, mul, neg, square, sub, where
from .pointwise import RESULT, SELF, Unary

_PEAK = 1.0 / math.sqrt(2 * math.pi)


class _Real(Sloped):
    """A function of real numbers."""

    takes_complex = False


class Erfc(_Real):
    """The complementary error function, ``1 - erf(x)``, exact where that is small."""

    name = "erfc"
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, do(exp, do(neg, do(square, saved))), -2 / math.sqrt(math.pi))


class Erfinv(_Real):
    """The inverse of the error function."""

    name = "erfinv"
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, do(exp, do(square, saved)), math.sqrt(math.pi) / 2)


class Erfcx(Unary):
    """``exp(x * x) * erfc(x)``."""

    name = "erfcx"
    takes_complex = False
    saves = (SELF, RESULT)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        slope = do(sub, do(mul, do(mul, x, y), 2.0), 2 / math.sqrt(math.pi))
        return (do(mul, grads[0], slope),)


class Ndtr(_Real):
    """The distribution function of the normal distribution."""

    name = "ndtr"
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, do(exp, do(mul, do(square, saved), -0.5)), _PEAK)


class Ndtri(_Real):
    """The inverse of `Ndtr`."""

    name = "ndtri"
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, do(exp, do(mul, do(square, saved), 0.5)), 1 / _PEAK)


class LogNdtr(Unary):
    """The logarithm of `Ndtr`, exact far left."""

    name = "log_ndtr"
    takes_complex = False
    saves = (SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        scaled = do(erfcx, do(mul, saved[0], -math.sqrt(0.5)))
        return (do(mul, do(div, grads[0], scaled), math.sqrt(2 / math.pi)),)


class Entr(_Real):
    """``-x * log(x)``: 0 at 0, minus infinity left of it."""

    name = "entr"
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(sub, -1.0, do(log, saved))


class Logit(Unary):
    """``log(x / (1 - x))``, with ``x`` held between ``eps`` and ``1 - eps`` if that is given."""

    name = "logit"
    takes_complex = False
    saves = (SELF,)

    def kernel(self, k: Any, x: Any, *attrs_and_out: Any) -> None:
        *attrs, out = attrs_and_out
        k.logit(x, out, eps=attrs[0] if attrs else None)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x,) = saved
        eps = node.op_attrs
        by_x = do(div, grads[0], do(mul, x, do(sub, 1.0, x)))
        low, high, beside = (0.0, 1.0, math.nan) if eps is None else (eps, 1.0 - eps, 0.0)
        for outside in (do(lt, x, low), do(lt, high, x)):
            by_x = do(where, outside, beside, by_x)
        return (by_x,)


erfc = Erfc()
erfinv = Erfinv()
erfcx = Erfcx()
ndtr = Ndtr()
ndtri = Ndtri()
log_ndtr = LogNdtr()
entr = Entr()
logit = Logit()
