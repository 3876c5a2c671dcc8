"""Soft-max, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec, normalize_dim
from ..whole import FewOp, apply_alone, is_few
from .cast import to_dtype
from .elementwise import eq, exp, mul, sub, where
from .promotion import category, check_floating, get_default_dtype
from .reduce import Dims, Reduction, reduced_shape, sum


class _Softmax(Op):
    """Along one dimension; the result is saved."""

    saves = (Slot("result", 0, output=True),)
    complex_saved = None

    def __call__(self, x: Any, dim: int, dtype: Any = None) -> Any:
        if dtype is not None and x._array.dtype != dtype:
            x = to_dtype(x, np.dtype(dtype))
        return apply_alone(self, x, normalize_dim(self.name, dim, x._array.ndim))

    def infer(self, x: Any, dim: int) -> tuple[Spec, ...]:
        check_floating(self.name, x.dtype)
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int, out: Any) -> None:
        if is_few(x):
            np.copyto(out, self.small(x, dim))
        else:
            getattr(k, self.name)(x, out, axis=dim)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(_backward_of[self.name], grads[0], saved[0], *node.op_attrs),)


def _dims(x: Any, dim: int) -> tuple[int, ...]:
    """The dimension to sum over; a 0-dimensional array has none."""
    return (dim,) if x.shape else ()


class Softmax(_Softmax):
    """``exp(x)`` over its sum."""

    name = "softmax"

    def small(self, x: Any, dim: int) -> Any:
        with np.errstate(invalid="ignore"):
            y = np.subtract(x, np.maximum.reduce(x, axis=dim, keepdims=True), order="C")
            np.exp(y, y)
            return np.divide(y, np.add.reduce(y, axis=dim, keepdims=True), y)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (result,) = saved
        (dim,) = node.op_attrs
        weighted = do(mul, grads[0], result)
        return (do(sub, weighted, do(mul, result, do(sum, weighted, _dims(grads[0], dim), True))),)


class LogSoftmax(_Softmax):
    """The logarithm of soft-max."""

    name = "log_softmax"

    def small(self, x: Any, dim: int) -> Any:
        with np.errstate(invalid="ignore"):
            y = np.subtract(x, np.maximum.reduce(x, axis=dim, keepdims=True), order="C")
            return np.subtract(y, np.log(np.add.reduce(np.exp(y), axis=dim, keepdims=True)), y)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (dim,) = node.op_attrs
        return (do(sub, grads[0], do(mul, do(exp, saved[0]), do(sum, grads[0], _dims(grads[0], dim), True))),)


class _SoftmaxBackward(Op):
    """A fused gradient, from the incoming gradient and the result. It is only run where nothing is recorded."""

    inputs = 2

    def infer(self, grad: Any, result: Any, dim: int) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, result: Any, dim: int, out: Any) -> None:
        if is_few(grad):
            np.copyto(out, self.small(grad, result, dim))
        else:
            getattr(k, self.name)(grad, result, out, axis=dim)


class SoftmaxBackward(_SoftmaxBackward):
    """``y * (grad - sum(grad * y))``."""

    name = "softmax_backward"

    def small(self, grad: Any, y: Any, dim: int) -> Any:
        weighted = grad * y
        total = np.add.reduce(weighted, axis=dim, keepdims=True)
        np.subtract(grad, total, weighted)
        return np.multiply(weighted, y, weighted)


class LogSoftmaxBackward(_SoftmaxBackward):
    """``grad - exp(y) * sum(grad)``."""

    name = "log_softmax_backward"

    def small(self, grad: Any, y: Any, dim: int) -> Any:
        result = np.exp(y)
        np.multiply(result, np.add.reduce(grad, axis=dim, keepdims=True), result)
        return np.subtract(grad, result, result)


class LogSumExp(Reduction):
    """The logarithm of the sum of exponentials over dimensions."""

    name = "logsumexp"
    saves = (Slot("self", 0), Slot("result", 0, output=True))

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False) -> Any:
        if category(x._array.dtype) < 2:
            x = to_dtype(x, get_default_dtype())
        return super().__call__(x, dims, keepdim)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, out: Any) -> None:
        if is_few(x):
            np.copyto(out, self.small(x, dims, keepdim))
        elif x.size == 0:
            k.fill(out, -math.inf)
        elif not dims:
            k.copy(x, out)
        else:
            k.logsumexp(x, out, axis=dims)

    def small(self, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
        out = np.empty(reduced_shape(x.shape, dims, keepdim), x.dtype)
        with np.errstate(invalid="ignore", divide="ignore"):
            most = np.maximum.reduce(x, axis=dims, keepdims=True)
            np.copyto(most, 0, where=np.isinf(most))  # inf - inf is NaN, exp and log of infinities are right
            work = np.subtract(x, most)
            np.add.reduce(np.exp(work, work), axis=dims, keepdims=keepdim, out=out)
            np.log(out, out)
        return np.add(out, most.reshape(out.shape), out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, result = saved
        if not node.op_attrs[1]:
            return (do(mul, grads[0], 1.0),)
        return (do(logsumexp_backward, grads[0], x, result, node.op_attrs[1]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, result = saved
        # Where all elements are -inf, so is the result: x - result would be NaN.
        finite = do(where, do(eq, result, -math.inf), 0.0, result)
        return (do(mul, self.spread(do, node, grads[0]), do(exp, do(sub, x, self.spread(do, node, finite)))),)


class LogSumExpBackward(FewOp):
    """``grad * exp(x - result)``. It is only run where nothing is recorded."""

    name = "logsumexp_backward"
    inputs = 3
    decisive = 1

    def infer(self, grad: Any, x: Any, result: Any, dims: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((x.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, x: Any, result: Any, dims: tuple[int, ...], out: Any) -> None:
        if not self.fills((grad, x, result, dims), (out,)):
            k.logsumexp_backward(grad, x, result, out, axis=dims)

    def small_marked(self, grad: Any, x: Any, result: Any, dims: tuple[int, ...]) -> tuple[Any, ...]:
        kept = reduced_shape(x.shape, dims, True)
        finite = result.reshape(kept)
        if np.isneginf(finite).any():  # all were: inf - inf would be NaN
            finite = np.where(np.isneginf(finite), x.dtype.type(0), finite)
        with np.errstate(invalid="ignore"):
            out = np.subtract(x, finite, order="C")
            np.exp(out, out)
            out *= grad.reshape(kept)
        return (out,)


softmax = Softmax()
log_softmax = LogSoftmax()
softmax_backward = SoftmaxBackward()
log_softmax_backward = LogSoftmaxBackward()
logsumexp = LogSumExp()
logsumexp_backward = LogSumExpBackward()
_backward_of = {"softmax": softmax_backward, "log_softmax": log_softmax_backward}
