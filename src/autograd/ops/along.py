"""Elements by their numbers along one dimension: what the derivatives of sorting and selecting are made of.

The indices have the tensor's number of dimensions and its sizes, but for the one dimension, and are in range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec

_INDICES = Slot("indices", 1, needed_for=(0,))


def index_dtype(size: int) -> np.dtype[Any]:
    """The smallest integer type that holds every index below ``size``."""
    return np.dtype(np.min_scalar_type(max(size - 1, 0)))


class TakeAlong(Op):
    """The elements at some indices; ``once`` says that no index comes twice in a line."""

    name = "take_along"
    inputs = 2
    saves = (_INDICES,)
    complex_saved = "plain"

    def infer(self, x: Any, indices: Any, dim: int, once: bool) -> tuple[Spec, ...]:
        return ((indices.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, indices: Any, dim: int, once: bool, out: Any) -> None:
        k.take_along(x, indices, out, axis=dim)

    def attrs(self, x: Any, indices: Any, dim: int, once: bool) -> Any:
        return x.shape, dim, once

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dim, once = node.op_attrs
        return do(put_along if once else add_along, grads[0], saved[0], shape, dim), None


class _IntoZeros(Op):
    """Zeros of a shape with values at indices."""

    inputs = 2
    saves = (_INDICES,)
    once = True

    def infer(self, values: Any, indices: Any, shape: tuple[int, ...], dim: int) -> tuple[Spec, ...]:
        return ((shape, values.dtype),)

    def kernel(self, k: Any, values: Any, indices: Any, shape: tuple[int, ...], dim: int, out: Any) -> None:
        getattr(k, self.name)(values, indices, out, axis=dim)

    def attrs(self, values: Any, indices: Any, shape: tuple[int, ...], dim: int) -> Any:
        return dim

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(take_along, grads[0], saved[0], node.op_attrs, self.once), None


class PutAlong(_IntoZeros):
    """Zeros with values written at indices; no index comes twice in a line."""

    name = "put_along"


class AddAlong(_IntoZeros):
    """Zeros with values added at indices, which never fall along a line."""

    name = "add_along"
    once = False


take_along = TakeAlong()
put_along = PutAlong()
add_along = AddAlong()
