"""The larger and the smaller of two, and values held between bounds: a bit or two an element are kept for backward."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..dispatch import SCALARS
from ..record import Do, Slot, Spec, broadcast_shapes
from ..variable import Variable
from .cast import to_dtype
from .marks import Marking, MarkingBinary, bits_of, keep_marked, share_marked
from .pointwise import number
from .promotion import category, result_dtype
from .sum_to import reduced


class _Extreme(MarkingBinary):
    """The larger or smaller operand; where they are equal, each gets half of the gradient."""

    auxiliary = 2
    saves = (Slot("mask", 1, output=True), Slot("other_mask", 2, output=True))

    def small_marked(self, x: Any, y: Any) -> tuple[Any, ...] | None:
        if type(y) is not np.ndarray or y.shape != x.shape or y.dtype is not x.dtype:
            return None
        out, less, greater = self.small(x, y, order="C"), np.less(x, y), np.greater(x, y)
        marks = [np.packbits(np.logical_not(loses, loses)) for loses in (less, greater)]
        return (out, *marks) if self.ufunc is np.maximum else (out, *marks[::-1])

    def kernel(self, k: Any, x: Any, y: Any, out: Any, *masks: Any) -> None:
        if masks:
            losing = ("not_less", "not_greater")
            for mask, relation in zip(masks, losing if self.ufunc is np.maximum else losing[::-1], strict=True):
                k.mark(x, y, mask, shape=out.shape, relation=relation)
        super().kernel(k, x, y, out)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        mask, other_mask = operands
        need_x, need_y = node.needs_grad
        by_x = do(share_marked, grad, mask, other_mask) if need_x else None
        return by_x, do(share_marked, grad, other_mask, mask) if need_y else None


class Maximum(_Extreme):
    """The larger of two; NaN if one is."""

    name = "maximum"
    ufunc = np.maximum


class Minimum(_Extreme):
    """The smaller of two; NaN if one is."""

    name = "minimum"
    ufunc = np.minimum


class _Preferred(MarkingBinary):
    """The larger or smaller operand, or the one that is not NaN; of equal ones, the first gets the gradient."""

    def kernel(self, k: Any, x: Any, y: Any, out: Any, *masks: Any) -> None:
        if masks:
            relation = "greater_equal" if self.ufunc is np.fmax else "less_equal"
            k.mark(x, y, masks[0], shape=out.shape, relation=relation, or_nan=True)
        super().kernel(k, x, y, out)

    def partials(self, do: Do, node: Any, operands: Any, grad: Any) -> tuple[Any, Any]:
        (mask,) = operands
        need_x, need_y = node.needs_grad
        by_x = do(keep_marked, grad, mask) if need_x else None
        return by_x, do(keep_marked, grad, mask, True) if need_y else None


class Fmax(_Preferred):
    """The larger of two, of those that aren't NaN."""

    name = "fmax"
    ufunc = np.fmax


class Fmin(_Preferred):
    """The smaller of two, of those that aren't NaN."""

    name = "fmin"
    ufunc = np.fmin


class Clamp(Marking):
    """Elements held between two numbers, of which one may be None; at a bound the gradient still passes."""

    name = "clamp"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)

    def __call__(self, x: Any, low: Any, high: Any) -> Any:
        low, high = number(low), number(high)
        for bound in (low, high):
            if bound is not None and not isinstance(bound, SCALARS):
                raise TypeError(f"clamp: expected numbers as min and max, got {type(bound).__name__}")
        if low is None and high is None:
            raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
        dtype = self._dtype(x._array, low, high)
        return self.applied(x if x._array.dtype == dtype else to_dtype(x, dtype), low, high)

    def small_marked(self, x: Any, low: Any, high: Any) -> tuple[Any, ...]:
        out = np.clip(x, low, high, order="C")
        keep = np.less_equal(x, np.inf if high is None else high)
        if low is not None:
            np.logical_and(keep, np.greater_equal(x, low), keep)
        return out, np.packbits(keep)

    def _dtype(self, x: Any, low: Any, high: Any) -> np.dtype[Any]:
        dtype = x.dtype
        for bound in (low, high):
            if bound is not None and (dtype.kind != "f" or type(bound) not in (int, float)):
                dtype = result_dtype(np.empty(1, dtype), bound)
        if dtype.kind == "c":
            raise NotImplementedError("clamp is not supported for complex types")
        return dtype  # type: ignore[no-any-return]

    def infer(self, x: Any, low: Any, high: Any) -> tuple[Spec, ...]:
        return (x.shape, self._dtype(x, low, high)), bits_of(x.shape)

    def kernel(self, k: Any, x: Any, low: Any, high: Any, out: Any, *masks: Any) -> None:
        if masks:
            k.mark_inside(x, masks[0], low=low, high=high)
        k.clamp(x, out, low=low, high=high)

    def attrs(self, x: Any, *bounds: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(keep_marked, grads[0], saved[0]),)


class ClampBetween(Marking):
    """Elements held between those of two tensors that broadcast, of which one may be None."""

    name = "clamp_between"
    inputs = 3
    auxiliary = 2
    saves = (Slot("mask", 1, output=True), Slot("other_mask", 2, output=True))

    def __init__(self) -> None:
        super().__init__()
        self.node_name = "ClampBackward1"

    def __call__(self, x: Any, low: Any, high: Any) -> Any:
        dtype = self._dtype(*[getattr(value, "_array", value) for value in (x, low, high)])
        given = (x, low, high)
        met = (to_dtype(v, dtype) if isinstance(v, Variable) and v._array.dtype != dtype else v for v in given)
        return self.applied(*met)

    def _dtype(self, x: Any, low: Any, high: Any) -> np.dtype[Any]:
        found = x
        for bound in (low, high):
            if bound is not None:
                dims = max(len(np.shape(found)), len(np.shape(bound)))
                found = np.empty((1,) * dims, result_dtype(found, bound))
        if found.dtype.kind == "c":
            raise NotImplementedError("clamp is not supported for complex types")
        return found.dtype  # type: ignore[no-any-return]

    def infer(self, x: Any, low: Any, high: Any) -> tuple[Spec, ...]:
        shape = broadcast_shapes("clamp", *[np.shape(value) for value in (x, low, high) if value is not None])
        return (shape, self._dtype(x, low, high)), bits_of(shape), bits_of(shape)

    def kernel(self, k: Any, x: Any, low: Any, high: Any, out: Any, *masks: Any) -> None:
        if masks:
            k.mark_between(x, low, high, *masks, shape=out.shape)
        if low is not None:
            k.maximum(x, low, out)
        if high is not None:
            k.minimum(x if low is None else out, high, out)

    def attrs(self, x: Any, low: Any, high: Any) -> Any:
        return np.shape(x), np.shape(low), np.shape(high)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        kept, by_low = saved
        found: list[Any] = []
        for position, (first, second) in enumerate(((False, True), (True, False), (True, True))):
            if not node.needs_grad[position]:
                found.append(None)
                continue
            part = do(keep_marked, do(keep_marked, grads[0], kept, first), by_low, second)
            found.append(reduced(do, part, node.op_attrs[position]))
        return tuple(found)


class NanToNum(Marking):
    """Elements with NaN and infinities replaced by numbers; None stands for 0 and the largest finite numbers."""

    name = "nan_to_num"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)

    def __call__(self, x: Any, nan: float | None, posinf: float | None, neginf: float | None) -> Any:
        return self.applied(x, nan, posinf, neginf)

    def infer(self, x: Any, *numbers: Any) -> tuple[Spec, ...]:
        if x.dtype.kind == "c":
            raise NotImplementedError("nan_to_num: not implemented for complex numbers; apply it to real and imag")
        return (x.shape, x.dtype), bits_of(x.shape)

    def kernel(self, k: Any, x: Any, nan: Any, posinf: Any, neginf: Any, out: Any, *masks: Any) -> None:
        if masks:
            k.mark_finite(x, masks[0])
        if category(x.dtype) < 2:
            k.copy(x, out)
        else:
            most = float(ml_dtypes.finfo(x.dtype).max)  # type: ignore[no-untyped-call]
            numbers = (0.0 if nan is None else nan, most if posinf is None else posinf)
            k.nan_to_num(x, out, nan=numbers[0], posinf=numbers[1], neginf=-most if neginf is None else neginf)

    def attrs(self, x: Any, *numbers: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(keep_marked, grads[0], saved[0]),)


maximum = Maximum()
minimum = Minimum()
fmax = Fmax()
fmin = Fmin()
clamp = Clamp()
clamp_between = ClampBetween()
nan_to_num = NanToNum()
