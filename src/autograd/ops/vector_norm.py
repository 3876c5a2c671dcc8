"""Norms of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...memory import CPU, SMALL_BYTES
from ..record import Do, Slot, Spec
from ..whole import apply_alone
from .cast import to_dtype
from .elementwise import abs as absolute
from .elementwise import div, eq, mul, pow, sgn, where
from .matrices import real_dtype
from .reduce import Dims, Reduction, normalize_dims, reduced_shape, sum
from .shape import reshape


class LinalgVectorNorm(Reduction):
    """``(|x| ** order).sum() ** (1 / order)`` over dimensions.

    Where a norm is 0 its gradient is 0, one of the subgradients; the extreme elements share that of an infinite order.
    """

    name = "linalg_vector_norm"
    saves = (Slot("self", 0), Slot("result", 0, output=True))
    complex_saved = "plain"

    def __call__(self, x: Any, order: float, dims: Dims = None, keepdim: bool = False) -> Any:  # type: ignore[override]
        return apply_alone(self, x, float(order), normalize_dims(self.name, dims, x._array.ndim), keepdim)

    def infer(self, x: Any, order: float, dims: tuple[int, ...], keepdim: bool) -> tuple[Spec, ...]:  # type: ignore[override]
        dtype = real_dtype(x.dtype) if x.dtype.kind == "c" else x.dtype
        return ((reduced_shape(x.shape, dims, keepdim), dtype),)

    def kernel(self, k: Any, x: Any, order: float, dims: tuple[int, ...], keepdim: bool, out: Any) -> None:
        k.vector_norm(x, out.reshape(reduced_shape(x.shape, dims, True)), order=order, axes=dims)

    def attrs(self, x: Any, order: float, dims: tuple[int, ...], keepdim: bool) -> Any:  # type: ignore[override]
        return x.shape, dims, order

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x = saved[0]
        dims, order = node.op_attrs[1:]
        norm, grad = (self.kept(do, node, value) for value in (saved[1], grads[0]))
        if order == 0:
            return (do(mul, x, 0.0),)
        if order == 1:
            return (do(mul, do(sgn, x), grad),)
        if math.isinf(order):
            extreme = do(to_dtype, do(eq, do(absolute, x), norm), norm.dtype)
            share = do(div, grad, do(sum, extreme, dims, True))
            return (do(mul, do(sgn, x), do(mul, extreme, share)),)
        if order == 2 and type(norm) is np.ndarray and node.run_device is CPU and norm.nbytes < SMALL_BYTES:
            return (do(mul, x, _scale(grad, norm)),)
        zero = do(eq, norm, 0)
        safe = do(where, zero, 1.0, norm)
        power = safe if order == 2 else do(pow, safe, order - 1)
        scale = do(where, zero, 0.0, do(div, grad, power))
        if order == 2:
            return (do(mul, x, scale),)
        size = do(absolute, x)
        if order > 2:
            return (do(mul, do(mul, x, do(pow, size, order - 2)), scale),)
        if order < 1:  # infinite at 0
            none = do(eq, size, 0)
            size = do(where, none, 0.0, do(pow, do(where, none, 1.0, size), order - 1))
        else:
            size = do(pow, size, order - 1)
        return (do(mul, do(mul, do(sgn, x), size), scale),)

    def kept(self, do: Do, node: Any, value: Any) -> Any:
        """A reduced value with the reduced dimensions as 1."""
        shape, dims = node.op_attrs[:2]
        return do(reshape, value, reduced_shape(shape, dims, True))


def _scale(grad: Any, norm: Any) -> Any:
    """``grad / norm`` of few norms of the CPU, and 0 where they are 0."""
    scale = np.empty(norm.shape, norm.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(grad, norm, scale)
    np.copyto(scale, 0, where=norm == 0)
    return scale


vector_norm = LinalgVectorNorm()
