"""Singular values and eigenvalues."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...ops import reduce
from ...ops import spectral as ops
from ...ops.cast import to_dtype
from ...ops.elementwise import abs as absolute
from ...ops.elementwise import gt, mul
from ...ops.matrices import check_matrices, check_square
from ...ops.shape import index
from ...out import into
from .solving import tolerances

__all__ = [
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "matrix_rank",
    "svd",
    "svdvals",
]


class Svd(NamedTuple):
    """What `svd` returns."""

    U: Any
    S: Any
    Vh: Any


class Eig(NamedTuple):
    """What `eig` and `eigh` return."""

    eigenvalues: Any
    eigenvectors: Any


def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> Any:  # PyTorch's name
    """The singular value decomposition ``A = U @ diag(S) @ Vh``; the results are what backward keeps.

    Args:
        full_matrices: whether U and Vh are square; their first ``len(S)`` columns and rows have gradients.
        driver: must be None.

    Raises:
        LinAlgError: if it does not converge, as with NaN.
    """
    if out is not None:
        return into(out, svd, A, full_matrices, driver=driver)
    check_matrices("linalg.svd", A._array)
    _check_driver("linalg.svd", driver)
    return Svd(*ops.svd(A, bool(full_matrices)))


def _check_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            f"{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend, and not by"
            f" stowgrad; got {driver!r}"
        )


def svdvals(A: Any, *, driver: str | None = None, out: Any = None) -> Any:  # PyTorch's name
    """The singular values, the largest first; backward keeps A, and factorises it again."""
    if out is not None:
        return into(out, svdvals, A, driver=driver)
    check_matrices("linalg.svdvals", A._array)
    _check_driver("linalg.svdvals", driver)
    return ops.svdvals(A)


def _reads_upper(name: str, A: Any, UPLO: str) -> bool:
    check_matrices(name, A._array)
    check_square(name, A._array)
    if UPLO.upper() not in ("U", "L"):
        raise RuntimeError(f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper() == "U"


def eigh(A: Any, UPLO: str = "L", *, out: Any = None) -> Any:  # PyTorch's name
    """The eigenvalues, in ascending order, and orthonormal eigenvectors of Hermitian matrices.

    Args:
        UPLO: which half of A is read, ``"L"`` (lower) or ``"U"``.
    """
    if out is not None:
        return into(out, eigh, A, UPLO)
    return Eig(*ops.eigh(A, _reads_upper("linalg.eigh", A, UPLO)))


def eigvalsh(A: Any, UPLO: str = "L", *, out: Any = None) -> Any:  # PyTorch's name
    """The eigenvalues of Hermitian matrices, in ascending order."""
    if out is not None:
        return into(out, eigvalsh, A, UPLO)
    return ops.eigvalsh(A, _reads_upper("linalg.eigvalsh", A, UPLO))


def eig(A: Any, *, out: Any = None) -> Any:  # PyTorch's name
    """The eigenvalues and eigenvectors of square matrices, all of them complex.

    Gradients are defined for what does not depend on the vectors' phases.
    """
    if out is not None:
        return into(out, eig, A)
    check_matrices("linalg.eig", A._array)
    check_square("linalg.eig", A._array)
    return Eig(*ops.eig(A))


def eigvals(A: Any, *, out: Any = None) -> Any:  # PyTorch's name
    """The eigenvalues of square matrices, as complex numbers."""
    if out is not None:
        return into(out, eigvals, A)
    check_matrices("linalg.eigvals", A._array)
    check_square("linalg.eigvals", A._array)
    return ops.eigvals(A)


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None
) -> Any:  # PyTorch's name
    """How many singular values are larger than ``max(atol, rtol * the largest)``.

    Args:
        tol: ``atol`` by its old name.
        hermitian: whether the absolute values of the eigenvalues of the Hermitian A are counted.
        atol, rtol: numbers, or a tensor with one for each matrix.
    """
    if out is not None:
        return into(out, matrix_rank, A, tol, hermitian, atol=atol, rtol=rtol)
    check_matrices("linalg.matrix_rank", A._array)
    atol, rtol = (tol, 0.0) if tol is not None else tolerances(A, atol, rtol)
    A = A.detach()
    values = absolute(eigvalsh(A)) if hermitian else svdvals(A)
    if not A._array.size:
        return reduce.sum(to_dtype(values, values._array.dtype), (-1,)).long()
    largest = reduce.amax(values, (-1,), True)
    relative, absolute_one = (index(v, (..., None)) if getattr(v, "ndim", 0) else v for v in (rtol, atol))
    counted = mul(gt(values, absolute_one), gt(values, mul(largest, relative)))
    return reduce.sum(counted, (-1,))
