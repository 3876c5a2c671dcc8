"""The gamma function's logarithm, its derivatives, the incomplete gamma function, and the zeta function."""

from __future__ import annotations

from typing import Any

from ..record import Do, Slot, Spec
from .elementwise import Sloped, add, exp, mul, neg, sub
from .exponential import xlogy
from .pointwise import SELF, Binary, Unary


class Lgamma(Sloped):
    """The logarithm of the gamma function's absolute value."""

    name = "lgamma"
    takes_complex = False
    complex_saved: str | None = None
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(digamma, saved)


class Digamma(Sloped):
    """The derivative of `Lgamma`."""

    name = "digamma"
    takes_complex = False
    complex_saved: str | None = None
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(polygamma, saved, 1)


class Polygamma(Unary):
    """The derivative of order ``n`` of `Digamma`."""

    name = "polygamma"
    takes_complex = False
    saves = (SELF,)

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        if args[1] < 0:
            raise RuntimeError("polygamma(n, x) does not support negative n.")
        return super().infer(*args)

    def kernel(self, k: Any, x: Any, n: int, out: Any) -> None:
        k.polygamma(x, out, n=n)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(polygamma, saved[0], node.op_attrs + 1)),)


class Mvlgamma(Unary):
    """The logarithm of the gamma function of dimension ``p``."""

    name = "mvlgamma"
    takes_complex = False
    saves = (SELF,)

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        if args[1] < 1:
            raise RuntimeError("mvlgamma: p has to be greater than or equal to 1")
        return super().infer(*args)

    def kernel(self, k: Any, x: Any, p: int, out: Any) -> None:
        k.mvlgamma(x, out, p=p)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        slope = do(digamma, saved[0])
        for number in range(1, node.op_attrs):
            slope = do(add, slope, do(digamma, do(sub, saved[0], number / 2)))
        return (do(mul, grads[0], slope),)


class _Incomplete(Binary):
    """A part of the gamma function's integral; only the gradient of the bound is known."""

    to_float = False
    lowest = 2
    takes_complex = False
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(1,)))
    sign = 1

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        a, x = operands
        if node.needs_grad[0]:
            raise NotImplementedError(f"the derivative for '{self.name}: input' is not implemented.")
        density = do(exp, do(sub, do(sub, do(xlogy, do(sub, a, 1.0), x), x), do(lgamma, a)))
        return None, do(mul, grad, density if self.sign > 0 else do(neg, density))


class Igamma(_Incomplete):
    """The regularized lower incomplete gamma function."""

    name = "igamma"


class Igammac(_Incomplete):
    """The regularized upper incomplete gamma function."""

    name = "igammac"
    sign = -1


class Zeta(Binary):
    """The Hurwitz zeta function; only the gradient of its second argument is known."""

    name = "zeta"
    to_float = True
    takes_complex = False
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(1,)))

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, q = operands
        if node.needs_grad[0]:
            raise NotImplementedError("the derivative for 'zeta' is not implemented.")
        more = x + 1 if not hasattr(x, "shape") else do(add, x, 1.0)
        return None, do(mul, grad, do(mul, do(zeta, more, q), do(neg, x) if hasattr(x, "shape") else -x))


lgamma = Lgamma()
digamma = Digamma()
polygamma = Polygamma()
mvlgamma = Mvlgamma()
igamma = Igamma()
igammac = Igammac()
zeta = Zeta()
