"""What ops on each element by itself have in common: operands that meet in a dtype and a shape, and one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...memory import CPU, Device
from ..dispatch import FLOAT32, FLOAT64, SCALARS, Op, apply, small_binary, small_unary
from ..protocols import constant
from ..record import Do, Slot, Spec, broadcast_shapes
from ..variable import Variable
from ..whole import WholeOp
from .cast import to_dtype
from .promotion import category, get_default_dtype, result_dtype
from .sum_to import reduced

SELF = Slot("self", 0)
OTHER = Slot("other", 1)
RESULT = Slot("result", 0, output=True)
BOOL = np.dtype(bool)
_PLAIN = (Variable, *SCALARS)
_KINDS = ("bool", "integers and bool", "real numbers")


def number(value: Any) -> Any:
    """A Python number for a NumPy scalar, which would widen the result otherwise; a constant tensor for an array."""
    if isinstance(value, _PLAIN):
        return value
    return value.item() if isinstance(value, np.generic) else constant(value)


def check_lowest(name: str, dtype: np.dtype[Any], lowest: int) -> None:
    """Raise NotImplementedError (a RuntimeError), as PyTorch does, for a dtype of a category below the lowest."""
    if category(dtype) < lowest:
        raise NotImplementedError(f"{name}: not implemented for {_KINDS[lowest - 1]}, got {dtype}; convert it first")


def is_number(value: Any) -> bool:
    """Whether an operand is a Python number."""
    return isinstance(value, SCALARS)


def wrapped(value: Any, array: Any) -> Any:
    """A Python integer as an array of unsigned ones would hold it, -1 as the largest; anything else as it is."""
    dtype = array.dtype
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value % (1 << 8 * dtype.itemsize) if whole and dtype.kind == "u" else value


def is_plain(op: Op, family: type[Op]) -> bool:
    """Whether an op is like its family: one kernel, one result in the shape and dtype of its floats."""
    cls: Any = type(op)
    inherited = all(getattr(cls, name) is getattr(family, name) for name in ("infer", "kernel", "workspace"))
    return inherited and op.outputs == 1 and not op.auxiliary


class Binary(WholeOp):
    """An op on two operands that broadcast; either may be a Python number.

    Attributes:
        ufunc: NumPy's function, after which the kernel is called; None where the kernel is called like the op.
        to_float: whether the operands become floats: true division, functions of real numbers.
        lowest: the lowest category of dtypes that it takes: 1 refuses bool, 2 refuses integers too.
        takes_complex: whether it takes complex numbers.
    """

    inputs = 2
    ufunc: np.ufunc | None = None
    to_float = False
    lowest = 0
    takes_complex = True

    def __init__(self) -> None:
        super().__init__()
        self.small = self.small or self.ufunc
        self.kernel_name = self.name if self.ufunc is None else self.ufunc.__name__
        self.plain = is_plain(self, Binary)

    def __call__(self, x: Any, y: Any) -> Any:
        out = None
        if self.small is not None:
            try:
                out = small_binary(self, x, y)
            except AttributeError:  # one of them is a number
                out = None
        if out is None and self.plain:
            out = self.whole(x, y)
        return apply(self, *self._met(number(x), number(y))) if out is None else out

    def run_arrays(self, device: Device, *args: Any) -> Any:
        found = self.computed("temporary", *args) if self.plain and device is CPU else None
        return super().run_arrays(device, *args) if found is None else found[0]

    def _met(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The operands in the dtype where they meet."""
        dtype = self._dtype(getattr(x, "_array", x), getattr(y, "_array", y))
        return tuple(to_dtype(v, dtype) if isinstance(v, Variable) and v._array.dtype != dtype else v for v in (x, y))

    def _dtype(self, x: Any, y: Any) -> np.dtype[Any]:
        for plain in (FLOAT32, FLOAT64):
            if getattr(x, "dtype", None) is plain and getattr(y, "dtype", None) is plain:
                return plain  # type: ignore[no-any-return]  # a constant of another module, typed Any there
        for value in (x, y):
            if not hasattr(value, "dtype") and not isinstance(value, SCALARS):
                raise TypeError(f"{self.name}: expected Tensors or numbers, got {type(value).__name__}")
        dtype = result_dtype(x, y)
        if self.lowest:
            check_lowest(self.name, dtype, self.lowest)
        if dtype.kind == "c" and not self.takes_complex:
            raise NotImplementedError(f"{self.name}: not implemented for complex numbers")
        return get_default_dtype() if self.to_float and category(dtype) < 2 else dtype

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        shape = broadcast_shapes(self.name, np.shape(x), np.shape(y))
        return ((shape, self._dtype(x, y)),)

    def kernel(self, k: Any, x: Any, y: Any, out: Any) -> None:
        if isinstance(y, int):
            y = wrapped(y, x)
        elif isinstance(x, int):
            x = wrapped(x, y)
        getattr(k, self.kernel_name)(x, y, out)

    def attrs(self, x: Any, y: Any) -> Any:
        """The shapes of the operands and, for Python numbers, the numbers; None if none of this matters."""
        if isinstance(y, SCALARS):
            return (x.shape, (), None, y) if not isinstance(x, SCALARS) else ((), (), x, y)
        if isinstance(x, SCALARS):
            return (), y.shape, x, None
        return None if x.shape == y.shape else (x.shape, y.shape, None, None)

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
        return self.folded(do, node, partials)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        """The gradients before broadcasting is undone."""
        raise NotImplementedError(f"the derivative of {self.name} is not implemented")

    def folded(self, do: Do, node: Any, partials: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients with broadcasting undone."""
        if node.op_attrs is None:
            return partials
        shapes = node.op_attrs[:2]
        return tuple(None if g is None else reduced(do, g, shape) for g, shape in zip(partials, shapes, strict=True))


class Comparison(Binary):
    """A comparison: its result is bool and has no gradient."""

    differentiable = False

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        self._dtype(x, y)
        return ((broadcast_shapes(self.name, np.shape(x), np.shape(y)), BOOL),)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        """Zeros: of its form that writes in place into a tensor that has a history."""
        need_x, need_y = node.needs_grad
        return do(zeros_like, grad) if need_x else None, do(zeros_like, grad) if need_y else None


class Unary(WholeOp):
    """An op on one operand.

    Attributes:
        ufunc: NumPy's function, after which the kernel is called; None where the kernel is called like the op.
        to_float: whether integers and bools become floats.
        lowest: the lowest category of dtypes that it takes: 1 refuses bool, 2 refuses integers too.
        takes_complex: whether it takes complex numbers.
    """

    ufunc: np.ufunc | None = None
    to_float = True
    lowest = 0
    takes_complex = True

    def __init__(self) -> None:
        super().__init__()
        self.small = self.small or self.ufunc
        self.kernel_name = self.name if self.ufunc is None else self.ufunc.__name__
        self.plain = is_plain(self, Unary)

    def __call__(self, *args: Any) -> Any:
        out = small_unary(self, *args) if self.small is not None else None
        if out is None and self.plain and len(args) == 1:
            out = self.whole(*args)
        return apply(self, self.met(args[0]), *args[1:]) if out is None else out

    def run_arrays(self, device: Device, *args: Any) -> Any:
        found = self.computed("temporary", *args) if self.plain and device is CPU and len(args) == 1 else None
        return super().run_arrays(device, *args) if found is None else found[0]

    def met(self, x: Any) -> Any:
        """The operand, as a float if the op is one of floats."""
        return to_dtype(x, get_default_dtype()) if self.to_float and category(x._array.dtype) < 2 else x

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        x = args[0]
        self.check(x.dtype)
        return ((x.shape, x.dtype),)

    def check(self, dtype: np.dtype[Any]) -> None:
        """Raise NotImplementedError for a dtype that the op doesn't have."""
        if self.lowest:
            check_lowest(self.name, dtype, self.lowest)
        if dtype.kind == "c" and not self.takes_complex:
            raise NotImplementedError(f"{self.name}: not implemented for complex numbers")

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        getattr(k, self.kernel_name)(*args_and_outs)

    def attrs(self, *args: Any) -> Any:
        """The attribute that comes after the operand, or None."""
        return args[1] if len(args) > 1 else None


class ZerosLike(Op):
    """Zeros in the shape and dtype of a tensor: the gradient of what is constant almost everywhere."""

    name = "zeros_like"
    differentiable = False

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.fill(out, 0)


zeros_like = ZerosLike()
