"""Inverses, systems of equations, determinants."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....kernels.errors import LinAlgError
from ....memory import META
from ...ops import determinant as determinants
from ...ops import shape
from ...ops import solve as ops
from ...ops.cast import clone, to_dtype
from ...ops.elementwise import abs as absolute
from ...ops.elementwise import add, eq, log, mul, square, sub, where
from ...ops.linalg import matmul
from ...ops.matrices import check_matrices, check_numbers, check_square
from ...ops.pinv import lstsq as _lstsq
from ...ops.pinv import matrix_exp as _matrix_exp
from ...ops.pinv import pinv as _pinv
from ...ops.reduce import sum
from ...ops.shape import index, transpose
from ...ops.sum_to import expand
from ...out import into
from ...record import broadcast_shapes

__all__ = [
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inv",
    "inv_ex",
    "logdet",
    "lstsq",
    "matrix_exp",
    "pinv",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "tensorinv",
    "tensorsolve",
    "triangular_solve",
]


class InvEx(NamedTuple):
    """What `inv_ex` returns."""

    inverse: Any
    info: Any


class SolveEx(NamedTuple):
    """What `solve_ex` returns."""

    result: Any
    info: Any


class TriangularSolve(NamedTuple):
    """What `triangular_solve` returns."""

    solution: Any
    cloned_coefficient: Any


class Slogdet(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


class Lstsq(NamedTuple):
    """What `lstsq` returns."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def first_failure(info: Any) -> tuple[str, int] | None:
    """Which matrix of a batch failed, as text, and the step at which it did; None if none did."""
    if info._storage.device is META:
        return None
    values = info.numpy(force=True)
    if not values.any():
        return None
    position = int(values.reshape(-1).nonzero()[0][0])
    return f"(Batch element {position}): " if values.ndim else "", int(values.reshape(-1)[position])


def inv_ex(A: Any, *, check_errors: bool = False, out: Any = None) -> Any:  # PyTorch's name
    """The inverses of square matrices, and ``info``: 0, or from 1 on which diagonal element of U (of LU) is zero."""
    if out is not None:
        return into(out, inv_ex, A, check_errors=check_errors)
    return _inverted("linalg.inv_ex", A, check_errors)


def _inverted(name: str, A: Any, check_errors: bool) -> InvEx:
    check_square(name, A._array)
    check_matrices(name, A._array)
    result = InvEx(*ops.inv_ex(A))
    failure = first_failure(result.info) if check_errors else None
    if failure is not None:
        raise LinAlgError(
            f"{name}: {failure[0]}The diagonal element {failure[1]} is zero, the inversion could not be completed"
            " because the input matrix is singular."
        )
    return result


def inv(A: Any, *, out: Any = None) -> Any:  # PyTorch's name
    """The inverses of square matrices; the inverse is what backward keeps.

    Raises:
        LinAlgError: if a matrix is singular.
        RuntimeError: if they are not square.
    """
    return _inverted("linalg.inv", A, True).inverse if out is None else into(out, inv, A)


def is_vector(A: Any, B: Any) -> bool:
    """Whether the right-hand side of an equation is (a batch of) vectors."""
    a, b = A._array.shape, B._array.shape
    return len(b) == 1 or (len(a) - 1 == len(b) and b == a[:-1])


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """The solutions X of ``A @ X = B`` (``X @ A = B`` if not ``left``), and ``info`` as of `inv_ex`."""
    if out is not None:
        return into(out, solve_ex, A, B, left=left, check_errors=check_errors)
    return _solved("linalg.solve_ex", A, B, left, check_errors)


def _solved(name: str, A: Any, B: Any, left: bool, check_errors: bool) -> SolveEx:
    check_matrices(name, A._array)
    check_square(name, A._array)
    _check_dtypes(name, A, B)
    vector = is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case"
            " linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    b = index(B, (..., None)) if vector else B
    _check_equation(name, A, b, left)
    a = A if left else transpose(A, -1, -2)
    x, info = ops.solve_ex(a, b if left else transpose(b, -1, -2))
    failure = first_failure(info) if check_errors else None
    if failure is not None:
        raise LinAlgError(f"{name}: {failure[0]}The solver failed because the input matrix is singular.")
    x = x if left else transpose(x, -1, -2)
    return SolveEx(index(x, (..., 0)) if vector else x, info)


def _check_dtypes(name: str, A: Any, B: Any) -> None:
    if A._array.dtype != B._array.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {A._array.dtype} and B of type"
            f" {B._array.dtype} instead"
        )


def _check_equation(name: str, A: Any, B: Any, left: bool) -> None:
    a, b = A._array.shape, B._array.shape
    if len(b) < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions, got shape {list(b)}.")
    if a[-2 if left else -1] != b[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'}"
            f" ({a[-2]}x{a[-1]} and {b[-2]}x{b[-1]})"
        )


def solve(A: Any, B: Any, *, left: bool = True, out: Any = None) -> Any:
    """The solutions X of ``A @ X = B``, or of ``X @ A = B`` if not ``left``; A and X are kept for backward.

    B may be a vector for each matrix. Batches are broadcast.

    Raises:
        LinAlgError: if a matrix is singular.
        RuntimeError: for shapes and dtypes that do not fit.

    >>> import stowgrad
    >>> stowgrad.linalg.solve(stowgrad.tensor([[2.0, 0.0], [0.0, 4.0]]), stowgrad.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return _solved("linalg.solve", A, B, left, True).result if out is None else into(out, solve, A, B, left=left)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Any = None
) -> Any:
    """The solutions X of ``A @ X = B`` (``X @ A = B`` if not ``left``) for triangular A; no zero is checked for.

    Args:
        upper: which half of A is read.
        unitriangular: whether the diagonal counts as ones, and is not read.
    """
    if out is not None:
        return into(out, solve_triangular, A, B, upper=upper, left=left, unitriangular=unitriangular)
    name = "linalg.solve_triangular"
    check_matrices(name, A._array)
    check_square(name, A._array)
    _check_dtypes(name, A, B)
    _check_equation(name, A, B, left)
    return ops.solve_triangular(A, B, bool(upper), bool(left), bool(unitriangular))


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False, *, out: Any = None
) -> Any:
    """The solutions X of ``A @ X = b`` (of A transposed if ``transpose``), and a copy of A."""
    if out is not None:
        return into(out, triangular_solve, b, A, upper, transpose, unitriangular)
    check_square("triangular_solve", A._array)
    batch = broadcast_shapes("triangular_solve", A._array.shape[:-2], b._array.shape[:-2])
    a = shape.transpose(A, -1, -2) if transpose else A
    x = solve_triangular(a, b, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return TriangularSolve(x, clone(expand(A, (*batch, *A._array.shape[-2:]))))


def cholesky_solve(B: Any, L: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The solutions X of ``A @ X = B``, given the Cholesky factor of A: lower, or ``upper``."""
    if out is not None:
        return into(out, cholesky_solve, B, L, upper)
    check_matrices("cholesky_solve", B._array, "B")
    check_square("cholesky_solve", L._array, "L")
    _check_dtypes("cholesky_solve", L, B)
    _check_equation("cholesky_solve", L, B, True)
    return ops.cholesky_solve(B, L, bool(upper))


def cholesky_inverse(L: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The inverse of A, given its Cholesky factor: lower, or ``upper``."""
    if out is not None:
        return into(out, cholesky_inverse, L, upper)
    check_square("cholesky_inverse", L._array)
    check_numbers("cholesky_inverse", L._array)
    return ops.cholesky_inverse(L, bool(upper))


def tensorinv(A: Any, ind: int = 2, *, out: Any = None) -> Any:
    """The inverse of `tensordot` with A: A as a matrix of its first ``ind`` dimensions and the others."""
    if out is not None:
        return into(out, tensorinv, A, ind)
    sizes = A._array.shape
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: Expected a strictly positive integer for 'ind', got {ind}")
    rows, columns = sizes[:ind], sizes[ind:]
    matrix = _as_matrix("linalg.tensorinv", A, rows, columns)
    return shape.reshape(inv(matrix), (*columns, *rows))


def _as_matrix(name: str, A: Any, rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
    sizes = [1, 1]
    for number, part in enumerate((rows, columns)):
        for size in part:
            sizes[number] *= size
    if sizes[0] != sizes[1]:
        raise RuntimeError(
            f"{name}: expected the product of the sizes {list(rows)} to equal that of {list(columns)}, but got"
            f" {sizes[0]} and {sizes[1]}"
        )
    return shape.reshape(A, tuple(sizes))


def tensorsolve(A: Any, B: Any, dims: tuple[int, ...] | None = None, *, out: Any = None) -> Any:
    """The X for which ``tensordot(A, X, X.ndim) = B``; the dimensions ``dims`` of A are moved to its end first."""
    if out is not None:
        return into(out, tensorsolve, A, B, dims)
    ndim = A._array.ndim
    if dims is not None:
        last = [dim % ndim for dim in dims]
        A = shape.permute(A, (*(dim for dim in range(ndim) if dim not in last), *last))
    rows, columns = A._array.shape[: B._array.ndim], A._array.shape[B._array.ndim :]
    matrix = _as_matrix("linalg.tensorsolve", A, rows, columns)
    return shape.reshape(solve(matrix, shape.reshape(B, (-1,))), columns)


# -- determinants ------------------------------------------------------------------------------------------------------


def det(A: Any, *, out: Any = None) -> Any:  # PyTorch's name
    """The determinants of square matrices."""
    if out is not None:
        return into(out, det, A)
    check_square("linalg.det", A._array)
    check_numbers("linalg.det", A._array)
    return determinants.det(A)


def slogdet(A: Any, *, out: Any = None) -> Any:  # PyTorch's name
    """The signs of determinants (of modulus 1, or 0) and the logarithms of their absolute values."""
    if out is not None:
        return into(out, slogdet, A)
    check_square("linalg.slogdet", A._array)
    check_numbers("linalg.slogdet", A._array)
    return Slogdet(*determinants.slogdet(A))


def logdet(A: Any) -> Any:
    """The logarithms of determinants: NaN where a real one is negative."""
    check_square("logdet", A._array)
    check_numbers("logdet", A._array)
    sign, logarithm = determinants.slogdet(A)
    if A._array.dtype.kind == "c":
        return add(log(sign), logarithm)
    return where(eq(sign, -1.0), float("nan"), logarithm)


# -- without an inverse ------------------------------------------------------------------------------------------------


def tolerances(A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """What ``atol`` and ``rtol`` stand for: by default, ``rtol`` counts unless there is an ``atol``."""
    if rtol is None:
        sizes = A._array.shape
        default = float(np.finfo(A._array.dtype).eps) * max(sizes[-2:])
        if atol is None:
            rtol = default
        elif hasattr(atol, "_array"):
            zero = mul(atol, 0.0)
            rtol = where(absolute(atol) > 0, zero, add(zero, default))
        else:
            rtol = default if not atol > 0 else 0.0
    return 0.0 if atol is None else atol, rtol


def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None
) -> Any:
    """The Moore-Penrose inverses of matrices.

    Singular values up to ``max(atol, rtol * the largest)`` count as zero.

    Args:
        rcond: ``rtol`` by its old name.
        hermitian: whether A is taken to be Hermitian, and found by its eigenvalues.
        atol, rtol: numbers, or a tensor with one for each matrix.
    """
    if out is not None:
        return into(out, pinv, A, rcond, hermitian, atol=atol, rtol=rtol)
    check_matrices("linalg.pinv", A._array)
    if hermitian:
        check_square("linalg.pinv", A._array)
    atol, rtol = tolerances(A, atol, rcond if rtol is None else rtol)
    return _pinv(A, atol, rtol, bool(hermitian))


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None, out: Any = None) -> Any:
    """The X for which ``A @ X - B`` is shortest, and the shortest of them where A has not full rank.

    Residuals (squared), ranks and singular values are empty where PyTorch's routine of that name gives none.

    Args:
        rcond: singular values up to this times the largest count as zero.
        driver: ``"gelsy"`` (the default), ``"gels"``, ``"gelsd"`` or ``"gelss"``; all are computed by gelsd.
    """
    if out is not None:
        return into(out, lstsq, A, B, rcond, driver=driver)
    name = "linalg.lstsq"
    check_matrices(name, A._array)
    _check_dtypes(name, A, B)
    chosen = "gelsy" if driver is None else driver
    if chosen not in ("gels", "gelsd", "gelss", "gelsy"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver!r}")
    vector = B._array.ndim == 1 or (A._array.ndim - 1 == B._array.ndim and B._array.shape == A._array.shape[:-1])
    b = index(B, (..., None)) if vector else B
    m, n = A._array.shape[-2:]
    if b._array.ndim < 2 or b._array.shape[-2] != m:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size(-2), got {list(A._array.shape)} and {list(B._array.shape)}"
        )
    batch = broadcast_shapes(name, A._array.shape[:-2], b._array.shape[:-2])
    A, b = expand(A, (*batch, m, n)), expand(b, (*batch, *b._array.shape[-2:]))
    cutoff = float(np.finfo(A._array.dtype).eps) * max(m, n) if rcond is None else float(rcond)
    x, rank, values = _lstsq(A, b, cutoff)
    values = values.detach()
    full = m > n and chosen != "gelsy" and (rank._storage.device is META or bool((rank._array == n).all()))
    residuals = absolute(shape.reshape(index(x, (..., slice(0, 0))), (0,)))
    if full:
        residuals = sum(square(absolute(sub(matmul(A, x), b))), (-2,), False)
    empty = shape.zeros_of(values, (0,))
    return Lstsq(
        index(x, (..., 0)) if vector else x,
        residuals,
        shape.zeros_of(rank, (0,)) if chosen == "gels" else rank,
        values if chosen in ("gelsd", "gelss") else empty,
    )


def matrix_exp(A: Any) -> Any:  # PyTorch's name
    """The exponentials of square matrices."""
    check_numbers("linalg.matrix_exp", A._array, low_precision=True)
    check_square("linalg.matrix_exp", A._array)
    dtype = A._array.dtype
    if dtype.itemsize > 2:
        return _matrix_exp(A)
    return to_dtype(_matrix_exp(to_dtype(A, np.dtype(np.float32))), dtype)
