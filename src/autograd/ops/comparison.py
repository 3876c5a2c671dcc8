"""Questions about elements whose answers are bools, and logic: none of it has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..record import Do, Spec, broadcast_shapes
from .pointwise import BOOL, Binary, Comparison, Unary, zeros_like
from .promotion import category


class LogicalAnd(Comparison):
    """Whether both are not 0."""

    name = "logical_and"
    ufunc = np.logical_and


class LogicalOr(Comparison):
    """Whether one is not 0."""

    name = "logical_or"
    ufunc = np.logical_or


class LogicalXor(Comparison):
    """Whether exactly one is not 0."""

    name = "logical_xor"
    ufunc = np.logical_xor


class _Question(Unary):
    """What is asked about every element."""

    differentiable = False
    to_float = False

    def __init__(self) -> None:
        super().__init__()
        self.small = None  # the short way takes every op for differentiable

    def infer(self, x: Any) -> tuple[Spec, ...]:
        self.check(x.dtype)
        return ((x.shape, BOOL),)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_like, grads[0]),)


class LogicalNot(_Question):
    """Whether an element is 0."""

    name = "logical_not"
    ufunc = np.logical_not


class _FloatQuestion(_Question):
    """A question that integers and bools always answer with no."""

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        if category(x.dtype) < 2:
            k.fill(out, False)
        else:
            self.ask(k, x, out)

    def ask(self, k: Any, x: Any, out: Any) -> None:
        """The kernel for floats."""
        super().kernel(k, x, out)


class Isnan(_FloatQuestion):
    """Whether an element is NaN."""

    name = "isnan"
    ufunc = np.isnan


class Isinf(_FloatQuestion):
    """Whether an element is infinite."""

    name = "isinf"
    ufunc = np.isinf


class Isposinf(_FloatQuestion):
    """Whether an element is infinity."""

    name = "isposinf"
    takes_complex = False

    def ask(self, k: Any, x: Any, out: Any) -> None:
        k.equal(x, float("inf"), out)


class Isneginf(_FloatQuestion):
    """Whether an element is minus infinity."""

    name = "isneginf"
    takes_complex = False

    def ask(self, k: Any, x: Any, out: Any) -> None:
        k.equal(x, float("-inf"), out)


class Isfinite(_Question):
    """Whether an element is neither NaN nor infinite."""

    name = "isfinite"
    ufunc = np.isfinite

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        if category(x.dtype) < 2:
            k.fill(out, True)
        else:
            k.isfinite(x, out)


class Signbit(_Question):
    """Whether an element has a minus sign, as -0.0 has."""

    name = "signbit"
    ufunc = np.signbit
    takes_complex = False

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        if category(x.dtype) < 2:
            k.less(x, 0, out)
        else:
            k.signbit(x, out)


class Heaviside(Binary):
    """0 left of 0, 1 right of it, the second operand at 0."""

    name = "heaviside"
    differentiable = False
    takes_complex = False

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        if x.dtype.kind == "c":
            raise RuntimeError("heaviside is not yet implemented for complex tensors.")
        if x.dtype != y.dtype:
            raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
        return ((broadcast_shapes(self.name, x.shape, y.shape), x.dtype),)

    def _met(self, x: Any, y: Any) -> tuple[Any, Any]:
        return x, y


logical_and = LogicalAnd()
logical_or = LogicalOr()
logical_xor = LogicalXor()
logical_not = LogicalNot()
isnan = Isnan()
isinf = Isinf()
isposinf = Isposinf()
isneginf = Isneginf()
isfinite = Isfinite()
signbit = Signbit()
heaviside = Heaviside()
