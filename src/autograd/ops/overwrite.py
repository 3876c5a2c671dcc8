"""The derivatives of writes that leave nothing of the former value, or only some of its elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Record, Slot, Spec
from .cast import to_device, to_dtype
from .shape import gather, reshape, zeros_of
from .sum_to import reduced


class Overwrite(Record):
    """The whole tensor was filled with what has no gradient: its former value gets zeros.

    Args:
        name: PyTorch's name of the op, without the underscore.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_of, grads[0], tuple(grads[0].shape)),)


class CopyInto(Record):
    """The whole tensor was filled with another, which was broadcast, cast and moved to its device."""

    name = "copy"
    inputs = 2
    fresh = False

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        shape, dtype, device = node.op_attrs
        need_target, need_source = node.needs_grad
        former = do(zeros_of, grad, tuple(grad.shape)) if need_target else None
        if not need_source:
            return former, None
        given = reduced(do, grad, shape)
        if given.dtype != dtype:
            given = do(to_dtype, given, dtype)
        return former, given if device is node.run_device else do(to_device, given, device)


class IndexPut(Op):
    """A copy of a tensor with elements replaced: those at numbers that count along its first dimensions as one.

    Called with the tensor, the values (a tensor, or a number), the numbers, and how many dimensions they count along.
    Where a number comes twice, one of its values is taken.
    """

    name = "index_put"
    inputs = 3
    saves = (Slot("indices", 2),)

    def infer(self, x: Any, values: Any, indices: Any, dims: int) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, values: Any, indices: Any, dims: int, out: Any) -> None:
        k.copy(x, out)
        self.put(out, values, indices, dims)

    @staticmethod
    def put(array: Any, values: Any, indices: Any, dims: int) -> None:
        """Replace elements of an array."""
        key = []
        for size in reversed(array.shape[:dims]):
            key.append(indices % size)
            indices = indices // size
        array[tuple(reversed(key))] = values

    def attrs(self, x: Any, values: Any, indices: Any, dims: int) -> Any:
        return x.shape, np.shape(values), dims

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        shape, given, dims = node.op_attrs
        need_x, need_values, _ = node.needs_grad
        by_x = do(index_put, grad, 0.0, saved[0], dims) if need_x else None
        by_values = None
        if need_values:
            count = int(np.prod(shape[:dims]))
            by_values = reduced(do, do(gather, do(reshape, grad, (count, *shape[dims:])), saved[0]), given)
        return by_x, by_values, None


index_put = IndexPut()
