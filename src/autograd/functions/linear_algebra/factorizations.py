"""Factors of matrices: Cholesky, QR, LU, Householder vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....kernels.errors import LinAlgError
from ...ops import factor as ops
from ...ops import shape
from ...ops.householder import geqrf as _geqrf
from ...ops.householder import householder_product as _householder_product
from ...ops.linalg import matmul
from ...ops.matrices import adjoint, check_matrices, check_square, join, triangles
from ...ops.shape import index
from ...out import into
from .solving import first_failure

__all__ = [
    "cholesky",
    "cholesky_ex",
    "geqrf",
    "householder_product",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "lu_unpack",
    "ormqr",
    "qr",
]


class CholeskyEx(NamedTuple):
    """What `cholesky_ex` returns."""

    L: Any
    info: Any


class Qr(NamedTuple):
    """What `qr` returns."""

    Q: Any
    R: Any


class LuFactor(NamedTuple):
    """What `lu_factor` returns."""

    LU: Any
    pivots: Any


class LuFactorEx(NamedTuple):
    """What `lu_factor_ex` returns."""

    LU: Any
    pivots: Any
    info: Any


class Lu(NamedTuple):
    """What `lu` and `lu_unpack` return."""

    P: Any
    L: Any
    U: Any


class Geqrf(NamedTuple):
    """What `geqrf` returns."""

    a: Any
    tau: Any


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:  # PyTorch's name
    """The Cholesky factors of positive definite matrices, and ``info``.

    ``info`` is 0, or the order of the first leading minor that is not positive definite.
    """
    if out is not None:
        return into(out, cholesky_ex, A, upper=upper, check_errors=check_errors)
    return _factored("linalg.cholesky_ex", A, upper, check_errors)


def _factored(name: str, A: Any, upper: bool, check_errors: bool) -> CholeskyEx:
    check_matrices(name, A._array)
    check_square(name, A._array)
    result = CholeskyEx(*ops.cholesky_ex(A, bool(upper)))
    failure = first_failure(result.info) if check_errors else None
    if failure is not None:
        raise LinAlgError(
            f"{name}: {failure[0]}The factorization could not be completed because the input is not positive-definite"
            f" (the leading minor of order {failure[1]} is not positive-definite)."
        )
    return result


def cholesky(A: Any, *, upper: bool = False, out: Any = None) -> Any:  # PyTorch's name
    """The lower triangular L for which ``A = L @ L.mH``, or the upper one for which ``A = U.mH @ U``.

    One half of A is read; L is what backward keeps.

    Raises:
        LinAlgError: if a matrix is not positive definite.
    """
    if out is not None:
        return into(out, cholesky, A, upper=upper)
    return _factored("linalg.cholesky", A, upper, True).L


def qr(A: Any, mode: str = "reduced", *, out: Any = None) -> Any:  # PyTorch's name
    """The factors of ``A = Q @ R``: orthonormal columns, and an upper triangle.

    Args:
        mode: ``"reduced"``; ``"complete"`` for a square Q; ``"r"`` for R alone (without a gradient) and an empty Q.
    """
    if out is not None:
        return into(out, qr, A, mode)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    check_matrices("linalg.qr", A._array)
    return Qr(*ops.qr(A, mode))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """L and U in one matrix, which row each was swapped with (from 1), and ``info``.

    ``info`` is 0, or counts the first zero on the diagonal of U from 1.
    """
    if out is not None:
        return into(out, lu_factor_ex, A, pivot=pivot, check_errors=check_errors)
    return _lu_factored("linalg.lu_factor_ex", A, pivot, check_errors)


def _lu_factored(name: str, A: Any, pivot: bool, check_errors: bool) -> LuFactorEx:
    check_matrices(name, A._array)
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented")
    result = LuFactorEx(*ops.lu_factor_ex(A))
    failure = first_failure(result.info) if check_errors else None
    if failure is not None:
        raise LinAlgError(
            f"{name}: {failure[0]}U[{failure[1]},{failure[1]}] is zero and using it on lu_solve would result in a"
            " division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or"
            " linalg.lu_factor_ex(A, pivot)"
        )
    return result


def lu_factor(A: Any, *, pivot: bool = True, out: Any = None) -> Any:  # PyTorch's name
    """L and U in one matrix, and which row each was swapped with.

    Raises:
        LinAlgError: if the diagonal of U has a zero.
    """
    return (
        LuFactor(*_lu_factored("linalg.lu_factor", A, pivot, True)[:2])
        if out is None
        else into(out, lu_factor, A, pivot=pivot)
    )


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> Any:
    """The factors of ``A = P @ L @ U``, given what `lu_factor` returns; those that are not unpacked are empty."""
    if out is not None:
        return into(out, lu_unpack, LU_data, LU_pivots, unpack_data, unpack_pivots)
    check_matrices("lu_unpack", LU_data._array, "LU_data")
    m, n = LU_data._array.shape[-2:]
    empty = shape.zeros_of(LU_data, (0,))
    if unpack_pivots and LU_pivots._array.dtype != "int32":
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got"
            f" {LU_pivots._array.dtype}"
        )
    P = ops.lu_permutation(LU_pivots, m, LU_data._array.dtype) if unpack_pivots else empty
    if not unpack_data:
        return Lu(P, empty, empty)
    left = LU_data if m >= n else index(LU_data, (..., slice(0, m)))
    right = LU_data if m <= n else index(LU_data, (..., slice(0, n), slice(None)))
    return Lu(P, triangles(left, 1, 0, 0, 1), triangles(right, 0, 1, 1))


def lu(A: Any, *, pivot: bool = True, out: Any = None) -> Any:  # PyTorch's name
    """The factors of ``A = P @ L @ U``: a permutation, a lower triangle with ones on its diagonal, an upper one."""
    if out is not None:
        return into(out, lu, A, pivot=pivot)
    return lu_unpack(*_lu_factored("linalg.lu", A, pivot, False)[:2])


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False, out: Any = None) -> Any:
    """The solutions X of ``A @ X = B``, given what `lu_factor` returns for A.

    Args:
        left: whether A stands on the left, ``A @ X = B``; otherwise ``X @ A = B``.
        adjoint: whether A's conjugate transpose takes its place.
    """
    if out is not None:
        return into(out, lu_solve, LU, pivots, B, left=left, adjoint=adjoint)
    name = "linalg.lu_solve"
    check_matrices(name, LU._array, "LU")
    check_square(name, LU._array, "LU")
    if LU._array.dtype != B._array.dtype:
        raise RuntimeError(
            f"{name}: Expected LU and B to have the same dtype, but found LU of type {LU._array.dtype} and B of type"
            f" {B._array.dtype} instead"
        )
    if pivots._array.dtype != "int32":
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32, got {pivots._array.dtype}")
    if pivots._array.shape != LU._array.shape[:-1]:
        raise RuntimeError(f"{name}: Number of pivots per batch should be same as the dimension of the matrix")
    if B._array.ndim < 2 or B._array.shape[-2 if left else -1] != LU._array.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of LU {list(LU._array.shape)} and B {list(B._array.shape)} for the equation"
            f" {'AX = B' if left else 'XA = B'}"
        )
    return ops.lu_solve(LU, pivots, B, bool(left), bool(adjoint))


# -- Householder vectors -----------------------------------------------------------------------------------------------


def geqrf(input: Any, *, out: Any = None) -> Any:
    """R on and above the diagonal, below it the Householder vectors, and their factors; without a gradient."""
    if out is not None:
        return into(out, geqrf, input)
    check_matrices("geqrf", input._array, "input")
    return Geqrf(*_geqrf(input))


def householder_product(A: Any, tau: Any, *, out: Any = None) -> Any:  # PyTorch's name
    """The first columns of the product of Householder matrices, as many as A has; their vectors are A's columns.

    The vectors lie below the diagonal, which counts as ones; their factors are ``tau``.
    """
    if out is not None:
        return into(out, householder_product, A, tau)
    name = "linalg.householder_product"
    check_matrices(name, A._array, "input")
    m, n = A._array.shape[-2:]
    if m < n:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {m} and {n}")
    if tau._array.ndim != A._array.ndim - 1 or tau._array.shape[-1] > n or tau._array.shape[:-1] != A._array.shape[:-2]:
        raise RuntimeError(
            f"{name}: expected tau of shape {[*A._array.shape[:-2], n]} or fewer factors for an input of shape"
            f" {list(A._array.shape)}, got {list(tau._array.shape)}"
        )
    return _householder_product(A, tau)


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False, *, out: Any = None) -> Any:
    """The product of the square Q of Householder vectors (see `householder_product`) and a matrix.

    Args:
        left: whether Q stands on the left.
        transpose: whether its conjugate transpose takes its place.
    """
    if out is not None:
        return into(out, ormqr, input, tau, other, left, transpose)
    check_matrices("ormqr", input._array, "input")
    check_matrices("ormqr", other._array, "other")
    m, k = input._array.shape[-2:]
    if other._array.shape[-2 if left else -1] != m:
        raise RuntimeError(
            f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got shapes"
            f" {list(other._array.shape)} and {list(input._array.shape)}"
        )
    vectors = index(input, (..., slice(0, tau._array.shape[-1]))) if k > tau._array.shape[-1] else input
    missing = m - vectors._array.shape[-1]
    if missing:
        vectors = join(vectors, shape.zeros_of(input, (*input._array.shape[:-1], missing)), -1)
    q = householder_product(vectors, tau)
    q = adjoint(_call, q) if transpose else q
    return matmul(q, other) if left else matmul(other, q)


def _call(op: Any, *args: Any) -> Any:
    return op(*args)
