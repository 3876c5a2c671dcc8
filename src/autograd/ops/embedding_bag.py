"""Sums and maxima of rows of a table, bag by bag."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .elementwise import div, ge, mul, where
from .embedding import check_indices, index_counts
from .promotion import check_floating
from .reduce import sum as sum_of
from .scatter import gather_along_backward
from .shape import gather, gather_backward, reshape

_INT64 = np.dtype(np.int64)


class EmbeddingBag(Op):
    """The sum of rows of a table over each bag, times their factors.

    Called with the indices of all bags (n,), the table (rows, columns), where the bags start (bags + 1,), factors (n,)
    or None, and ``by_frequency`` as for `Embedding`.
    """

    name = "embedding_bag"
    inputs = 4
    saves = (
        Slot("indices", 0),
        Slot("weight", 1, needed_for=(3,)),
        Slot("offsets", 2),
        Slot("per_sample_weights", 3),
    )

    def __call__(self, indices: Any, weight: Any, starts: Any, factors: Any = None, by_frequency: bool = False) -> Any:
        return apply(self, indices, weight, starts, factors, by_frequency)

    def infer(self, indices: Any, weight: Any, starts: Any, factors: Any, by_frequency: bool) -> tuple[Spec, ...]:
        check_indices(self.name, indices, weight)
        check_floating(self.name, weight.dtype)
        if factors is not None and factors.dtype != weight.dtype:
            raise RuntimeError(
                f"embedding_bag: expected per_sample_weights of the table's dtype {weight.dtype}, got {factors.dtype}"
            )
        return (((starts.size - 1, weight.shape[1]), weight.dtype),)

    def kernel(self, k: Any, indices: Any, weight: Any, starts: Any, factors: Any, *rest: Any) -> None:
        k.embedding_bag(weight, indices, starts, factors, rest[-1])

    def attrs(self, indices: Any, weight: Any, starts: Any, factors: Any, by_frequency: bool) -> Any:
        return weight.shape, by_frequency

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(embedding_bag_backward, grads[0], *saved, *node.op_attrs, node.needs_grad)
        by_weight, by_factors = (g if node.needs_grad[n] else None for g, n in zip(results, (1, 3), strict=True))
        return None, by_weight, None, by_factors

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        indices, weight, starts, factors = saved
        shape, by_frequency = node.op_attrs
        grad = grads[0]
        rows = bag_rows(starts, indices)
        upstream = gather(grad, rows)
        by_weight = by_factors = None
        if node.needs_grad[1]:
            each = upstream if factors is None else mul(upstream, reshape(factors, (-1, 1)))
            if by_frequency:
                counts = index_counts(indices, shape[0], each._array.dtype)
                each = div(each, reshape(gather(counts, indices), (-1, 1)))
            by_weight = gather_backward(each, indices, shape)
        if node.needs_grad[3]:
            by_factors = sum_of(mul(upstream, gather(weight, indices)), (1,), False)
        return None, by_weight, None, by_factors


class EmbeddingBagBackward(Op):
    """The fused gradients of table and factors; what is not needed is empty."""

    name = "embedding_bag_backward"
    inputs = 5
    outputs = 2
    auxiliary = 1

    def infer(self, grad: Any, indices: Any, *rest: Any) -> tuple[Spec, ...]:
        shape, _, needs = rest[-3:]
        by_weight = shape if needs[1] else (0,)
        by_factors = indices.shape if needs[3] else (0,)
        return (by_weight, grad.dtype), (by_factors, grad.dtype), (indices.shape, _INT64)

    def kernel(self, k: Any, grad: Any, indices: Any, weight: Any, starts: Any, factors: Any, *rest: Any) -> None:
        _, by_frequency, needs, by_weight, by_factors, rows = rest
        k.rows_of_bags(starts, rows)
        if needs[1]:
            options = {"by_frequency": by_frequency, "rows": rows, "factors": factors}
            k.embedding_backward(grad, indices, by_weight, **options)
        if needs[3]:
            k.embedding_bag_factors_backward(grad, weight, indices, rows, by_factors)


class BagRows(Op):
    """The bag of each index; without a derivative."""

    name = "bag_rows"
    inputs = 2
    differentiable = False

    def infer(self, starts: Any, indices: Any) -> tuple[Spec, ...]:
        return ((indices.shape, _INT64),)

    def kernel(self, k: Any, starts: Any, indices: Any, out: Any) -> None:
        k.rows_of_bags(starts, out)


class EmbeddingBagMax(Op):
    """The maximum of rows of a table over each bag, 0 for an empty one; where it was found is saved.

    Called with the indices of all bags, the table, where the bags start, and the row that does not count, or None.
    """

    name = "embedding_bag_max"
    inputs = 3
    auxiliary = 1
    saves = (Slot("max_indices", 1, output=True),)

    def __call__(self, indices: Any, weight: Any, starts: Any, padding: int | None = None) -> Any:
        return apply(self, indices, weight, starts, padding)

    def infer(self, indices: Any, weight: Any, starts: Any, padding: int | None) -> tuple[Spec, ...]:
        check_indices("embedding_bag", indices, weight)
        shape = (starts.size - 1, weight.shape[1])
        return (shape, weight.dtype), (shape, _INT64)

    def kernel(self, k: Any, indices: Any, weight: Any, starts: Any, padding: int | None, *outs: Any) -> None:
        k.embedding_bag_max(weight, indices, starts, *outs, padding_idx=padding)

    def attrs(self, indices: Any, weight: Any, starts: Any, padding: int | None) -> Any:
        return weight.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        found = do(ge, saved[0], 0)
        grad = do(where, found, grads[0], 0.0)
        rows = do(where, found, saved[0], 0)
        return None, do(gather_along_backward, grad, rows, 0, node.op_attrs), None


embedding_bag = EmbeddingBag()
embedding_bag_backward = EmbeddingBagBackward()
bag_rows = BagRows()
embedding_bag_max = EmbeddingBagMax()
