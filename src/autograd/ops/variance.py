"""Variance and standard deviation, alone or with the mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from ..whole import apply_alone, is_few
from .elementwise import add, div, eq, mul, sub, where
from .promotion import category
from .reduce import Dims, Reduction, mean, normalize_dims, reduced_shape

_SELF = Slot("self", 0)
_RESULT = Slot("result", 0, output=True)
_MEAN = Slot("mean", 1, output=True)


class _Spread(Reduction):
    """Called with a tensor, the dimensions (None for all), ``keepdim`` and the correction; the mean is kept, too."""

    auxiliary = 1
    saves: tuple[Slot, ...] = (_SELF, _MEAN)
    root = False

    def __call__(self, x: Any, dims: Dims = None, keepdim: bool = False, correction: float = 1) -> Any:
        self._check(x._array)
        dims = normalize_dims(self.name, dims, x._array.ndim)
        return apply_alone(self, x, dims, keepdim, float(correction))

    def infer(self, x: Any, dims: tuple[int, ...], keepdim: bool, correction: float = 1) -> tuple[Spec, ...]:
        found = (reduced_shape(x.shape, dims, keepdim), x.dtype)
        return found, found

    def _check(self, x: Any) -> None:
        if category(x.dtype) < 2:
            raise RuntimeError(
                f"{self.name}: std and var only support floating point and complex dtypes, got {x.dtype}"
            )

    def kernel(
        self, k: Any, x: Any, dims: tuple[int, ...], keepdim: bool, correction: float, out: Any, mean: Any
    ) -> None:
        if is_few(x):
            for target, value in zip((out, mean), self.small_marked(x, dims, keepdim, correction)):
                np.copyto(target, value)
            return
        k.var_mean(x, out, mean, axes=dims, correction=correction)
        if self.root:
            k.sqrt(out, out)

    def small_marked(self, x: Any, dims: tuple[int, ...], keepdim: bool, correction: float) -> tuple[Any, ...]:
        shape, count = reduced_shape(x.shape, dims, keepdim), math.prod([x.shape[dim] for dim in dims])
        mean = np.asarray(np.add.reduce(x, axis=dims, keepdims=True))
        np.divide(mean, count, mean)
        away = x - mean
        spread = np.asarray(np.add.reduce(np.multiply(away, away, away), axis=dims, keepdims=True))
        with np.errstate(invalid="ignore", divide="ignore"):
            np.divide(spread, max(0.0, count - correction), spread)
            if self.root:
                np.sqrt(spread, spread)
        return spread.reshape(shape).copy(), mean.reshape(shape).copy()

    def attrs(self, x: Any, dims: tuple[int, ...], keepdim: bool, correction: float = 1) -> Any:
        return x.shape, dims, correction

    def scale(self, node: Any) -> float:
        """Two over the degrees of freedom."""
        shape, dims, correction = node.op_attrs
        freedom: float = math.prod(shape[d] for d in dims) - correction
        if freedom == 0 or (freedom < 0 and len(dims) == len(shape)):
            return math.inf
        return 2.0 / freedom

    def by_variance(self, do: Do, grad: Any, saved: tuple[Any, ...]) -> Any:
        """The gradient of the variance."""
        if not self.root:
            return grad
        none = do(eq, saved[1], 0)
        slope = do(div, grad, do(mul, do(where, none, 1.0, saved[1]), 2.0))
        return do(where, none, 0.0, slope)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        grad = self.by_variance(do, grads[0], saved)
        return (do(var_backward, grad, saved[0], saved[-1], node.op_attrs[1], self.scale(node)),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, dims = saved[0], node.op_attrs[1]
        grad = self.spread(do, node, self.by_variance(do, grads[0], saved))
        away = do(sub, x, do(mean, x, dims, True))
        return (do(mul, do(mul, grad, away), self.scale(node)),)


class Var(_Spread):
    """The variance."""

    name = "var"


class Std(_Spread):
    """The standard deviation; where it is 0, so is its gradient."""

    name = "std"
    saves = (_SELF, _RESULT, _MEAN)
    root = True


class _WithMean(_Spread):
    """The mean as a result of its own."""

    outputs = 2
    auxiliary = 0
    fresh = False

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return self._both(do, node, super().backward, saved, grads)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return self._both(do, node, super().formula, saved, grads)

    def _both(
        self, do: Do, node: Any, by_variance: Any, saved: tuple[Any, ...], grads: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        found = None if grads[0] is None else by_variance(do, node, saved, grads[0])[0]
        if grads[1] is None:
            return (found,)
        shape, dims, _ = node.op_attrs
        count = math.prod(shape[d] for d in dims)
        by_mean = self.spread(do, node, do(div, grads[1], float(max(count, 1))))
        return (by_mean if found is None else do(add, found, by_mean),)


class VarMean(_WithMean):
    """The variance and the mean."""

    name = "var_mean"


class StdMean(_WithMean):
    """The standard deviation and the mean."""

    name = "std_mean"
    saves = (_SELF, _RESULT, _MEAN)
    root = True


class VarBackward(Op):
    """``scale * grad * (x - mean)``. It is only run where nothing is recorded."""

    name = "var_backward"
    inputs = 3

    def small(self, grad: Any, x: Any, mean: Any, dims: tuple[int, ...], scale: float) -> Any:
        shape = reduced_shape(x.shape, dims, True)
        with np.errstate(invalid="ignore"):
            result = np.subtract(x, mean.reshape(shape), order="C")
            np.multiply(result, grad.reshape(shape), result)
            return np.multiply(result, scale, result)

    def infer(self, grad: Any, x: Any, mean: Any, dims: tuple[int, ...], scale: float) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, grad: Any, x: Any, mean: Any, dims: tuple[int, ...], scale: float, out: Any) -> None:
        k.var_backward(grad, x, mean, out, axes=dims, scale=scale)


var = Var()
std = Std()
var_mean = VarMean()
std_mean = StdMean()
var_backward = VarBackward()
