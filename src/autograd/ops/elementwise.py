"""Arithmetic and elementary functions, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import SCALARS, Op, apply, small_binary, small_unary
from ..record import Do, Slot, Spec, broadcast_shapes
from ..variable import Variable
from .cast import to_dtype
from .promotion import category, default_dtype, result_dtype
from .sum_to import reduced

_BOOL = np.dtype(bool)
_SELF = Slot("self", 0)
_OTHER = Slot("other", 1)
_RESULT = Slot("result", 0, output=True)


def _number(value: Any) -> Any:
    """A Python number for a NumPy scalar, which would widen the result otherwise."""
    return value.item() if isinstance(value, np.generic) else value


class Binary(Op):
    """An op on two operands that broadcast; either may be a Python number."""

    inputs = 2
    ufunc: np.ufunc
    # Whether the operands become floats: true division, functions of real numbers.
    to_float = False

    def __init__(self) -> None:
        super().__init__()
        self.small = self.ufunc

    def __call__(self, x: Any, y: Any) -> Any:
        try:
            out = small_binary(self, x, y)
        except AttributeError:  # one of them is a number
            out = None
        return apply(self, *self._met(_number(x), _number(y))) if out is None else out

    def _met(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The operands in the dtype where they meet."""
        dtype = self._dtype(getattr(x, "_array", x), getattr(y, "_array", y))
        return tuple(to_dtype(v, dtype) if isinstance(v, Variable) and v._array.dtype != dtype else v for v in (x, y))

    def _dtype(self, x: Any, y: Any) -> np.dtype[Any]:
        for value in (x, y):
            if not hasattr(value, "dtype") and not isinstance(value, SCALARS):
                raise TypeError(f"{self.name}: expected Tensors or numbers, got {type(value).__name__}")
        dtype = result_dtype(x, y)
        return default_dtype if self.to_float and category(dtype) < 2 else dtype

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        shape = broadcast_shapes(self.name, np.shape(x), np.shape(y))
        return ((shape, self._dtype(x, y)),)

    def kernel(self, k: Any, x: Any, y: Any, out: Any) -> None:
        getattr(k, self.ufunc.__name__)(x, y, out)

    def attrs(self, x: Any, y: Any) -> Any:
        """The shapes of the operands and, for Python numbers, the numbers; None if none of this matters."""
        numbers = [v if isinstance(v, SCALARS) else None for v in (x, y)]
        if np.shape(x) == np.shape(y) and numbers == [None, None]:
            return None
        return (np.shape(x), np.shape(y), *numbers)

    def number(self, node: Any, slot: Slot) -> Any:
        return None if node.op_attrs is None or slot.output else node.op_attrs[2 + slot.position]

    def operands(self, node: Any, saved: tuple[Any, ...]) -> tuple[Any, Any]:
        """The saved operands, and Python numbers: conjugated, as gradients of complex functions need them.

        A number that was given hooks of its own comes from them.
        """
        x, y = saved[:2]
        if node.op_attrs is not None:
            x = node.op_attrs[2].conjugate() if node.op_attrs[2] is not None and x is None else x
            y = node.op_attrs[3].conjugate() if node.op_attrs[3] is not None and y is None else y
        return x, y

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        partials = self.partials(do, node, self.operands(node, saved) if self.saves else (), grads[0])
        if node.op_attrs is None:
            return partials
        shapes = node.op_attrs[:2]
        return tuple(None if g is None else reduced(do, g, shape) for g, shape in zip(partials, shapes, strict=True))

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        """The gradients before broadcasting is undone."""
        raise NotImplementedError(f"the derivative of {self.name} is not implemented")


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
        if any(isinstance(v, bool) or getattr(v, "dtype", None) == _BOOL for v in (x, y)):
            raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported; convert it first")
        return super()._dtype(x, y)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        need_x, need_y = node.needs_grad
        return grad if need_x else None, do(neg, grad) if need_y else None


class Mul(Binary):
    """``x * y``."""

    name = "mul"
    ufunc = np.multiply
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
    saves = (Slot("self", 0, needed_for=(1,)), _OTHER)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        need_x, need_y = node.needs_grad
        by_x = do(div, grad, y)
        by_y = do(neg, do(mul, by_x, do(div, x, y))) if need_y else None
        return by_x if need_x else None, by_y


class Pow(Binary):
    """``x ** y``."""

    name = "pow"
    ufunc = np.power
    saves = (_SELF, Slot("exponent", 1), Slot("result", 0, output=True, needed_for=(1,)))

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        ((shape, dtype),) = super().infer(x, y)
        if category(dtype) == 0:
            raise NotImplementedError("pow: not implemented for bool; convert the tensors first")
        if category(dtype) == 1 and bool((np.asarray(y) < 0).any() if isinstance(y, SCALARS) else (y < 0).any()):
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return ((shape, dtype),)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        raise NotImplementedError

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
            # 0 ** y is constant for y >= 0: its logarithm must not make NaN of it.
            safe = do(where, do(eq, x, 0), 1.0, x) if not isinstance(x, SCALARS) else (x if x != 0 else 1.0)
            logarithm = do(log, safe) if not isinstance(safe, SCALARS) else float(np.log(safe))
            by_y = do(mul, grad, do(mul, saved[2], logarithm))
        if node.op_attrs is None:
            return by_x, by_y
        shapes = node.op_attrs[:2]
        return tuple(
            None if g is None else reduced(do, g, shape) for g, shape in zip((by_x, by_y), shapes, strict=True)
        )


class _Extreme(Binary):
    """The larger or smaller operand; where they are equal, each gets half of the gradient."""

    saves = (_SELF, _OTHER)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        x, y = operands
        first, second = (x, y) if self.ufunc is np.maximum else (y, x)
        half = do(mul, grad, 0.5)
        tied = do(eq, x, y)
        by_x = do(where, tied, half, do(where, do(gt, first, second), grad, 0.0))
        by_y = do(where, tied, half, do(where, do(gt, second, first), grad, 0.0))
        need_x, need_y = node.needs_grad
        return by_x if need_x else None, by_y if need_y else None


class Maximum(_Extreme):
    """The larger of two."""

    name = "maximum"
    ufunc = np.maximum


class Minimum(_Extreme):
    """The smaller of two."""

    name = "minimum"
    ufunc = np.minimum


class Comparison(Binary):
    """A comparison: its result is bool and has no gradient."""

    differentiable = False

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        return ((broadcast_shapes(self.name, np.shape(x), np.shape(y)), np.dtype(bool)),)


def _comparison(name: str, ufunc: np.ufunc) -> Comparison:
    cls = type(name.capitalize(), (Comparison,), {"name": name, "ufunc": ufunc, "__doc__": f"``{name}``, elementwise."})
    made = cls()
    assert isinstance(made, Comparison)
    return made


class Unary(Op):
    """An op on one operand."""

    to_float = True

    ufunc: np.ufunc | None = None

    def __init__(self) -> None:
        super().__init__()
        self.small = self.small or self.ufunc

    def __call__(self, x: Any) -> Any:
        if self.small is not None:
            out = small_unary(self, x)
            if out is not None:
                return out
        if self.to_float and category(x._array.dtype) < 2:
            x = to_dtype(x, default_dtype)
        return apply(self, x)

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        getattr(k, self.ufunc.__name__ if self.ufunc is not None else self.name)(x, out)

    def attrs(self, x: Any) -> Any:
        return None


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


class Exp(Unary):
    """The exponential."""

    name = "exp"
    ufunc = np.exp
    saves = (_RESULT,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], saved[0]),)


class Log(Unary):
    """The natural logarithm."""

    name = "log"
    ufunc = np.log
    saves = (_SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], saved[0]),)


class Sqrt(Unary):
    """The square root."""

    name = "sqrt"
    ufunc = np.sqrt
    saves = (_RESULT,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(div, grads[0], do(mul, saved[0], 2.0)),)


class Square(Unary):
    """The square."""

    name = "square"
    ufunc = np.square
    to_float = False
    saves = (_SELF,)

    def __call__(self, x: Any) -> Any:
        return super().__call__(to_dtype(x, np.dtype(np.int64)) if x._array.dtype == bool else x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(mul, saved[0], 2.0)),)


class Reciprocal(Unary):
    """``1 / x``."""

    name = "reciprocal"
    ufunc = np.reciprocal
    saves = (_RESULT,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(neg, do(mul, grads[0], do(mul, saved[0], saved[0]))),)


class Rsqrt(Unary):
    """``1 / sqrt(x)``."""

    name = "rsqrt"
    saves = (_RESULT,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        cubed = do(mul, do(mul, saved[0], saved[0]), saved[0])
        return (do(mul, grads[0], do(mul, cubed, -0.5)),)


class Sin(Unary):
    """The sine."""

    name = "sin"
    ufunc = np.sin
    saves = (_SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(cos, saved[0])),)


class Cos(Unary):
    """The cosine."""

    name = "cos"
    ufunc = np.cos
    saves = (_SELF,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(neg, do(mul, grads[0], do(sin, saved[0]))),)


class Abs(Unary):
    """The absolute value."""

    name = "abs"
    ufunc = np.absolute
    to_float = False
    saves = (_SELF,)

    def infer(self, x: Any) -> tuple[Spec, ...]:
        if x.dtype == bool:
            raise NotImplementedError("abs: not implemented for bool; convert the tensor first")
        return super().infer(x)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.abs(x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(sign, saved[0])),)


class Sign(Unary):
    """-1, 0 or 1."""

    name = "sign"
    ufunc = np.sign
    to_float = False

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        (k.copy if x.dtype == bool else k.sign)(x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], 0.0),)


class Where(Op):
    """Elements of ``x`` where a condition holds, of ``y`` elsewhere."""

    name = "where"
    inputs = 3
    saves = (Slot("condition", 0),)

    def __call__(self, condition: Any, x: Any, y: Any) -> Any:
        if getattr(condition, "_array", None) is None or condition._array.dtype != bool:
            raise RuntimeError("where: expected a bool tensor as condition")
        x, y = _number(x), _number(y)
        if isinstance(x, SCALARS) and isinstance(y, SCALARS):
            dtype = default_dtype if isinstance(x, float) or isinstance(y, float) else np.dtype(np.int64)
        else:
            dtype = result_dtype(getattr(x, "_array", x), getattr(y, "_array", y))
        x, y = (to_dtype(v, dtype) if isinstance(v, Variable) and v._array.dtype != dtype else v for v in (x, y))
        return apply(self, condition, x, y)

    def infer(self, condition: Any, x: Any, y: Any) -> tuple[Spec, ...]:
        if isinstance(x, SCALARS) and isinstance(y, SCALARS):
            dtype = default_dtype if isinstance(x, float) or isinstance(y, float) else np.dtype(np.int64)
        else:
            dtype = result_dtype(x, y)
        return ((broadcast_shapes(self.name, condition.shape, np.shape(x), np.shape(y)), dtype),)

    def kernel(self, k: Any, condition: Any, x: Any, y: Any, out: Any) -> None:
        k.where(condition, x, y, out)

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
maximum = Maximum()
minimum = Minimum()
eq = _comparison("eq", np.equal)
ne = _comparison("ne", np.not_equal)
lt = _comparison("lt", np.less)
le = _comparison("le", np.less_equal)
gt = _comparison("gt", np.greater)
ge = _comparison("ge", np.greater_equal)
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
sign = Sign()
where = Where()
