"""Reductions over dimensions, and soft-max."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec, normalize_dim
from .cast import to_dtype
from .elementwise import div, eq, exp, mul, sub
from .promotion import category, check_floating
from .shape import reshape
from .sum_to import expand

Dims: TypeAlias = int | tuple[int, ...] | list[int] | None


def normalize_dims(name: str, dims: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions to reduce, counted from the front and sorted; all of them for None or an empty list.

    Raises:
        RuntimeError: if one is named twice.
        IndexError: if one does not exist.
    """
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(ndim))
    if ndim == 0:
        for dim in (dims,) if isinstance(dims, int) else dims:
            normalize_dim(name, dim, ndim)
        return ()
    found = tuple(sorted(normalize_dim(name, dim, ndim) for dim in ((dims,) if isinstance(dims, int) else dims)))
    if len(set(found)) != len(found):
        raise RuntimeError(f"{name}: dim {dims} names a dimension twice")
    return found


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape after a reduction."""
    if keepdim:
        return tuple(1 if d in dims else size for d, size in enumerate(shape))
    return tuple(size for d, size in enumerate(shape) if d not in dims)


class Reduction(Op):
    """An op that folds dimensions: called with a tensor, the dimensions (None for all) and ``keepdim``."""

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        return apply(self, x, normalize_dims(self.name, dims, x._array.ndim), keepdim)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        return ((reduced_shape(x.shape, dims, keepdim), x.dtype),)

    def attrs(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        return x.shape, dims

    def spread(self, do: Do, node: Any, value: Any) -> Any:
        """A reduced value as a view of the shape before the reduction."""
        shape, dims = node.op_attrs
        return do(expand, do(reshape, value, reduced_shape(shape, dims, True)), shape)


class Sum(Reduction):
    """The sum; bool and integers are summed in int64."""

    name = "sum"
    fresh = False

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        if category(x._array.dtype) < 2 and x._array.dtype != np.int64:
            x = to_dtype(x, np.dtype(np.int64))
        return super().__call__(x, dims, keepdim)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any) -> None:
        k.sum(x, out.reshape(reduced_shape(x.shape, dims, True)), axes=dims)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (self.spread(do, node, grads[0]),)


class Mean(Reduction):
    """The mean; only of floating-point numbers."""

    name = "mean"

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        if category(x.dtype) < 2:
            raise RuntimeError(f"mean: the input must be floating point or complex, got {x.dtype}; convert it first")
        return super().infer(x, dims, keepdim)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any) -> None:
        k.mean(x, out.reshape(reduced_shape(x.shape, dims, True)), axes=dims)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dims = node.op_attrs
        count = math.prod(shape[d] for d in dims)
        return (self.spread(do, node, do(div, grads[0], float(max(count, 1)))),)

    fresh = False


class Amax(Reduction):
    """The largest element; equal ones share the gradient."""

    name = "amax"
    saves = (Slot("self", 0), Slot("result", 0, output=True))

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        if x._array.size == 0 and (dims is None or (not isinstance(dims, int) and not len(dims))):
            raise RuntimeError("amax: expected the dimensions to reduce to be named for a tensor without elements")
        return super().__call__(x, dims, keepdim)

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:
        if any(x.shape[d] == 0 for d in dims):
            raise IndexError("amax: expected reduction dimensions of non-zero size")
        return super().infer(x, dims, keepdim)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any) -> None:
        k.amax(x, out.reshape(reduced_shape(x.shape, dims, True)), axes=dims)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, largest = saved
        _, dims = node.op_attrs
        mask = do(to_dtype, do(eq, x, self.spread(do, node, largest)), x.dtype)
        share = do(div, mask, do(sum, mask, dims, True))
        return (do(mul, self.spread(do, node, grads[0]), share),)


class Argmax(Op):
    """The index of the largest element along a dimension, or of the flattened tensor."""

    name = "argmax"
    differentiable = False

    def __call__(self, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if x._array.dtype == bool:
            raise RuntimeError("argmax: does not support bool input; convert the tensor first")
        if dim is None:
            found = apply(self, reshape(x, (x._array.size,)), 0, False)
            return reshape(found, (1,) * x._array.ndim) if keepdim else found
        return apply(self, x, normalize_dim("argmax", dim, x._array.ndim), keepdim)

    def infer(self, x: Any, dim: int, keepdim: bool) -> tuple[Spec, ...]:
        if x.size == 0:
            raise IndexError("argmax: expected a reduction over at least one element")
        return ((reduced_shape(x.shape, (dim,), keepdim), np.dtype(np.int64)),)

    def kernel(self, k: Any, x: Any, dim: int, keepdim: bool, out: Any) -> None:
        k.argmax(x, out.reshape(reduced_shape(x.shape, (dim,), False)), axis=dim)


class _Softmax(Op):
    """Along one dimension; the result is saved."""

    saves = (Slot("result", 0, output=True),)

    def __call__(self, x: Any, dim: int) -> Any:
        return apply(self, x, normalize_dim(self.name, dim, x._array.ndim))

    def infer(self, x: Any, dim: int) -> tuple[Spec, ...]:
        check_floating(self.name, x.dtype)
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int, out: Any) -> None:
        getattr(k, self.name)(x, out, axis=dim)


def _dims(x: Any, dim: int) -> tuple[int, ...]:
    """The dimension to sum over; a 0-dimensional array has none."""
    return (dim,) if x.shape else ()


class Softmax(_Softmax):
    """``exp(x)`` over its sum."""

    name = "softmax"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (result,) = saved
        (dim,) = node.op_attrs
        weighted = do(mul, grads[0], result)
        return (do(sub, weighted, do(mul, result, do(sum, weighted, _dims(grads[0], dim), True))),)


class LogSoftmax(_Softmax):
    """The logarithm of soft-max."""

    name = "log_softmax"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (dim,) = node.op_attrs
        return (do(sub, grads[0], do(mul, do(exp, saved[0]), do(sum, grads[0], _dims(grads[0], dim), True))),)


sum = Sum()
mean = Mean()
amax = Amax()
argmax = Argmax()
softmax = Softmax()
log_softmax = LogSoftmax()
