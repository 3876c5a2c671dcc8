"""Advanced indexing by several tensors, and writing where they look.

NOTE [ Several indices ]
1. The indices are of the first dimensions of the tensor and broadcast to each other; each counts along one dimension,
   or along several as one (``covers``): the places where a mask is true.
2. A node keeps the indices as they were given. Broadcast to each other they may be far larger.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .sum_to import reduced


class _AtIndices(Op):
    """An op on some tensors and a number of indices, called with ``covers`` after them."""

    before = 1
    needed_for: tuple[int, ...] = (0,)

    def __init__(self, count: int) -> None:
        self.inputs = self.before + count
        self.count = count
        self.saves = tuple(
            Slot(f"indices{number}", self.before + number, needed_for=self.needed_for) for number in range(count)
        )
        super().__init__()


class IndexMany(_AtIndices):
    """Elements at several indices: a copy, with the dimensions that these broadcast to first."""

    name = "index_many"

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.node_name = "IndexBackward0"

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        x, *indices, covers = args
        shape = np.broadcast_shapes(*[index.shape for index in indices])
        return (((*shape, *x.shape[sum(covers) :]), x.dtype),)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        x, *indices, covers, out = args_and_outs
        k.take_at(x, indices, out, covers=covers)

    def attrs(self, *args: Any) -> Any:
        return args[-1], args[0].shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        by_x = do(index_many_backward(self.count), grads[0], *saved, *node.op_attrs)
        return by_x, *[None] * self.count


class IndexManyBackward(_AtIndices):
    """Zeros with gradients added where several indices looked."""

    name = "index_many_backward"

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        return ((args[-1], args[0].dtype),)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        grad, *indices, covers, _, out = args_and_outs
        k.fill(out, 0)
        k.add_at(out, indices, grad, covers=covers)

    def attrs(self, *args: Any) -> Any:
        return args[-2]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(index_many(self.count), grads[0], *saved, node.op_attrs), *[None] * self.count


class IndexPut(_AtIndices):
    """A copy of a tensor with the elements at several indices replaced by values, which broadcast, or by a number.

    Where a place comes twice, one of its values is taken.
    """

    name = "index_put"
    before = 2
    needed_for: tuple[int, ...] = ()

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        return ((args[0].shape, args[0].dtype),)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        x, values, *indices, covers, out = args_and_outs
        k.copy(x, out)
        self.put(k, out, values, indices, covers)

    def put(self, k: Any, array: Any, values: Any, indices: list[Any], covers: tuple[int, ...]) -> None:
        """Change elements of an array."""
        k.put_at(array, indices, values, covers=covers)

    def attrs(self, *args: Any) -> Any:
        return np.shape(args[1]), args[-1]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        by_x = do(index_put(self.count), grads[0], 0.0, *saved, node.op_attrs[1]) if node.needs_grad[0] else None
        return by_x, self.by_values(do, node, saved, grads[0]), *[None] * self.count

    def by_values(self, do: Do, node: Any, saved: tuple[Any, ...], grad: Any) -> Any:
        """The gradient of the values: that of the places where they went."""
        given, covers = node.op_attrs
        return reduced(do, do(index_many(self.count), grad, *saved, covers), given) if node.needs_grad[1] else None


class IndexPutAccumulate(IndexPut):
    """A copy of a tensor with values added; where a place comes twice, both of its values."""

    name = "index_put_accumulate"
    needed_for = (1,)
    fresh = False

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.node_name = "IndexPutBackward0"

    def put(self, k: Any, array: Any, values: Any, indices: list[Any], covers: tuple[int, ...]) -> None:
        k.add_at(array, indices, values, covers=covers)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        by_x = grads[0] if node.needs_grad[0] else None
        return by_x, self.by_values(do, node, saved, grads[0]), *[None] * self.count


index_many = functools.cache(IndexMany)
index_many_backward = functools.cache(IndexManyBackward)
index_put = functools.cache(IndexPut)
index_put_accumulate = functools.cache(IndexPutAccumulate)
