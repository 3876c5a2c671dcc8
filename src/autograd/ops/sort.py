"""Sorting and selecting along one dimension: the values, whose derivative needs the indices only, and the indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec, normalize_dim
from ..whole import apply_alone
from .along import index_dtype, put_along, taken
from .pointwise import check_lowest
from .reduce import INT64, SharesEqually, reduced_shape
from .shape import reshape


def _length(x: Any, dim: int) -> int:
    return int(x.shape[dim]) if x.shape else 1


def _check_order(name: str, x: Any) -> None:
    if x.dtype.kind == "c":
        raise NotImplementedError(f"{name}: not implemented for {x.dtype}: complex numbers have no order")


def _order(x: Any, dim: int, descending: bool) -> Any:
    """The indices of the elements of the lines of a small array in order, equal ones as they stand."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    back = (*[slice(None)] * dim, slice(None, None, -1))
    return np.subtract(x.shape[dim] - 1, np.argsort(x[back], axis=dim, kind="stable")[back], order="C")


class _Ordered(Op):
    """Several elements of each line; their indices are kept in the smallest type that holds them."""

    outputs = 2
    auxiliary = 1
    saves = (Slot("indices", 2, output=True),)

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.shape, self.dim(*args)

    def dim(self, *args: Any) -> int:
        """The dimension, from the attributes."""
        raise NotImplementedError

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(put_along, grads[0], saved[0], *node.op_attrs),)


class Sort(_Ordered):
    """All elements in order, equal ones as they stood."""

    name = "sort"

    def __call__(self, x: Any, dim: int = -1, descending: bool = False) -> Any:
        return apply_alone(self, x, normalize_dim(self.name, dim, x._array.ndim), descending)

    def small_marked(self, x: Any, dim: int, descending: bool) -> tuple[Any, ...]:
        indices = _order(x, dim, descending)
        return taken(x, indices, dim), indices, indices.astype(index_dtype(x.shape[dim]))

    def infer(self, x: Any, dim: int, descending: bool) -> tuple[Spec, ...]:
        _check_order(self.name, x)
        return (x.shape, x.dtype), (x.shape, INT64), (x.shape, index_dtype(_length(x, dim)))

    def kernel(self, k: Any, x: Any, dim: int, descending: bool, values: Any, indices: Any, compact: Any) -> None:
        if x.size:
            k.sort(x, values, indices, axis=dim, descending=descending)
            k.copy(indices, compact)

    def dim(self, *args: Any) -> int:
        return int(args[0])


class TopK(_Ordered):
    """The largest or smallest elements."""

    name = "topk"

    def __call__(self, x: Any, k: int, dim: int = -1, largest: bool = True, ordered: bool = True) -> Any:
        return apply_alone(self, x, k, normalize_dim(self.name, dim, x._array.ndim), largest, ordered)

    def small_marked(self, x: Any, k: int, dim: int, largest: bool, ordered: bool) -> tuple[Any, ...]:
        self.infer(x, k, dim, largest, ordered)  # so many there must be
        indices = _order(x, dim, largest)[(*[slice(None)] * dim, slice(k))].copy()
        return taken(x, indices, dim), indices, indices.astype(index_dtype(x.shape[dim]))

    def infer(self, x: Any, k: int, dim: int, largest: bool, ordered: bool) -> tuple[Spec, ...]:
        _check_order(self.name, x)
        if not 0 <= k <= _length(x, dim):
            raise RuntimeError(f"topk: selected index k out of range: {k} of {_length(x, dim)} elements")
        shape = (*x.shape[:dim], k, *x.shape[dim + 1 :]) if x.shape else ()
        return (shape, x.dtype), (shape, INT64), (shape, index_dtype(_length(x, dim)))

    def kernel(self, k: Any, x: Any, *args: Any) -> None:
        count, dim, largest, ordered, values, indices, compact = args
        if count and values.size:
            k.topk(x, values, indices, axis=dim, largest=largest, ordered=ordered)
            k.copy(indices, compact)

    def dim(self, *args: Any) -> int:
        return int(args[1])


class _Selected(Op):
    """One element of each line; its index is kept in the smallest type that holds it."""

    outputs = 2
    auxiliary = 1
    saves = (Slot("indices", 2, output=True),)

    def __call__(self, x: Any, dim: int = -1, keepdim: bool = False) -> Any:
        return apply_alone(self, x, normalize_dim(self.name, dim, x._array.ndim), keepdim)

    def infer(self, x: Any, dim: int, keepdim: bool) -> tuple[Spec, ...]:
        _check_order(self.name, x)
        if not _length(x, dim):
            raise IndexError(f"{self.name}: Expected reduction dim {dim} to have non-zero size.")
        shape = reduced_shape(x.shape, (dim,), keepdim)
        return (shape, x.dtype), (shape, INT64), (shape, index_dtype(_length(x, dim)))

    def kernel(self, k: Any, x: Any, dim: int, keepdim: bool, *args: Any) -> None:
        *attrs, values, indices, compact = args
        if x.size:
            shape = reduced_shape(x.shape, (dim,), True)
            self.select(k, x, dim, values.reshape(shape), indices.reshape(shape), *attrs)
            k.copy(indices, compact)

    def select(self, k: Any, x: Any, dim: int, values: Any, indices: Any, *attrs: Any) -> None:
        """Fill the results, which have the dimension as 1."""
        raise NotImplementedError

    def attrs(self, x: Any, dim: int, keepdim: bool, *attrs: Any) -> Any:
        return x.shape, dim

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dim = node.op_attrs
        kept = reduced_shape(shape, (dim,), True)
        return (do(put_along, do(reshape, grads[0], kept), do(reshape, saved[0], kept), shape, dim),)


class _Extreme(_Selected):
    """The first of the most extreme elements.

    Attributes:
        number_of: NumPy's function of its index.
    """

    number_of: Any

    def small_marked(self, x: Any, dim: int, keepdim: bool) -> tuple[Any, ...]:
        indices = self.number_of(x, axis=dim, keepdims=True)
        values = taken(x, indices, dim)
        if not keepdim:
            shape = reduced_shape(x.shape, (dim,), False)
            values, indices = values.reshape(shape).copy(), indices.reshape(shape).copy()
        return values, indices, indices.astype(index_dtype(x.shape[dim]))

    def select(self, k: Any, x: Any, dim: int, values: Any, indices: Any, *attrs: Any) -> None:
        line = x if x.ndim else x.reshape(1)
        getattr(k, f"arg{self.name}")(line, indices, axis=dim)
        k.take_along(x, indices, values, axis=dim)


class Max(_Extreme):
    """The largest element, and its index."""

    name = "max"
    number_of = staticmethod(np.argmax)


class Min(_Extreme):
    """The smallest element, and its index."""

    name = "min"
    number_of = staticmethod(np.argmin)


class Kthvalue(_Selected):
    """The k-th smallest element, counted from 1, and its index."""

    name = "kthvalue"

    def __call__(self, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:  # type: ignore[override]
        dim = normalize_dim(self.name, dim, x._array.ndim)
        if _length(x._array, dim) and not 1 <= k <= _length(x._array, dim):
            raise RuntimeError(f"kthvalue: selected number k out of range for dimension {dim}: {k}")
        return apply_alone(self, x, dim, keepdim, k)

    def infer(self, x: Any, dim: int, keepdim: bool, k: int) -> tuple[Spec, ...]:  # type: ignore[override]
        return super().infer(x, dim, keepdim)

    def select(self, k: Any, x: Any, dim: int, values: Any, indices: Any, *attrs: Any) -> None:
        k.select(x, values, indices, axis=dim, place=attrs[0] - 1)


class MedianDim(_Selected):
    """The median, the lower one of two, and its index; NaN if there is one."""

    name = "median_dim"
    ignore_nan = False

    def infer(self, x: Any, dim: int, keepdim: bool) -> tuple[Spec, ...]:
        check_lowest("median", x.dtype, 1)
        return super().infer(x, dim, keepdim)

    def select(self, k: Any, x: Any, dim: int, values: Any, indices: Any, *attrs: Any) -> None:
        k.select(x, values, indices, axis=dim, ignore_nan=self.ignore_nan)


class NanmedianDim(MedianDim):
    """The median of what is not NaN."""

    name = "nanmedian_dim"
    ignore_nan = True


class Mode(_Selected):
    """The most frequent element, the smallest of several, and its last index."""

    name = "mode"

    def select(self, k: Any, x: Any, dim: int, values: Any, indices: Any, *attrs: Any) -> None:
        k.mode(x, values, indices, axis=dim)


class Median(SharesEqually):
    """The median of a vector, the lower one of two; equal elements share the gradient."""

    name = "median"
    ignore_nan = False

    def __call__(self, x: Any, *args: Any) -> Any:
        return self.applied(reshape(x, (x._array.size,)), (0,), False)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        _check_order(self.name, x)
        check_lowest("median", x.dtype, 1)
        return super().infer(x, dims, keepdim)

    def fold(self, k: Any, x: Any, dims: tuple[int, ...], out: Any) -> None:
        if x.size:
            k.select(x, out, None, axis=0, ignore_nan=self.ignore_nan)
        else:
            k.fill(out, float("nan") if x.dtype.kind not in "iub" else 0)


class Nanmedian(Median):
    """The median of what is not NaN in a vector."""

    name = "nanmedian"
    ignore_nan = True


class Searchsorted(Op):
    """Where values belong among sorted ones."""

    name = "searchsorted"
    inputs = 2
    differentiable = False

    def infer(self, sorted_: Any, values: Any, right: bool, dtype: Any) -> tuple[Spec, ...]:
        return ((values.shape, dtype),)

    def kernel(self, k: Any, sorted_: Any, values: Any, right: bool, dtype: Any, out: Any) -> None:
        k.searchsorted(sorted_, values, out, right=right)


class Bincount(Op):
    """How often each number is there, or the sum of the weights where it is."""

    name = "bincount"
    inputs = 2
    differentiable = False

    def infer(self, x: Any, weights: Any, length: int) -> tuple[Spec, ...]:
        return (((length,), INT64 if weights is None else weights.dtype),)

    def kernel(self, k: Any, x: Any, weights: Any, length: int, out: Any) -> None:
        k.bincount(x, weights, out)

    def workspace(self, x: Any, weights: Any, length: int) -> int:
        return 8 * length


sort = Sort()
topk = TopK()
max = Max()
min = Min()
kthvalue = Kthvalue()
median_dim = MedianDim()
nanmedian_dim = NanmedianDim()
mode = Mode()
median = Median()
nanmedian = Nanmedian()
searchsorted = Searchsorted()
bincount = Bincount()
