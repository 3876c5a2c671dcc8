"""Rows of a table by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ...kernels.index_range import all_in_range
from ...memory import META
from ..dispatch import Op
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from .elementwise import div, ne, where
from .few_rows import or_none, sums_of_rows
from .shape import gather, gather_backward, reshape


def check_indices(name: str, indices: Any, weight: Any) -> None:
    """Raise what PyTorch raises for indices of a table that do not fit.

    Raises:
        RuntimeError: if they are no integers, or the table is no matrix.
        IndexError: if one is no row of the table.
    """
    if indices.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: expected indices of an integer type, got {indices.dtype}")
    if weight.ndim != 2:
        raise RuntimeError(f"{name}: 'weight' must be 2-D, got {list(weight.shape)}")
    if not all_in_range(indices, weight.shape[0]):
        raise IndexError(
            f"{name}: index out of range: indices go from {int(indices.min())} to {int(indices.max())}, the"
            f" table has {weight.shape[0]} rows"
        )


class Embedding(Op):
    """``weight[indices]``; the gradient adds only to the rows that were used, and not to the row ``padding``.

    With ``by_frequency`` the gradient of a row is divided by how often it was used.
    """

    name = "embedding"
    inputs = 2
    saves = (Slot("indices", 0),)

    def __call__(self, indices: Any, weight: Any, padding: int | None = None, by_frequency: bool = False) -> Any:
        return apply_together(self, indices, weight, padding, by_frequency)

    def infer(self, indices: Any, weight: Any, padding: int | None, by_frequency: bool) -> tuple[Spec, ...]:
        check_indices(self.name, indices, weight)
        return (((*indices.shape, weight.shape[1]), weight.dtype),)

    def kernel(self, k: Any, indices: Any, weight: Any, padding: int | None, by_frequency: bool, out: Any) -> None:
        k.embedding(weight, indices, out)

    def attrs(self, indices: Any, weight: Any, padding: int | None, by_frequency: bool) -> Any:
        return weight.shape, padding, by_frequency

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return None, do(embedding_backward, grads[0], saved[0], *node.op_attrs)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (indices,) = grads, saved
        shape, padding, by_frequency = node.op_attrs
        rows = (*indices.shape, 1)
        if padding is not None:
            grad = do(where, do(reshape, do(ne, indices, padding), rows), grad, 0.0)
        if by_frequency:
            counts = do(index_counts, indices, shape[0], grad.dtype)
            grad = do(div, grad, do(reshape, do(gather, counts, indices), rows))
        return None, do(gather_backward, grad, indices, shape)


class EmbeddingBackward(FewOp):
    """Gradients added up by row."""

    name = "embedding_backward"
    inputs = 2

    def small_marked(
        self, grad: Any, indices: Any, shape: tuple[int, ...], padding: int | None, by_frequency: bool
    ) -> tuple[Any, ...] | None:
        out = None if by_frequency else sums_of_rows(grad, indices, shape)
        if out is not None and padding is not None:
            out[padding] = 0
        return or_none(out)

    def infer(self, grad: Any, indices: Any, shape: tuple[int, ...], *attrs: Any) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, indices: Any, shape: tuple[int, ...], *rest: Any) -> None:
        padding, by_frequency, out = rest
        rows = grad.reshape(indices.size, shape[1])
        k.embedding_backward(rows, indices.reshape(-1), out, padding_idx=padding, by_frequency=by_frequency)

    def workspace(self, grad: Any, indices: Any, *attrs: Any) -> int:
        """The order of the indices and the gradients in it."""
        return int(grad.nbytes + 4 * indices.size * np.dtype(np.int64).itemsize)


class IndexCounts(Op):
    """How often each of a table's rows is named; without a derivative."""

    name = "index_counts"
    differentiable = False

    def infer(self, indices: Any, rows: int, dtype: np.dtype[Any]) -> tuple[Spec, ...]:
        return (((rows,), dtype),)

    def kernel(self, k: Any, indices: Any, rows: int, dtype: np.dtype[Any], out: Any) -> None:
        flat = indices.reshape(-1)
        ones = (flat == flat).astype(dtype)  # as many, on the same device
        k.embedding_backward(ones.reshape(-1, 1), flat, out.reshape(rows, 1))

    def workspace(self, indices: Any, rows: int, dtype: np.dtype[Any]) -> int:
        return int(indices.size * (dtype.itemsize + 5 * 8))


def renorm(indices: Any, weight: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are named down to a norm, in place; nothing is recorded."""
    check_indices("embedding", indices._array, weight._array)
    device = weight._storage.device
    if device is not META:
        kernels = backend(device.type)
        kernels.renorm_rows(weight._array, indices._array, max_norm=float(max_norm), norm_type=float(norm_type))
    weight._storage.version += 1


embedding = Embedding()
embedding_backward = EmbeddingBackward()
index_counts = IndexCounts()
