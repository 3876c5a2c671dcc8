"""Marks: bits that an op keeps in place of its operands, and the gradients that they let through.

An op whose gradient only asks which operand was taken, or whether an element was inside of bounds, keeps a bit or two
an element. Where nothing is recorded, its twin without marks runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...saved_tensors.state import current
from ..dispatch import Op, execute
from ..record import Do, Record, Slot, Spec
from ..variable import Variable
from ..whole import apply_alone, apply_together
from .pointwise import Binary, number


def bits_of(shape: tuple[int, ...]) -> Spec:
    """One bit for each element of a shape."""
    return ((int(np.prod(shape, dtype=np.int64)) + 7) // 8,), np.dtype(np.uint8)


def bools_of(bits: Any, like: Any) -> Any:
    """A mask in the shape of a small array."""
    return np.unpackbits(bits, count=like.size).view(np.bool_).reshape(like.shape)


def keep_by_bits(x: Any, bits: Any, contrary: bool = False) -> Any:
    """Elements of a small array where a bit is set (where it isn't, if ``contrary``), 0 elsewhere."""
    keep = bools_of(bits, x)
    kept = np.zeros(x.shape, x.dtype)
    np.copyto(kept, x, where=np.logical_not(keep, keep) if contrary else keep)
    return kept


class Unmarked(Op):
    """An op without its marks, and without a derivative."""

    differentiable = False

    def __init__(self, op: Record) -> None:
        self.name, self.inputs = op.name, op.inputs
        self._op = op
        super().__init__()

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        return self._op.infer(*args)[:1]

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        self._op.kernel(k, *args_and_outs)


class Marking(Op):
    """An op whose kernel fills masks after its result, if it is given them."""

    def __init__(self) -> None:
        super().__init__()
        self.unmarked = Unmarked(self)

    def applied(self, *args: Any) -> Any:
        """Run it, with marks if a gradient may be asked for."""
        state = current()
        recorded = state.grad_enabled and not state.inference
        if self.inputs == 1:
            return apply_alone(self if recorded and args[0]._requires_grad else self.unmarked, *args)
        recorded = recorded and any(isinstance(value, Variable) and value._requires_grad for value in args)
        return apply_together(self if recorded else self.unmarked, *args)

    def run_arrays(self, device: Any, *args: Any) -> Any:
        return execute(self.unmarked, device, list(args), "temporary")[0][0]


class MarkingBinary(Marking, Binary):
    """Such an op on two operands that broadcast."""

    auxiliary = 1
    saves: tuple[Slot, ...] = (Slot("mask", 1, output=True),)
    takes_complex = False

    def __call__(self, x: Any, y: Any) -> Any:
        return self.applied(*self._met(number(x), number(y)))

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        ((shape, dtype),) = super().infer(x, y)
        return ((shape, dtype), *[bits_of(shape)] * self.auxiliary)

    def attrs(self, x: Any, y: Any) -> Any:
        found = super().attrs(x, y)
        return found and found[:2]

    def number(self, node: Any, slot: Slot) -> Any:
        return None

    def operands(self, node: Any, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        return saved


class KeepMarked(Op):
    """Elements where a bit is set (where it isn't, if told the contrary), 0 elsewhere."""

    name = "keep_marked"
    inputs = 2
    saves = (Slot("mask", 1),)
    small = staticmethod(keep_by_bits)

    def infer(self, x: Any, mask: Any, contrary: bool = False) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, mask: Any, *attrs_and_out: Any) -> None:
        *attrs, out = attrs_and_out
        k.keep_marked(x, mask, out, contrary=attrs == [True])

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(keep_marked, grads[0], saved[0], *node.op_attrs), None


class ShareMarked(Op):
    """Elements where only the first mask has a bit, half of them where both have, 0 elsewhere."""

    name = "share_marked"
    inputs = 3
    saves = (Slot("mask", 1), Slot("other_mask", 2))

    def small(self, x: Any, bits: Any, other_bits: Any) -> Any:
        shared, both = keep_by_bits(x, bits), np.bitwise_and(bits, other_bits)
        if both.any():
            np.multiply(shared, 0.5, shared, where=bools_of(both, x))
        return shared

    def infer(self, x: Any, mask: Any, other_mask: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, mask: Any, other_mask: Any, out: Any) -> None:
        k.share_marked(x, mask, other_mask, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(share_marked, grads[0], *saved), None, None


class TurnMarked(Op):
    """Elements where the first mask has a bit, their negatives where the second has one, 0 elsewhere."""

    name = "turn_marked"
    inputs = 3
    saves = (Slot("mask", 1), Slot("other_mask", 2))

    def small(self, x: Any, bits: Any, other_bits: Any) -> Any:
        turned = keep_by_bits(x, bits)
        np.negative(x, turned, where=bools_of(other_bits, x))
        return turned

    def infer(self, x: Any, mask: Any, other_mask: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, mask: Any, other_mask: Any, out: Any) -> None:
        k.turn_marked(x, mask, other_mask, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(turn_marked, grads[0], *saved), None, None


keep_marked = KeepMarked()
share_marked = ShareMarked()
turn_marked = TurnMarked()
