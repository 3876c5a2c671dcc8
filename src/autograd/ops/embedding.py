"""Rows of a table by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .elementwise import ne, where
from .shape import gather_backward, reshape


class Embedding(Op):
    """``weight[indices]``; the gradient adds only to the rows that were used, and not to the row ``padding``."""

    name = "embedding"
    inputs = 2
    saves = (Slot("indices", 0),)

    def __call__(self, indices: Any, weight: Any, padding: int | None = None) -> Any:
        return apply(self, indices, weight, padding)

    def infer(self, indices: Any, weight: Any, padding: int | None) -> tuple[Spec, ...]:
        if indices.dtype.kind not in "iu":
            raise RuntimeError(f"embedding: expected indices of an integer type, got {indices.dtype}")
        if weight.ndim != 2:
            raise RuntimeError(f"embedding: 'weight' must be 2-D, got {list(weight.shape)}")
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= weight.shape[0]):
            raise IndexError(
                f"embedding: index out of range: indices go from {int(indices.min())} to {int(indices.max())}, the"
                f" table has {weight.shape[0]} rows"
            )
        return (((*indices.shape, weight.shape[1]), weight.dtype),)

    def kernel(self, k: Any, indices: Any, weight: Any, padding: int | None, out: Any) -> None:
        k.embedding(weight, indices, out)

    def attrs(self, indices: Any, weight: Any, padding: int | None) -> Any:
        return weight.shape, padding

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return None, do(embedding_backward, grads[0], saved[0], *node.op_attrs)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (indices,) = grads, saved
        shape, padding = node.op_attrs
        if padding is not None:
            grad = do(where, do(reshape, do(ne, indices, padding), (*indices.shape, 1)), grad, 0.0)
        return None, do(gather_backward, grad, indices, shape)


class EmbeddingBackward(Op):
    """Gradients added up by row."""

    name = "embedding_backward"
    inputs = 2

    def infer(self, grad: Any, indices: Any, shape: tuple[int, ...], padding: int | None) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, indices: Any, shape: tuple[int, ...], padding: int | None, out: Any) -> None:
        k.embedding_backward(grad.reshape(-1, shape[1]), indices.reshape(-1), out, padding_idx=padding)

    def workspace(self, grad: Any, indices: Any, shape: tuple[int, ...], padding: int | None) -> int:
        """The order of the indices and the gradients in it."""
        return int(grad.nbytes + 4 * indices.size * np.dtype(np.int64).itemsize)


embedding = Embedding()
embedding_backward = EmbeddingBackward()
