"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ...kernels import backend
from ...kernels.numpy_.exponentials import is_fast
from ..record import Do
from .comparison import logical_and
from .elementwise import Sloped, add, div, eq, exp, le, mul, square, sub, where
from .pointwise import OTHER, RESULT, SELF, Binary, Unary, is_number


class Exp2(Sloped):
    """``2 ** x``."""

    name = "exp2"
    ufunc = np.exp2
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, saved, math.log(2))


def _few(ufunc: np.ufunc, x: Any, order: Literal["K", "C"]) -> Any:
    """A function of a small array: by the kernel where that has another way, for the same bits."""
    if x.dtype != np.float32 or is_fast(ufunc.__name__):
        return ufunc(x, order=order)
    out = np.empty_like(x, order=order)
    getattr(backend("cpu"), ufunc.__name__)(x, out)
    return out


class Expm1(Sloped):
    """``exp(x) - 1``, exact near 0."""

    name = "expm1"
    ufunc = np.expm1
    saves = (RESULT,)

    def small(self, x: Any, order: Literal["K", "C"] = "K") -> Any:
        return _few(np.expm1, x, order)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(add, saved, 1.0)


class _Logarithm(Unary):
    """A logarithm: its gradient is divided by a multiple of what was saved."""

    saves = (SELF,)
    complex_saved = "conjugated"
    factor = 1.0

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(mul, saved[0], self.factor)),)


class Log2(_Logarithm):
    """The logarithm to base 2."""

    name = "log2"
    ufunc = np.log2
    factor = math.log(2)


class Log10(_Logarithm):
    """The logarithm to base 10."""

    name = "log10"
    ufunc = np.log10
    factor = math.log(10)


class Log1p(Unary):
    """``log(1 + x)``, exact near 0."""

    name = "log1p"
    ufunc = np.log1p
    saves = (SELF,)
    complex_saved = "conjugated"

    def small(self, x: Any, order: Literal["K", "C"] = "K") -> Any:
        return _few(np.log1p, x, order)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(add, saved[0], 1.0)),)


class Cbrt(Unary):
    """The cube root, of negative numbers too."""

    name = "cbrt"
    ufunc = np.cbrt
    takes_complex = False
    saves = (RESULT,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(mul, do(square, saved[0]), 3.0)),)


class _LogSum(Binary):
    """The logarithm of a sum of two powers of a base: each gets its share of the gradient."""

    saves = (SELF, OTHER)
    lowest = 2
    takes_complex = False

    def power(self, do: Do, x: Any) -> Any:
        """The base to a power."""
        raise NotImplementedError

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        by_x = do(div, grad, do(add, self.power(do, do(sub, y, x)), 1.0)) if need_x else None
        return by_x, do(div, grad, do(add, self.power(do, do(sub, x, y)), 1.0)) if need_y else None


class Logaddexp(_LogSum):
    """``log(exp(x) + exp(y))``."""

    name = "logaddexp"
    ufunc = np.logaddexp

    def power(self, do: Do, x: Any) -> Any:
        return do(exp, x)


class Logaddexp2(_LogSum):
    """``log2(2 ** x + 2 ** y)``."""

    name = "logaddexp2"
    ufunc = np.logaddexp2

    def power(self, do: Do, x: Any) -> Any:
        return do(exp2, x)


class _TimesLog(Binary):
    """``x`` times a logarithm of ``y``: 0 where ``x`` is, unless ``y`` is NaN."""

    to_float = True
    takes_complex = False
    saves = (SELF, OTHER)
    shift = 0.0

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        by_x = by_y = None
        if need_x:  # x is an array: a number needs no gradient
            zero = do(eq, x, 0)
            if not is_number(y):
                zero = do(logical_and, zero, do(le, y, -self.shift))
            counts = grad if is_number(y) and y > -self.shift else do(where, zero, 0.0, grad)
            by_x = do(self, counts, y)
        if need_y:
            by_y = do(mul, grad, do(div, x, do(add, y, self.shift) if self.shift else y))
        return by_x, by_y


class Xlogy(_TimesLog):
    """``x * log(y)``."""

    name = "xlogy"


class Xlog1py(_TimesLog):
    """``x * log(1 + y)``."""

    name = "xlog1py"
    shift = 1.0


exp2 = Exp2()
expm1 = Expm1()
log2 = Log2()
log10 = Log10()
log1p = Log1p()
cbrt = Cbrt()
logaddexp = Logaddexp()
logaddexp2 = Logaddexp2()
xlogy = Xlogy()
xlog1py = Xlog1py()
