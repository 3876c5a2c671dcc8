"""Arithmetic on three operands, or with two results, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import SCALARS, Op, apply
from ..record import Do, Slot, Spec, broadcast_shapes
from ..variable import Variable
from .cast import to_dtype
from .elementwise import div, mul, neg, pow, sub
from .pointwise import check_lowest, number
from .promotion import category, result_dtype
from .sum_to import reduced


class _Ternary(Op):
    """An op on three operands that broadcast; the last may be a number."""

    inputs = 3
    fresh = False
    complex_saved = "conjugated"

    def __call__(self, *operands_and_attrs: Any) -> Any:
        operands, attrs = operands_and_attrs[:3], operands_and_attrs[3:]
        dtype = self._dtype(*[getattr(value, "_array", value) for value in operands])
        met = [to_dtype(v, dtype) if isinstance(v, Variable) and v._array.dtype != dtype else v for v in operands]
        return apply(self, *met, *attrs)

    def _dtype(self, *operands: Any) -> np.dtype[Any]:
        found = operands[0]
        for other in operands[1:]:
            dims = max(len(np.shape(found)), len(np.shape(other)))
            found = np.empty((1,) * dims, result_dtype(found, other))
        return found.dtype  # type: ignore[no-any-return]

    def infer(self, *operands_and_attrs: Any) -> tuple[Spec, ...]:
        operands = operands_and_attrs[:3]
        return ((broadcast_shapes(self.name, *map(np.shape, operands)), self._dtype(*operands)),)

    def attrs(self, *operands_and_attrs: Any) -> Any:
        """The shapes of the operands, the last of them if it is a number, and the attributes."""
        operands = operands_and_attrs[:3]
        last = operands[2] if isinstance(operands[2], SCALARS) else None
        return (*map(np.shape, operands), last, *operands_and_attrs[3:])

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        partials = self.partials(do, node, saved, grads[0])
        shapes = node.op_attrs[:3]
        return tuple(None if g is None else reduced(do, g, shape) for g, shape in zip(partials, shapes, strict=True))

    def partials(self, do: Do, node: Any, saved: Any, grad: Any) -> tuple[Any, ...]:
        """The gradients before broadcasting is undone."""
        raise NotImplementedError


class Addcmul(_Ternary):
    """``x + value * y * z``."""

    name = "addcmul"
    saves = (Slot("tensor1", 1, needed_for=(2,)), Slot("tensor2", 2, needed_for=(1,)))

    def kernel(self, k: Any, x: Any, y: Any, z: Any, value: Any, out: Any) -> None:
        k.addcmul(x, y, z, out, value=value)

    def partials(self, do: Do, node: Any, saved: Any, grad: Any) -> tuple[Any, ...]:
        y, z = saved
        value = number(node.op_attrs[4]).conjugate()
        need_x, need_y, need_z = node.needs_grad
        scaled = grad if value == 1 else do(mul, grad, value)
        by_y = do(mul, scaled, z) if need_y else None
        return grad if need_x else None, by_y, do(mul, scaled, y) if need_z else None


class Addcdiv(_Ternary):
    """``x + value * y / z``."""

    name = "addcdiv"
    saves = (Slot("tensor1", 1, needed_for=(2,)), Slot("tensor2", 2, needed_for=(1, 2)))

    def infer(self, *operands_and_attrs: Any) -> tuple[Spec, ...]:
        _, y, z, _ = operands_and_attrs
        if category(y.dtype) < 2 and category(z.dtype) < 2:
            raise RuntimeError("addcdiv: integers are not divided; convert tensor1 or tensor2 to a float dtype")
        return super().infer(*operands_and_attrs)

    def kernel(self, k: Any, x: Any, y: Any, z: Any, value: Any, out: Any) -> None:
        k.addcdiv(x, y, z, out, value=value)

    def __call__(self, *operands_and_attrs: Any) -> Any:
        self.infer(*[getattr(value, "_array", value) for value in operands_and_attrs])  # before integers are cast
        return super().__call__(*operands_and_attrs)

    def partials(self, do: Do, node: Any, saved: Any, grad: Any) -> tuple[Any, ...]:
        y, z = saved
        value = number(node.op_attrs[4]).conjugate()
        need_x, need_y, need_z = node.needs_grad
        by_y = by_z = None
        if need_y or need_z:
            by_y = do(div, grad if value == 1 else do(mul, grad, value), z)
        if need_z:
            by_z = do(neg, do(mul, by_y, do(div, y, z)))
        return grad if need_x else None, by_y if need_y else None, by_z


class Lerp(_Ternary):
    """``x + weight * (y - x)``, exact at both ends."""

    name = "lerp"
    saves = (Slot("self", 0, needed_for=(2,)), Slot("end", 1, needed_for=(2,)), Slot("weight", 2, needed_for=(0, 1)))

    def _dtype(self, *operands: Any) -> np.dtype[Any]:
        x, end, weight = operands
        for name, value in (("end", end), ("weight", weight)):
            free = isinstance(value, SCALARS) or (name == "weight" and value.ndim == 0)
            if not free and value.dtype != x.dtype:
                raise RuntimeError(f"lerp: expected dtype {x.dtype} for `{name}` but got dtype {value.dtype}")
        check_lowest("lerp", x.dtype, 2)
        return x.dtype  # type: ignore[no-any-return]

    def kernel(self, k: Any, x: Any, end: Any, weight: Any, out: Any) -> None:
        k.lerp(x, end, weight, out)

    def number(self, node: Any, slot: Slot) -> Any:
        return node.op_attrs[3] if slot.position == 2 else None

    def partials(self, do: Do, node: Any, saved: Any, grad: Any) -> tuple[Any, ...]:
        x, end, weight = saved
        if weight is None and node.op_attrs[3] is not None:
            weight = node.op_attrs[3].conjugate()
        need_x, need_end, need_weight = node.needs_grad
        less = 1 - weight if isinstance(weight, SCALARS) else None if weight is None else do(sub, 1.0, weight)
        by_x = do(mul, grad, less) if need_x else None
        by_end = do(mul, grad, weight) if need_end else None
        return by_x, by_end, do(mul, grad, do(sub, end, x)) if need_weight else None


class Frexp(Op):
    """Mantissas, of sizes from 0.5 to 1, and exponents of two."""

    name = "frexp"
    outputs = 2
    saves = (Slot("exponent", 1, output=True),)

    def infer(self, x: Any) -> tuple[Spec, ...]:
        if category(x.dtype) != 2:
            raise RuntimeError(f"frexp: only implemented for floating-point dtypes, got {x.dtype}")
        return (x.shape, x.dtype), (x.shape, np.dtype(np.int32))

    def kernel(self, k: Any, x: Any, mantissa: Any, exponent: Any) -> None:
        k.frexp(x, mantissa, exponent)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        if grads[0] is None:
            return (None,)
        return (do(div, grads[0], do(pow, 2.0, do(to_dtype, saved[0], grads[0].dtype))),)


addcmul = Addcmul()
addcdiv = Addcdiv()
lerp = Lerp()
frexp = Frexp()
