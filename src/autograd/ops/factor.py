"""Factors of matrices: Cholesky, QR and LU. The factors are saved, not the matrix.

Source for the derivatives: Murray, Differentiation of the Cholesky decomposition, 2016; Roberts and Roberts, QR and LQ
decomposition matrix backpropagation algorithms for square, wide, and deep matrices, 2020; de Hoog, Anderssen and Lukas,
Differentiation of matrix functionals using triangular factorization, 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec, broadcast_shapes
from .elementwise import add, mul, neg, sub
from .matrices import INFO, adjoint, join, lower, one, product, strictly_lower, triangles, upper
from .shape import index
from .solve import solve_triangular
from .sum_to import reduced


class LinalgCholeskyEx(Op):
    """The Cholesky factors of positive definite matrices, and which of them there are."""

    name = "linalg_cholesky_ex"
    outputs = 2
    saves = (Slot("L", 0, output=True),)
    complex_saved = "plain"

    def infer(self, x: Any, upper: bool) -> tuple[Spec, ...]:
        return (x.shape, x.dtype), (x.shape[:-2], INFO)

    def kernel(self, k: Any, x: Any, upper: bool, out: Any, info: Any) -> None:
        k.cholesky(x, out, info, upper=upper)

    def workspace(self, x: Any, upper: bool) -> int:
        return int(x.nbytes) + one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        factor, grad = (adjoint(do, x) if node.op_attrs[0] else x for x in (saved[0], grads[0]))
        turned = adjoint(do, factor)
        half = lower(do, product(do, turned, grad))
        whole = do(mul, do(add, half, adjoint(do, strictly_lower(do, half))), 0.5)
        whole = do(solve_triangular, turned, whole, True, True, False)
        return (do(solve_triangular, factor, whole, False, False, False),)


class LinalgQr(Op):
    """``Q @ R`` with orthonormal columns of Q and upper triangular R; for mode ``"r"`` Q is empty."""

    name = "linalg_qr"
    outputs = 2
    saves = (Slot("Q", 0, output=True), Slot("R", 1, output=True))
    complex_saved = "plain"

    def infer(self, x: Any, mode: str) -> tuple[Spec, ...]:
        *batch, m, n = x.shape
        k = m if mode == "complete" else min(m, n)
        return ((0,) if mode == "r" else (*batch, m, k), x.dtype), ((*batch, k, n), x.dtype)

    def kernel(self, k: Any, x: Any, mode: str, q: Any, r: Any) -> None:
        k.qr(x, *((r,) if mode == "r" else (q, r)), mode=mode)

    def workspace(self, x: Any, mode: str) -> int:
        (shape, dtype), _ = self.infer(x, mode)
        return 2 * int(x.nbytes) + 2 * one(x) + 2 * math.prod(shape) * dtype.itemsize

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (q, r), (by_q, by_r), (mode,) = saved, grads, node.op_attrs
        if mode == "r":
            raise RuntimeError(
                "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use"
                " linalg.qr(A, mode='reduced') if you are going to require gradients."
            )
        m, n = q.shape[-2], r.shape[-1]
        if mode == "complete" and m > n:
            raise RuntimeError(
                "The QR decomposition is not differentiable when mode='complete' and nrows > ncols; use mode='reduced'"
            )
        if m >= n:
            return (_by_tall(do, q, r, by_q, by_r),)
        # Wide: the first columns are Q @ R1, and R2 = Q.H @ the others.
        first, second = (..., slice(None), slice(0, m)), (..., slice(None), slice(m, n))
        by_others = None
        if by_r is not None:
            by_second = do(index, by_r, second)
            by_others = product(do, q, by_second)
            more = product(do, q, do(index, r, second), adjoint(do, by_second))
            by_q = more if by_q is None else do(add, by_q, more)
        by_first = _by_tall(do, q, do(index, r, first), by_q, None if by_r is None else do(index, by_r, first))
        if by_others is None:
            by_others = do(mul, do(index, r, second), 0.0)
        return (do(join, by_first, by_others, -1),)


def _by_tall(do: Do, q: Any, r: Any, by_q: Any, by_r: Any) -> Any:
    """The gradient of a matrix with at least as many rows as columns."""
    core = None
    if by_r is not None:
        core = product(do, by_r, adjoint(do, r))
    if by_q is not None:
        turn = product(do, adjoint(do, q), by_q)
        core = do(neg, turn) if core is None else do(sub, core, turn)
    half = do(triangles, core, 0, 0.5, 1)
    whole = product(do, q, do(add, half, adjoint(do, half)))
    if by_q is not None:
        whole = do(add, whole, by_q)
    return do(solve_triangular, adjoint(do, r), whole, False, False, False)


# -- LU ----------------------------------------------------------------------------------------------------------------


class LinalgLuFactorEx(Op):
    """L and U in one matrix, the swaps of rows, and the first zero on the diagonal of U."""

    name = "linalg_lu_factor_ex"
    outputs = 3
    saves = (Slot("LU", 0, output=True), Slot("pivots", 1, output=True))
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return (x.shape, x.dtype), ((*x.shape[:-2], min(x.shape[-2:])), INFO), (x.shape[:-2], INFO)

    def kernel(self, k: Any, x: Any, lu: Any, pivots: Any, info: Any) -> None:
        k.lu_factor(x, lu, pivots, info)

    def workspace(self, x: Any) -> int:
        """Some rows and columns of each matrix, and copies of blocks of them for BLAS."""
        return int((4 * math.prod(x.shape[:-2]) + 64) * (x.shape[-2] + x.shape[-1]) * x.dtype.itemsize)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        lu, pivots = saved
        (grad,) = grads[:1]
        m, n = lu.shape[-2:]
        k = min(m, n)
        square, by_square = (do(index, x, (..., slice(0, k), slice(0, k))) for x in (lu, grad))
        left = do(triangles, square, 1, 0, 0, 1)
        right = upper(do, square)
        below = product(do, adjoint(do, left), strictly_lower(do, by_square))
        above = product(do, upper(do, by_square), adjoint(do, right))
        turned_left, turned_right = adjoint(do, left), adjoint(do, right)
        rest = None
        if m > n:  # the lower rows are L2 @ U
            part = (..., slice(k, m), slice(None))
            by_lower = do(index, grad, part)
            rest = do(solve_triangular, turned_right, by_lower, False, False, False)
            above = do(sub, above, product(do, adjoint(do, do(index, lu, part)), by_lower))
        elif m < n:  # the columns on the right are L @ U2
            part = (..., slice(None), slice(k, n))
            by_right = do(index, grad, part)
            rest = do(solve_triangular, turned_left, by_right, True, True, True)
            below = do(sub, below, product(do, by_right, adjoint(do, do(index, lu, part))))
        core = do(add, strictly_lower(do, below), upper(do, above))
        whole = do(solve_triangular, turned_left, core, True, True, True)
        whole = do(solve_triangular, turned_right, whole, False, False, False)
        if rest is not None:
            whole = do(join, whole, rest, -2 if m > n else -1)
        return (do(permute_rows, whole, pivots, True),)


class PermuteRows(Op):
    """The rows of matrices in the order that the swaps of an LU factorisation lead to, or back from it."""

    name = "permute_rows"
    inputs = 2
    saves = (Slot("pivots", 1),)

    def infer(self, x: Any, pivots: Any, inverse: bool) -> tuple[Spec, ...]:
        return (((*broadcast_shapes(self.name, x.shape[:-2], pivots.shape[:-1]), *x.shape[-2:]), x.dtype),)

    def kernel(self, k: Any, x: Any, pivots: Any, inverse: bool, out: Any) -> None:
        k.permute_rows(x, pivots, out, inverse=inverse)

    def workspace(self, x: Any, pivots: Any, inverse: bool) -> int:
        return 0 if x.flags.c_contiguous else one(x)

    def attrs(self, x: Any, pivots: Any, inverse: bool) -> Any:
        return inverse, x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        inverse, shape = node.op_attrs
        return reduced(do, do(permute_rows, grads[0], saved[0], not inverse), shape), None


class LuPermutation(Op):
    """The permutation matrix that swaps of rows make."""

    name = "lu_permutation"
    differentiable = False

    def infer(self, pivots: Any, rows: int, dtype: np.dtype[Any]) -> tuple[Spec, ...]:
        return (((*pivots.shape[:-1], rows, rows), dtype),)

    def kernel(self, k: Any, pivots: Any, rows: int, dtype: np.dtype[Any], out: Any) -> None:
        k.lu_permutation(pivots, out)


class LinalgLuSolve(Op):
    """The solutions X of ``A @ X = B`` or ``X @ A = B``, given the LU factorisation of A, or of its adjoint."""

    name = "linalg_lu_solve"
    inputs = 3
    saves = (Slot("LU", 0), Slot("pivots", 1), Slot("result", 0, output=True, needed_for=(0,)))
    complex_saved = "plain"

    def infer(self, lu: Any, pivots: Any, b: Any, left: bool, adjoint: bool) -> tuple[Spec, ...]:
        return (((*broadcast_shapes(self.name, lu.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype),)

    def kernel(self, k: Any, lu: Any, pivots: Any, b: Any, left: bool, adjoint: bool, out: Any) -> None:
        k.lu_solve(lu, pivots, b, out, left=left, adjoint=adjoint)

    def workspace(self, lu: Any, pivots: Any, b: Any, left: bool, adjoint: bool) -> int:
        return one(b) + (int(lu.nbytes) + int(b.nbytes) if lu.dtype.kind == "c" else 0)

    def attrs(self, lu: Any, pivots: Any, b: Any, left: bool, adjoint: bool) -> Any:
        return lu.shape, b.shape, left, adjoint

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (lu, pivots, x), (shape_lu, shape_b, left, turned) = saved, node.op_attrs
        by_b = do(lu_solve, lu, pivots, grads[0], left, not turned)
        by_lu = None
        if node.needs_grad[0]:
            y, z = (x, by_b) if turned else (by_b, x)
            by_a = product(do, y, adjoint(do, z)) if left else product(do, adjoint(do, z), y)
            by_a = do(neg, do(permute_rows, by_a, pivots, False))
            by_left = product(do, by_a, adjoint(do, upper(do, lu)))
            by_right = product(do, adjoint(do, do(triangles, lu, 1, 0, 0, 1)), by_a)
            by_lu = reduced(do, do(add, strictly_lower(do, by_left), upper(do, by_right)), shape_lu)
        return by_lu, None, reduced(do, by_b, shape_b) if node.needs_grad[2] else None


cholesky_ex = LinalgCholeskyEx()
qr = LinalgQr()
lu_factor_ex = LinalgLuFactorEx()
permute_rows = PermuteRows()
lu_permutation = LuPermutation()
lu_solve = LinalgLuSolve()
