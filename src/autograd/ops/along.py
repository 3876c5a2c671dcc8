"""Elements by their numbers along one dimension: what the derivatives of sorting and selecting are made of.

The indices have the tensor's number of dimensions and its sizes, but for the one dimension, and are in range.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..dispatch import Op
from ..plain import small_result
from ..record import Do, Slot, Spec

_INDICES = Slot("indices", 1, needed_for=(0,))


@functools.lru_cache(maxsize=64)
def index_dtype(size: int) -> np.dtype[Any]:
    """The smallest integer type that holds every index below ``size``."""
    return np.dtype(np.min_scalar_type(max(size - 1, 0)))


def numbers_along(indices: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Indices along a dimension of a small array as numbers of its elements."""
    inner = math.prod(shape[dim + 1 :])
    return _first_numbers(shape, dim) + (indices if inner == 1 else np.multiply(indices, inner, dtype=np.intp))


@functools.lru_cache(maxsize=64)
def _first_numbers(shape: tuple[int, ...], dim: int) -> Any:
    """The numbers of the first elements of all lines along a dimension, which stays."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return numbers[(*[slice(None)] * dim, slice(1))].copy()


def taken(x: Any, indices: Any, dim: int) -> Any:
    """The elements of a small array at indices along a dimension, which has size 1 in them at least."""
    return np.ascontiguousarray(x).reshape(-1).take(numbers_along(indices, x.shape, dim))


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

    def small(self, values: Any, indices: Any, shape: tuple[int, ...], dim: int) -> Any:
        out = small_result((shape, values.dtype))
        if out is not None:
            out.fill(0)
            out.reshape(-1)[numbers_along(indices, shape, dim)] = values
        return out


class AddAlong(_IntoZeros):
    """Zeros with values added at indices, which never fall along a line."""

    name = "add_along"
    once = False


take_along = TakeAlong()
put_along = PutAlong()
add_along = AddAlong()
