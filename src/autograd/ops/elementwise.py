"""Arithmetic, comparisons, and the elementary functions that other records are made of."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..dispatch import SCALARS, apply
from ..record import Do, Slot, Spec, broadcast_shapes
from ..variable import Variable
from .cast import to_dtype
from .choice import Choice
from .comparison import logical_and
from .marks import Marking, bits_of, turn_marked
from .pointwise import BOOL, OTHER, RESULT, SELF, Binary, Comparison, Unary, check_lowest, number, wrapped, zeros_like
from .promotion import category, result_dtype
from .sum_to import reduced


class Add(Binary):
    """``x + y``."""

    name = "add"
    ufunc = np.add
    fresh = False

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        if node.op_attrs is not None:
            return super().backward(do, node, saved, *grads)
        return self.partials(do, node, (), grads[0])

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        need_x, need_y = node.needs_grad
        return grad if need_x else None, grad if need_y else None


class Sub(Binary):
    """``x - y``."""

    name = "sub"
    ufunc = np.subtract
    fresh = False

    def _dtype(self, x: Any, y: Any) -> np.dtype[Any]:
        if any(isinstance(v, bool) or getattr(v, "dtype", None) == BOOL for v in (x, y)):
            raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported; convert it first")
        return super()._dtype(x, y)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        need_x, need_y = node.needs_grad
        return grad if need_x else None, do(neg, grad) if need_y else None


class Mul(Binary):
    """``x * y``."""

    name = "mul"
    ufunc = np.multiply
    complex_saved = "conjugated"
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(0,)))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        if node.op_attrs is not None:
            return super().backward(do, node, saved, *grads)
        return self.partials(do, node, saved, grads[0])

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        return do(mul, grad, y) if need_x else None, do(mul, grad, x) if need_y else None


class Div(Binary):
    """``x / y``; integers become floats."""

    name = "div"
    ufunc = np.divide
    to_float = True
    complex_saved = "conjugated"
    saves = (Slot("self", 0, needed_for=(1,)), OTHER)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        by_x = do(div, grad, y)
        by_y = do(neg, do(mul, by_x, do(div, x, y))) if need_y else None
        return by_x if need_x else None, by_y


def _small_power(x: Any, y: Any, order: Literal["K", "C"] = "K") -> Any:
    if type(y) in (int, float) and y in (2, 3):  # products, as the kernel makes them
        squared = np.square(x, order=order)
        return squared if y == 2 else np.multiply(squared, x, squared)
    return np.power(x, y, order=order)


class Pow(Binary):
    """``x ** y``."""

    name = "pow"
    ufunc = np.power
    complex_saved = "conjugated"
    saves = (SELF, Slot("exponent", 1), Slot("result", 0, output=True, needed_for=(1,)))
    small = staticmethod(_small_power)

    def __init__(self) -> None:
        super().__init__()
        self.plain = True  # what is refused below, and computed otherwise, is not made of floats

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        ((shape, dtype),) = super().infer(x, y)
        if category(dtype) == 0 and not isinstance(y, bool):
            raise NotImplementedError("pow: not implemented for bool; convert the tensors first")
        if category(dtype) == 1 and isinstance(y, int | float) and y < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return ((shape, dtype),)

    def kernel(self, k: Any, x: Any, y: Any, out: Any) -> None:
        if out.dtype == BOOL:
            k.logical_or(x, not y, out)  # of a Python bool only
        elif category(out.dtype) == 1:
            k.integer_power(wrapped(x, out), y, out)
        else:
            k.power(x, y, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        x, y = self.operands(node, saved)
        by_x = by_y = None
        if node.needs_grad[0]:
            # x ** (y - 1) is infinite at x = 0 for y = 0, where the derivative is 0.
            less = (
                do(where, do(eq, y, 0), 1.0, do(sub, y, 1)) if not isinstance(y, SCALARS) else (y - 1 if y != 0 else 1)
            )
            by_x = do(mul, grad, do(mul, do(pow, x, less), y))
        if node.needs_grad[1]:
            logarithm = _logarithm(x) if isinstance(x, SCALARS) else do(log, self._base(do, x, y))
            by_y = do(mul, grad, do(mul, saved[2], logarithm))
        return self.folded(do, node, (by_x, by_y))

    @staticmethod
    def _base(do: Do, x: Any, y: Any) -> Any:
        """``x``, with 1 in place of 0 where ``0 ** y`` is constant: its logarithm must not make NaN of it."""
        constant = do(eq, x, 0)
        if y is not None and getattr(y, "dtype", BOOL).kind != "c":
            constant = do(logical_and, constant, do(ge, y, 0))
        return do(where, constant, 1.0, x)


def _logarithm(x: complex) -> complex:
    """The logarithm of a number, 0 of 0."""
    with np.errstate(invalid="ignore"):
        return np.log(x if x != 0 else 1.0).item()  # type: ignore[no-any-return]


class Eq(Comparison):
    """``x == y``."""

    name = "eq"
    ufunc = np.equal


class Ne(Comparison):
    """``x != y``."""

    name = "ne"
    ufunc = np.not_equal


class _Order(Comparison):
    """A question of order, which complex numbers don't have."""

    takes_complex = False


class Lt(_Order):
    """``x < y``."""

    name = "lt"
    ufunc = np.less


class Le(_Order):
    """``x <= y``."""

    name = "le"
    ufunc = np.less_equal


class Gt(_Order):
    """``x > y``."""

    name = "gt"
    ufunc = np.greater


class Ge(_Order):
    """``x >= y``."""

    name = "ge"
    ufunc = np.greater_equal


class Neg(Unary):
    """``-x``."""

    name = "neg"
    ufunc = np.negative
    to_float = False

    def infer(self, x: Any) -> tuple[Spec, ...]:
        if x.dtype == bool:
            raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported; use x == 0")
        return super().infer(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(neg, grads[0]),)


class Sloped(Unary):
    """An op whose gradient is multiplied with a function of the one value that it saves."""

    complex_saved: str | None = "conjugated"

    def slope(self, do: Do, saved: Any) -> Any:
        """The derivative, from what was saved."""
        raise NotImplementedError(f"the derivative of {self.name} is not implemented")

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], self.slope(do, saved[0])),)


class Exp(Sloped):
    """The exponential."""

    name = "exp"
    ufunc = np.exp
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return saved


class Log(Unary):
    """The natural logarithm."""

    name = "log"
    ufunc = np.log
    saves = (SELF,)
    complex_saved = "conjugated"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], saved[0]),)


class Sqrt(Unary):
    """The square root."""

    name = "sqrt"
    ufunc = np.sqrt
    saves = (RESULT,)
    complex_saved = "conjugated"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(mul, saved[0], 2.0)),)


class Square(Sloped):
    """The square."""

    name = "square"
    ufunc = np.square
    to_float = False
    saves = (SELF,)

    def met(self, x: Any) -> Any:
        return to_dtype(x, np.dtype(np.int64)) if x._array.dtype == BOOL else x

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, np.dtype(np.int64) if x.dtype == BOOL else x.dtype),)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, saved, 2.0)


class Reciprocal(Sloped):
    """``1 / x``."""

    name = "reciprocal"
    ufunc = np.reciprocal
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(neg, do(mul, saved, saved))


class Rsqrt(Sloped):
    """``1 / sqrt(x)``."""

    name = "rsqrt"
    saves = (RESULT,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(mul, do(mul, do(mul, saved, saved), saved), -0.5)


class Sin(Sloped):
    """The sine."""

    name = "sin"
    ufunc = np.sin
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(cos, saved)


class Cos(Sloped):
    """The cosine."""

    name = "cos"
    ufunc = np.cos
    saves = (SELF,)

    def slope(self, do: Do, saved: Any) -> Any:
        return do(neg, do(sin, saved))


class Abs(Marking):
    """The absolute value: two bits an element are kept; of complex numbers it is `ComplexAbs`."""

    name = "abs"
    auxiliary = 2
    saves = (Slot("mask", 1, output=True), Slot("other_mask", 2, output=True))
    flat = True
    small = staticmethod(np.absolute)

    def small_marked(self, x: Any) -> tuple[Any, ...]:
        return np.absolute(x, order="C"), np.packbits(np.greater(x, 0)), np.packbits(np.less(x, 0))

    def __call__(self, x: Any) -> Any:
        return complex_abs(x) if x._array.dtype.kind == "c" else self.applied(x)

    def run_arrays(self, device: Any, *args: Any) -> Any:
        return complex_abs.run_arrays(device, *args) if args[0].dtype.kind == "c" else super().run_arrays(device, *args)

    def infer(self, x: Any) -> tuple[Spec, ...]:
        check_lowest("abs", x.dtype, 1)
        return (x.shape, real_dtype(x.dtype)), bits_of(x.shape), bits_of(x.shape)

    def kernel(self, k: Any, x: Any, out: Any, *masks: Any) -> None:
        for mask, relation in zip(masks, ("greater", "less"), strict=False):
            k.mark(x, 0, mask, shape=out.shape, relation=relation)
        k.abs(x, out)

    def attrs(self, x: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(turn_marked, grads[0], *saved),)


class ComplexAbs(Unary):
    """The sizes of complex numbers."""

    name = "complex_abs"
    saves = (SELF,)
    complex_saved = "plain"

    def __init__(self) -> None:
        super().__init__()
        self.node_name = "AbsBackward0"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, real_dtype(x.dtype)),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.abs(x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(sgn, saved[0])),)


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of complex numbers; other dtypes are their own."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


class Sign(Unary):
    """-1, 0 or 1; 0 for NaN."""

    name = "sign"
    to_float = False
    takes_complex = False

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        (k.copy if x.dtype == bool else k.sign)(x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_like, grads[0]),)


class Sgn(Unary):
    """``x / abs(x)`` or 0 of complex numbers; of real ones it is `Sign`."""

    name = "sgn"
    ufunc = np.sign
    to_float = False
    complex_saved = "plain"
    saves = (SELF,)

    def __call__(self, x: Any) -> Any:
        return super().__call__(x) if x._array.dtype.kind == "c" else sign(x)

    def run_arrays(self, device: Any, *args: Any) -> Any:
        return super().run_arrays(device, *args) if args[0].dtype.kind == "c" else sign.run_arrays(device, *args)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        # What of the gradient is across x: the unit keeps its length.
        (x,) = saved
        size, unit = do(abs, x), do(sgn, x)
        turned_unit, turned_grad = do(mul, unit, -1j), do(mul, grads[0], -1j)
        real = [do(to_dtype, value, size.dtype) for value in (unit, grads[0], turned_unit, turned_grad)]
        along = do(add, do(mul, real[0], real[1]), do(mul, real[2], real[3]))
        zero = do(eq, size, 0)
        across = do(div, do(sub, grads[0], do(mul, unit, along)), do(where, zero, 1.0, size))
        return (do(where, zero, 0.0, across),)


class Where(Choice):
    """Elements of ``x`` where a condition holds, of ``y`` elsewhere."""

    name = "where"
    inputs = 3
    saves = (Slot("condition", 0),)

    def general(self, condition: Any, x: Any, y: Any) -> Any:
        if getattr(condition, "_array", None) is None or condition._array.dtype != bool:
            raise RuntimeError("where: expected a bool tensor as condition")
        x, y = number(x), number(y)
        dtype = self._dtype(getattr(x, "_array", x), getattr(y, "_array", y))
        x, y = (to_dtype(v, dtype) if isinstance(v, Variable) and v._array.dtype != dtype else v for v in (x, y))
        return apply(self, condition, x, y)

    def infer(self, condition: Any, x: Any, y: Any) -> tuple[Spec, ...]:
        shape = broadcast_shapes(self.name, condition.shape, np.shape(x), np.shape(y))
        return ((shape, self._dtype(x, y)),)

    def _dtype(self, x: Any, y: Any) -> np.dtype[Any]:
        if isinstance(x, SCALARS) and isinstance(y, SCALARS):
            x = np.empty(1, result_dtype(np.empty(1, BOOL), x))
        return result_dtype(x, y)

    def kernel(self, k: Any, condition: Any, x: Any, y: Any, out: Any) -> None:
        k.where(condition, wrapped(x, out), wrapped(y, out), out)

    def attrs(self, condition: Any, x: Any, y: Any) -> Any:
        return np.shape(x), np.shape(y)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        (condition,) = saved
        _, need_x, need_y = node.needs_grad
        by_x = reduced(do, do(where, condition, grad, 0.0), node.op_attrs[0]) if need_x else None
        by_y = reduced(do, do(where, condition, 0.0, grad), node.op_attrs[1]) if need_y else None
        return None, by_x, by_y


add = Add()
sub = Sub()
mul = Mul()
div = Div()
pow = Pow()
eq = Eq()
ne = Ne()
lt = Lt()
le = Le()
gt = Gt()
ge = Ge()
neg = Neg()
exp = Exp()
log = Log()
sqrt = Sqrt()
square = Square()
reciprocal = Reciprocal()
rsqrt = Rsqrt()
sin = Sin()
cos = Cos()
abs = Abs()
complex_abs = ComplexAbs()
sign = Sign()
sgn = Sgn()
where = Where()
