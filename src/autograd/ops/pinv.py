"""Pseudo-inverses, least squares, and the exponential of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .elementwise import add, sub
from .matrices import adjoint, join, one, product, real_dtype
from .shape import index, zeros_of
from .spectral import svd_workspace


class LinalgPinv(Op):
    """The Moore-Penrose inverses of matrices; small singular values count as 0.

    Source for the derivative: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate, 1973.
    """

    name = "linalg_pinv"
    inputs = 3
    saves = (Slot("self", 0), Slot("result", 0, output=True))
    complex_saved = "plain"

    def infer(self, x: Any, atol: Any, rtol: Any, hermitian: bool) -> tuple[Spec, ...]:
        return (((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype),)

    def kernel(self, k: Any, x: Any, atol: Any, rtol: Any, hermitian: bool, out: Any) -> None:
        k.pinv(x, atol, rtol, out, hermitian=hermitian)

    def workspace(self, x: Any, *rest: Any) -> int:
        return svd_workspace(x, False) + 3 * int(x.nbytes)

    def attrs(self, x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return by_pinv(do, grads[0], *saved), None, None


def by_pinv(do: Do, grad: Any, a: Any, inverse: Any) -> Any:
    """The gradient of a matrix, given that of its pseudo-inverse; products are of the smaller size."""
    inverse_h, grad_h = adjoint(do, inverse), adjoint(do, grad)
    if a.shape[-2] <= a.shape[-1]:
        k = product(do, grad_h, inverse)
        k_inverse_h = product(do, k, inverse_h)
        first = do(sub, k_inverse_h, adjoint(do, product(do, inverse, k)))
        second = product(do, a, inverse, k_inverse_h)
        third = product(do, inverse_h, inverse, do(sub, grad_h, product(do, k, a)))
        return do(add, do(sub, first, second), third)
    k = product(do, inverse, grad_h)
    inverse_h_k = product(do, inverse_h, k)
    first = do(sub, inverse_h_k, adjoint(do, product(do, k, inverse)))
    second = product(do, do(sub, grad_h, product(do, a, k)), inverse, inverse_h)
    third = product(do, inverse_h_k, inverse, a)
    return do(sub, do(add, first, second), third)


class LinalgLstsq(Op):
    """The shortest of the X for which ``A @ X - B`` is shortest, and ranks and singular values of A."""

    name = "linalg_lstsq"
    inputs = 2
    outputs = 3
    saves = (Slot("self", 0), Slot("b", 1, needed_for=(0,)))
    complex_saved = "plain"

    def infer(self, a: Any, b: Any, rcond: float) -> tuple[Spec, ...]:
        batch = a.shape[:-2]
        return (
            ((*batch, a.shape[-1], b.shape[-1]), a.dtype),
            (batch, np.dtype(np.int64)),
            ((*batch, min(a.shape[-2:])), real_dtype(a.dtype)),
        )

    def kernel(self, k: Any, a: Any, b: Any, rcond: float, out: Any, rank: Any, s: Any) -> None:
        k.lstsq(a, b, out, rank, s, rcond=rcond)

    def workspace(self, a: Any, b: Any, rcond: float) -> int:
        return 6 * one(a) + 3 * one(b)

    def attrs(self, a: Any, b: Any, rcond: float) -> Any:
        return rcond

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (a, b), grad = saved, grads[0]
        if grad is None:
            return None, None
        inverse = do(pinv, a, 0.0, node.op_attrs, False)
        by_a = by_b = None
        if node.needs_grad[0]:
            by_a = by_pinv(do, product(do, grad, adjoint(do, b)), a, inverse)
        if node.needs_grad[1]:
            by_b = product(do, adjoint(do, inverse), grad)
        return by_a, by_b


class LinalgMatrixExp(Op):
    """The exponentials of square matrices.

    Source for the derivative: Higham, Functions of Matrices, 2008, theorem 3.6: it stands beside the exponential of a
    matrix of twice the size.
    """

    name = "linalg_matrix_exp"
    saves = (Slot("self", 0),)
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.matrix_exp(x, out)

    def workspace(self, x: Any) -> int:
        return 12 * one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        a = adjoint(do, saved[0])
        size = a.shape[-1]
        above = do(join, a, grads[0], -1)
        below = do(join, do(zeros_of, a, a.shape), a, -1)
        whole = do(matrix_exp, do(join, above, below, -2))
        return (do(index, whole, (..., slice(0, size), slice(size, 2 * size))),)

    fresh = False


pinv = LinalgPinv()
lstsq = LinalgLstsq()
matrix_exp = LinalgMatrixExp()
