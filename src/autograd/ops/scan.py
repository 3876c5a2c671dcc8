"""Running sums, products, extremes and log-sums along one dimension; and products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...memory import META
from ..dispatch import Op
from ..record import Do, Slot, Spec, normalize_dim
from ..whole import apply_alone
from .along import add_along, index_dtype
from .cast import constant, to_dtype
from .elementwise import abs, add, div, eq, exp, gt, log, lt, mul, sub, where
from .promotion import category, check_floating
from .reduce import INT64, any, reduced_shape, sum
from .shape import Cat, index, reshape, zeros_of
from .sum_to import expand

_SELF = Slot("self", 0)
_RESULT = Slot("result", 0, output=True)


def _wanted(x: Any, dtype: Any) -> Any:
    """The dtype of a running sum or product: integers are added up in int64."""
    return dtype or (INT64 if category(x.dtype) < 2 else x.dtype)


class CumSum(Op):
    """The running sum, from the end with ``reverse``: called with a tensor, a dimension, and the result's dtype."""

    name = "cumsum"

    def small(self, x: Any, dim: int, dtype: Any, reverse: bool) -> Any:
        wide = np.float64 if x.dtype == np.float32 else np.float32 if x.dtype == np.float16 else None
        ahead = (slice(None),) * dim + (slice(None, None, -1 if reverse else 1),)
        added = np.add.accumulate(x[ahead], axis=dim, dtype=wide)[ahead]
        return added.astype(_wanted(x, dtype), order="C")

    def __call__(self, x: Any, dim: int, dtype: Any = None, reverse: bool = False) -> Any:
        dim = normalize_dim(self.name, dim, x._array.ndim)
        return apply_alone(self, x, dim, None if dtype is None else np.dtype(dtype), reverse)

    def infer(self, x: Any, dim: int, dtype: Any, reverse: bool) -> tuple[Spec, ...]:
        return ((x.shape, _wanted(x, dtype)),)

    def kernel(self, k: Any, x: Any, dim: int, dtype: Any, reverse: bool, out: Any) -> None:
        k.cumsum(x, out, axis=dim, reverse=reverse)

    def attrs(self, x: Any, dim: int, dtype: Any, reverse: bool) -> Any:
        return dim, x.dtype, reverse

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        dim, dtype, reverse = node.op_attrs
        (grad,) = grads
        return (do(cumsum, grad if grad.dtype == dtype else do(to_dtype, grad, dtype), dim, None, not reverse),)


class CumProd(Op):
    """The running product; the input is in the result's dtype."""

    name = "cumprod"
    saves = (_SELF,)
    complex_saved = "conjugated"

    def __call__(self, x: Any, dim: int, dtype: Any = None) -> Any:
        dim = normalize_dim(self.name, dim, x._array.ndim)
        wanted = _wanted(x._array, None if dtype is None else np.dtype(dtype))
        return apply_alone(self, x if x._array.dtype == wanted else to_dtype(x, wanted), dim)

    def infer(self, x: Any, dim: int) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int, out: Any) -> None:
        k.cumprod(x, out, axis=dim)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(cumprod_backward, grads[0], saved[0], node.op_attrs[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x,), (grad,) = saved, grads
        dim = node.op_attrs[0]
        if not _has_zero(x):
            return (do(div, do(cumsum, do(mul, grad, do(cumprod, x, dim)), dim, None, True), x),)
        # The products without the k-th element, for each k: exact for any number of zeros, but a matrix a line.
        shape, (outer, size, inner) = tuple(x.shape), _cube(x.shape, dim)
        device = x._storage.device
        lines = do(expand, do(reshape, x, (outer, 1, size, inner)), (outer, size, size, inner))
        without = do(where, constant(np.eye(size, dtype=bool)[:, :, None], device), 1.0, lines)
        weighted = do(mul, do(cumprod, without, 2), do(reshape, grad, (outer, 1, size, inner)))
        later = constant(np.tri(size, dtype=bool).T[:, :, None].copy(), device)
        return (do(reshape, do(sum, do(where, later, weighted, 0.0), (2,), False), shape),)


class CumProdBackward(Op):
    """The fused gradient of `CumProd`. It is only run where nothing is recorded."""

    name = "cumprod_backward"
    inputs = 2

    def infer(self, grad: Any, x: Any, dim: int) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, grad: Any, x: Any, dim: int, out: Any) -> None:
        k.cumprod_backward(grad, x, out, axis=dim)


class _CumExtreme(Op):
    """The most extreme element so far, and its index; of equal ones the last. A copy of the indices is saved."""

    outputs = 2
    auxiliary = 1
    saves = (Slot("indices", 2, output=True),)

    def __call__(self, x: Any, dim: int) -> Any:
        return apply_alone(self, x, normalize_dim(self.name, dim, x._array.ndim))

    def infer(self, x: Any, dim: int) -> tuple[Spec, ...]:
        size = x.shape[dim] if x.shape else 1
        return (x.shape, x.dtype), (x.shape, INT64), (x.shape, index_dtype(size))

    def kernel(self, k: Any, x: Any, dim: int, values: Any, indices: Any, compact: Any) -> None:
        getattr(k, self.name)(x, values, indices, axis=dim)
        k.copy(indices, compact)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(add_along, grads[0], saved[0], tuple(grads[0].shape), node.op_attrs[0]),)


class CumMax(_CumExtreme):
    """The largest element so far, and its index."""

    name = "cummax"


class CumMin(_CumExtreme):
    """The smallest element so far, and its index."""

    name = "cummin"


class LogCumSumExp(Op):
    """The logarithm of the running sum of exponentials, from the end with ``reverse``."""

    name = "logcumsumexp"
    saves = (_SELF, _RESULT)

    def __call__(self, x: Any, dim: int, reverse: bool = False) -> Any:
        return apply_alone(self, x, normalize_dim(self.name, dim, x._array.ndim), reverse)

    def infer(self, x: Any, dim: int, reverse: bool) -> tuple[Spec, ...]:
        if x.dtype.kind == "c":
            raise NotImplementedError(f"logcumsumexp: not implemented for {x.dtype}")
        check_floating(self.name, x.dtype)
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int, reverse: bool, out: Any) -> None:
        k.logcumsumexp(x, out, axis=dim, reverse=reverse)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, result = saved
        (grad,), (dim, reverse) = grads, node.op_attrs
        # exp(x[k]) times the sum over j >= k of grad[j] / exp(result[j]), by logarithms: nothing overflows.
        size = do(log, do(abs, do(where, do(eq, grad, 0), 1.0, grad)))

        def part(compare: Any) -> Any:
            chosen = do(where, do(compare, grad, 0), do(sub, size, result), -math.inf)
            return do(exp, do(add, do(logcumsumexp, chosen, dim, not reverse), x))

        return (do(sub, part(gt), part(lt)),)


class Prod(Op):
    """The product along a dimension, or of all elements; the input is in the result's dtype."""

    name = "prod"
    saves = (_SELF,)
    complex_saved = "conjugated"

    def __call__(self, x: Any, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Any:
        wanted = _wanted(x._array, None if dtype is None else np.dtype(dtype))
        x = x if x._array.dtype == wanted else to_dtype(x, wanted)
        return apply_alone(self, x, None if dim is None else normalize_dim(self.name, dim, x._array.ndim), keepdim)

    def infer(self, x: Any, dim: int | None, keepdim: bool) -> tuple[Spec, ...]:
        dims = tuple(range(x.ndim)) if dim is None else (dim,)
        return ((reduced_shape(x.shape, dims, keepdim), x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int | None, keepdim: bool, out: Any) -> None:
        k.prod(x, out, axis=dim)

    def attrs(self, x: Any, dim: int | None, keepdim: bool) -> Any:
        return (dim,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(prod_backward, grads[0], saved[0], node.op_attrs[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x,), (grad,) = saved, grads
        (dim,) = node.op_attrs
        if not x.shape or dim is None:
            lines, dim = do(reshape, x, (math.prod(x.shape),)), 0
        else:
            lines = x
        if not math.prod(x.shape):
            return (do(mul, x, 0.0),)
        kept = tuple(1 if d == dim else size for d, size in enumerate(lines.shape))
        others = do(mul, _before(do, lines, dim), _after(do, lines, dim))
        return (do(reshape, do(mul, do(reshape, grad, kept), others), tuple(x.shape)),)


def _before(do: Do, x: Any, dim: int) -> Any:
    """The product of all elements in front of each one."""
    size = x.shape[dim]
    first = tuple(1 if d == dim else length for d, length in enumerate(x.shape))
    one = do(add, do(zeros_of, x, first), 1.0)
    lead = (slice(None),) * dim
    return do(Cat(2), one, do(cumprod, do(index, x, (*lead, slice(0, size - 1))), dim), dim)


def _after(do: Do, x: Any, dim: int) -> Any:
    """The product of all elements behind each one."""
    backwards = ((slice(None),) * dim) + (slice(None, None, -1),)
    return do(index, _before(do, do(index, x, backwards), dim), backwards)


class ProdBackward(Op):
    """The gradient times the product of the other elements. It is only run where nothing is recorded."""

    name = "prod_backward"
    inputs = 2

    def infer(self, grad: Any, x: Any, dim: int | None) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, grad: Any, x: Any, dim: int | None, out: Any) -> None:
        k.prod_backward(grad, x, out, axis=dim)


def _has_zero(x: Any) -> bool:
    """Whether a tensor has an element 0; on the meta device nobody knows, and nothing is computed."""
    return x._storage.device is not META and bool(any(eq(x, 0)).item())


def _cube(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """The sizes in front of a dimension, of it and behind it."""
    shape = tuple(shape) or (1,)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


cumsum = CumSum()
cumprod = CumProd()
cumprod_backward = CumProdBackward()
cummax = CumMax()
cummin = CumMin()
logcumsumexp = LogCumSumExp()
prod = Prod()
prod_backward = ProdBackward()
