"""Inverses and linear systems.

Source for the derivatives: Giles, An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation, 2008. What can be read off the result (an inverse, a solution, a factor) is saved in place
of the input.
"""

from __future__ import annotations

import math
from typing import Any

from ..dispatch import Op
from ..record import Do, Slot, Spec, broadcast_shapes
from .elementwise import add, neg
from .matrices import INFO, adjoint, one, product, triangles
from .sum_to import reduced


class LinalgInvEx(Op):
    """The inverses of square matrices, and which of them there are."""

    name = "linalg_inv_ex"
    outputs = 2
    saves = (Slot("inverse", 0, output=True),)
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return (x.shape, x.dtype), (x.shape[:-2], INFO)

    def kernel(self, k: Any, x: Any, out: Any, info: Any) -> None:
        k.inv(x, out, info)

    def workspace(self, x: Any) -> int:
        return int(x.nbytes) + 2 * one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        inverse = adjoint(do, saved[0])
        return (do(neg, product(do, inverse, grads[0], inverse)),)


def _by_batches(name: str, a: Any, b: Any) -> tuple[int, ...]:
    return (*broadcast_shapes(name, a.shape[:-2], b.shape[:-2]), *b.shape[-2:])


class LinalgSolveEx(Op):
    """The solutions X of ``A @ X = B``, and which of them there are; batches are broadcast."""

    name = "linalg_solve_ex"
    inputs = 2
    outputs = 2
    saves = (Slot("A", 0), Slot("result", 0, output=True, needed_for=(0,)))
    complex_saved = "plain"

    def infer(self, a: Any, b: Any) -> tuple[Spec, ...]:
        shape = _by_batches(self.name, a, b)
        return (shape, a.dtype), (shape[:-2], INFO)

    def kernel(self, k: Any, a: Any, b: Any, out: Any, info: Any) -> None:
        k.solve(a, b, out, info)

    def workspace(self, a: Any, b: Any) -> int:
        (shape, dtype), _ = self.infer(a, b)
        return math.prod(shape) * dtype.itemsize + one(a) + one(b)

    def attrs(self, a: Any, b: Any) -> Any:
        return a.shape, b.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (a, x), (shape_a, shape_b) = saved, node.op_attrs
        by_b = do(solve_ex, adjoint(do, a), grads[0])[0]
        by_a = None
        if node.needs_grad[0]:
            by_a = reduced(do, do(neg, product(do, by_b, adjoint(do, x))), shape_a)
        return by_a, reduced(do, by_b, shape_b) if node.needs_grad[1] else None


class LinalgSolveTriangular(Op):
    """The solutions X of ``A @ X = B`` or ``X @ A = B`` for triangular A."""

    name = "linalg_solve_triangular"
    inputs = 2
    saves = (Slot("self", 0), Slot("result", 0, output=True, needed_for=(0,)))
    complex_saved = "plain"

    def infer(self, a: Any, b: Any, upper: bool, left: bool, unit: bool) -> tuple[Spec, ...]:
        return ((_by_batches(self.name, a, b), a.dtype),)

    def kernel(self, k: Any, a: Any, b: Any, upper: bool, left: bool, unit: bool, out: Any) -> None:
        k.solve_triangular(a, b, out, upper=upper, left=left, unit=unit)

    def workspace(self, a: Any, b: Any, upper: bool, left: bool, unit: bool) -> int:
        """Copies of blocks for BLAS, where the result is solved for as it lies."""
        return 0 if left else 64 * (b.shape[-2] + b.shape[-1]) * int(b.dtype.itemsize)

    def attrs(self, a: Any, b: Any, *how: bool) -> Any:
        return a.shape, b.shape, *how

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (a, x), (shape_a, shape_b, upper, left, unit) = saved, node.op_attrs
        by_b = do(solve_triangular, adjoint(do, a), grads[0], not upper, left, unit)
        by_a = None
        if node.needs_grad[0]:
            x = adjoint(do, x)
            whole = product(do, by_b, x) if left else product(do, x, by_b)
            below, above = (0, -1) if upper else (-1, 0)
            by_a = reduced(do, do(triangles, whole, below, 0 if unit else -1, above), shape_a)
        return by_a, reduced(do, by_b, shape_b) if node.needs_grad[1] else None


class CholeskySolve(Op):
    """The solutions X of ``A @ X = B``, given the Cholesky factor of A."""

    name = "cholesky_solve"
    inputs = 2
    saves = (Slot("input2", 1), Slot("result", 0, output=True, needed_for=(1,)))
    complex_saved = "plain"

    def infer(self, b: Any, factor: Any, upper: bool) -> tuple[Spec, ...]:
        return ((_by_batches(self.name, factor, b), b.dtype),)

    def kernel(self, k: Any, b: Any, factor: Any, upper: bool, out: Any) -> None:
        _twice_substituted(k, b, factor, upper, out)

    def workspace(self, b: Any, factor: Any, upper: bool) -> int:
        return int(factor.nbytes) if factor.dtype.kind == "c" else 0

    def attrs(self, b: Any, factor: Any, upper: bool) -> Any:
        return upper, b.shape, factor.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (factor, x), (upper, shape_b, shape_factor) = saved, node.op_attrs
        by_b, by_factor = do(cholesky_solve, grads[0], factor, upper), None
        if node.needs_grad[1]:
            whole = product(do, by_b, adjoint(do, x))
            by_factor = reduced(do, _by_factor(do, whole, factor, upper), shape_factor)
        return reduced(do, by_b, shape_b) if node.needs_grad[0] else None, by_factor


def _twice_substituted(k: Any, b: Any, factor: Any, upper: bool, out: Any) -> None:
    turned = factor.swapaxes(-1, -2)
    turned = turned.conj() if factor.dtype.kind == "c" else turned
    first, second = (turned, factor) if upper else (factor, turned)
    k.solve_triangular(first, b, out, upper=False, left=True, unit=False)
    k.solve_triangular(second, out, out, upper=True, left=True, unit=False)


def _by_factor(do: Do, whole: Any, factor: Any, upper: bool) -> Any:
    """The gradient of a Cholesky factor L, given minus that of ``L @ L.H``."""
    both = do(add, whole, adjoint(do, whole))
    return do(neg, product(do, factor, both) if upper else product(do, both, factor))


class CholeskyInverse(Op):
    """The inverse of A, given its Cholesky factor."""

    name = "cholesky_inverse"
    saves = (Slot("self", 0), Slot("result", 0, output=True))
    complex_saved = "plain"

    def infer(self, factor: Any, upper: bool) -> tuple[Spec, ...]:
        return ((factor.shape, factor.dtype),)

    def kernel(self, k: Any, factor: Any, upper: bool, out: Any) -> None:
        k.triangles(factor, out, below=0, diagonal=0, above=0, fill=1)
        _twice_substituted(k, out, factor, upper, out)

    def workspace(self, factor: Any, upper: bool) -> int:
        return int(factor.nbytes) if factor.dtype.kind == "c" else 0

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        factor, inverse = saved
        return (_by_factor(do, product(do, inverse, grads[0], inverse), factor, node.op_attrs[0]),)


inv_ex = LinalgInvEx()
solve_ex = LinalgSolveEx()
solve_triangular = LinalgSolveTriangular()
cholesky_solve = CholeskySolve()
cholesky_inverse = CholeskyInverse()
