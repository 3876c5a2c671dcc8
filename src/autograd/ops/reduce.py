"""Reductions over dimensions."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec, normalize_dim
from ..whole import apply_alone
from .cast import to_dtype
from .elementwise import div
from .marks import Marking, bits_of, keep_marked
from .promotion import category
from .shape import reshape
from .sum_to import expand

Dims: TypeAlias = int | tuple[int, ...] | list[int] | None
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
_add_up: Any = np.add.reduce


def normalize_dims(name: str, dims: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions to reduce, counted from the front and sorted; all of them for None or an empty list.

    Raises:
        RuntimeError: if one is named twice.
        IndexError: if one does not exist.
    """
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(ndim))
    given = (dims,) if isinstance(dims, int) else dims
    found = tuple(sorted([normalize_dim(name, dim, ndim) for dim in given]))
    if ndim == 0:
        return ()
    if len(set(found)) != len(found):
        raise RuntimeError(f"{name}: dim {dims} names a dimension twice")
    return found


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape after a reduction."""
    if keepdim:
        return tuple([1 if d in dims else size for d, size in enumerate(shape)])
    return tuple([size for d, size in enumerate(shape) if d not in dims])


class Reduction(Op):
    """An op that folds dimensions: called with a tensor, the dimensions (None for all) and ``keepdim``."""

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        return apply_alone(self, x, normalize_dims(self.name, dims, x._array.ndim), keepdim)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        return ((reduced_shape(x.shape, dims, keepdim), x.dtype),)

    def attrs(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        return x.shape, dims

    def spread(self, do: Do, node: Any, value: Any) -> Any:
        """A reduced value as a view of the shape before the reduction."""
        shape, dims = node.op_attrs[:2]
        if dims and dims[-1] != len(dims) - 1:  # else the sizes that are missing come first, where `expand` adds them
            value = do(reshape, value, reduced_shape(shape, dims, True))
        return do(expand, value, shape)


class _Addition(Reduction):
    """A sum in a dtype that may be another than that of the input, which is cast while it is added up."""

    fresh = False

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
        wanted = None if dtype is None else np.dtype(dtype)
        return apply_alone(self, x, normalize_dims(self.name, dims, x._array.ndim), keepdim, wanted)

    def attrs(self, x: Any, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> Any:
        return x.shape, dims, x.dtype

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, *rest: Any) -> None:
        getattr(k, self.name)(x, rest[-1].reshape(reduced_shape(x.shape, dims, True)), axes=dims)

    def added(self, x: Any, dims: tuple[int, ...], keepdim: bool, dtype: np.dtype[Any]) -> Any:
        """The sum of a small array, half precision by way of float32."""
        wide = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind == "f" else dtype
        result = np.asarray(_add_up(x, axis=dims, keepdims=keepdim, dtype=wide))
        if wide is not dtype:
            return result.astype(dtype, order="C")
        return result if result.flags.c_contiguous else result.copy()  # NumPy keeps the order of the axes of ``x``

    def cast(self, do: Do, node: Any, grad: Any) -> Any:
        """The gradient in the input's dtype."""
        return grad if grad.dtype == node.op_attrs[2] else do(to_dtype, grad, node.op_attrs[2])


class Sum(_Addition):
    """The sum; bool and integers are summed in int64."""

    name = "sum"

    def small(self, x: Any, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> Any:
        return self.added(x, dims, keepdim, dtype or (INT64 if x.dtype.kind in "biu" else x.dtype))

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> tuple[Spec, ...]:
        wanted = dtype or (INT64 if category(x.dtype) < 2 else x.dtype)
        return ((reduced_shape(x.shape, dims, keepdim), wanted),)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (self.spread(do, node, self.cast(do, node, grads[0])),)


class Mean(_Addition):
    """The mean; only of floating-point numbers."""

    name = "mean"

    def small(self, x: Any, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> Any:
        result = self.added(x, dims, keepdim, self._wanted(x, dtype))
        return np.divide(result, x.size / result.size if x.size else math.nan, result)  # as the kernel, to the bit

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> tuple[Spec, ...]:
        return ((reduced_shape(x.shape, dims, keepdim), self._wanted(x, dtype)),)

    def _wanted(self, x: Any, dtype: Any) -> Any:
        wanted = dtype or x.dtype
        if category(wanted) < 2:
            raise RuntimeError(f"mean: the input must be floating point or complex, got {wanted}; convert it first")
        return wanted

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dims, _ = node.op_attrs
        count = math.prod(shape[d] for d in dims)
        return (self.spread(do, node, do(div, self.cast(do, node, grads[0]), float(max(count, 1)))),)


class Nansum(Marking, Reduction):
    """The sum of what is not NaN; a bit an element is kept."""

    name = "nansum"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        return self.applied(x, normalize_dims(self.name, dims, x._array.ndim), keepdim)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        return (reduced_shape(x.shape, dims, keepdim), x.dtype), bits_of(x.shape)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any, *marks: Any) -> None:
        k.nansum(x, out.reshape(reduced_shape(x.shape, dims, True)), axes=dims)
        if marks:
            k.mark(x, x, marks[0], shape=x.shape, relation="not_equal")

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(keep_marked, self.spread(do, node, grads[0]), saved[0], True),)


class SharesEqually(Marking, Reduction):
    """A reduction to one of the elements: all that equal the result share the gradient.

    A bit an element is kept, and how many are equal.
    """

    auxiliary = 2
    saves = (Slot("mask", 1, output=True), Slot("count", 2, output=True))

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        return self.applied(x, normalize_dims(self.name, dims, x._array.ndim), keepdim)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        found = (reduced_shape(x.shape, dims, keepdim), x.dtype)
        return found, bits_of(x.shape), found

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any, *marks: Any) -> None:
        self.fold(k, x, dims, out.reshape(reduced_shape(x.shape, dims, True)))
        if marks:
            k.mark_equal(x, out, *marks, axes=dims)

    def fold(self, k: Any, x: Any, dims: tuple[int, ...], out: Any) -> None:
        """Fill the result, which has the reduced dimensions as 1."""
        getattr(k, self.name)(x, out, axes=dims)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        mask, count = saved
        return (do(keep_marked, self.spread(do, node, do(div, grads[0], count)), mask),)


class _Extreme(SharesEqually):
    """The largest or smallest element; equal ones share the gradient.

    Attributes:
        ufunc: of two elements.
    """

    ufunc: np.ufunc

    def small_marked(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        result = np.asarray(self.ufunc.reduce(x, axis=dims, keepdims=True))
        same = np.equal(x, result)
        if np.count_nonzero(np.isnan(result)):
            np.logical_or(same, np.isnan(x), same)
        count = np.asarray(np.add.reduce(same, axis=dims, keepdims=True, dtype=x.dtype))
        shape = reduced_shape(x.shape, dims, keepdim)
        return result.reshape(shape).copy(), np.packbits(same), count.reshape(shape).copy()

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        if x._array.size == 0 and (dims is None or (not isinstance(dims, int) and not len(dims))):
            raise RuntimeError(
                f"{self.name}: expected the dimensions to reduce to be named for a tensor without elements"
            )
        return super().__call__(x, dims, keepdim)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        if 0 in [x.shape[d] for d in dims]:
            raise IndexError(f"{self.name}: expected reduction dimensions of non-zero size")
        if x.dtype.kind == "c":
            raise NotImplementedError(f"{self.name}: not implemented for {x.dtype}: complex numbers have no order")
        return super().infer(x, dims, keepdim)


class Amax(_Extreme):
    """The largest element; equal ones share the gradient."""

    name = "amax"
    ufunc = np.maximum


class Amin(_Extreme):
    """The smallest element; equal ones share the gradient."""

    name = "amin"
    ufunc = np.minimum


class _ArgExtreme(Op):
    """The index of an element along a dimension, or of the flattened tensor."""

    differentiable = False

    def __call__(self, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if x._array.dtype == bool:
            raise NotImplementedError(f"{self.name}: does not support bool input; convert the tensor first")
        if dim is None:
            found = apply(self, reshape(x, (x._array.size,)), 0, False)
            return reshape(found, (1,) * x._array.ndim) if keepdim else found
        return apply(self, x, normalize_dim(self.name, dim, x._array.ndim), keepdim)

    def infer(self, x: Any, dim: int, keepdim: bool) -> tuple[Spec, ...]:
        if x.ndim and x.shape[dim] == 0:
            raise IndexError(f"{self.name}: expected a reduction over at least one element")
        return ((reduced_shape(x.shape, (dim,), keepdim), INT64),)

    def kernel(self, k: Any, x: Any, dim: int, keepdim: bool, out: Any) -> None:
        if x.size:
            x = x if x.ndim else x.reshape(1)
            getattr(k, self.name)(x, out.reshape(reduced_shape(x.shape, (dim,), False)), axis=dim)


class Argmax(_ArgExtreme):
    """The index of the largest element along a dimension, or of the flattened tensor."""

    name = "argmax"


class Argmin(_ArgExtreme):
    """The index of the smallest element along a dimension, or of the flattened tensor."""

    name = "argmin"


class _Truth(Reduction):
    """Whether elements are true (not zero); of uint8 tensors, the answer is one."""

    differentiable = False

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        wanted = x.dtype if x.dtype == np.uint8 else BOOL
        return ((reduced_shape(x.shape, dims, keepdim), wanted),)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any) -> None:
        target = out.view(BOOL) if out.dtype != BOOL else out
        getattr(k, self.name)(x, target.reshape(reduced_shape(x.shape, dims, True)), axes=dims)


class All(_Truth):
    """Whether all elements are true (not zero)."""

    name = "all"


class AnyTrue(_Truth):
    """Whether any element is true (not zero)."""

    name = "any"


sum = Sum()
mean = Mean()
nansum = Nansum()
amax = Amax()
amin = Amin()
argmax = Argmax()
argmin = Argmin()
all = All()
any = AnyTrue()
