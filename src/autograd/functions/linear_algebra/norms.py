"""Norms of vectors and matrices, and the condition of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....memory import META
from ...ops import reduce, shape
from ...ops.cast import to_dtype
from ...ops.elementwise import div, eq, mul, where
from ...ops.matrices import check_matrices, check_numbers, check_square
from ...ops.promotion import category
from ...ops.vector_norm import vector_norm as _vector_norm
from ...out import into
from ...record import normalize_dim
from .solving import inv_ex
from .spectral import svdvals

__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]


def _cast(name: str, x: Any, dtype: Any) -> Any:
    """A tensor in the dtype that a norm is to be computed in."""
    check_numbers(name, x._array, low_precision=True)
    if dtype is None:
        return x
    dtype = np.dtype(dtype)
    if category(dtype) < 2 or category(dtype) != category(x._array.dtype):
        raise RuntimeError(
            f"{name}: the dtype of the input ({x._array.dtype}) should be convertible without narrowing to the"
            f" specified dtype ({dtype}): both real or both complex"
        )
    if dtype.itemsize < x._array.dtype.itemsize:
        raise RuntimeError(
            f"{name}: the dtype of the input ({x._array.dtype}) should be convertible without narrowing to the"
            f" specified dtype ({dtype})"
        )
    return x if dtype == x._array.dtype else to_dtype(x, dtype)


def vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """``(|x| ** ord).sum(dim) ** (1 / ord)``: x counts as a vector along ``dim``, or as a whole.

    Args:
        ord: a number; ``inf`` and ``-inf`` for the largest and smallest absolute value, 0 for how many are not 0.

    Raises:
        RuntimeError: for an order without a value for vectors without elements, if there are such.
    """
    if out is not None:
        return into(out, vector_norm, x, ord, dim, keepdim, dtype=dtype)
    x = _cast("linalg.vector_norm", x, dtype)
    if isinstance(ord, str):
        raise TypeError(f"linalg.vector_norm: expected ord to be a number, got {ord!r}")
    dims = reduce.normalize_dims("linalg.vector_norm", dim, x._array.ndim)
    if (ord < 0 or ord == math.inf) and any(x._array.shape[d] == 0 for d in dims):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have"
            " an identity"
        )
    return _vector_norm(x, ord, dims, keepdim)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:  # PyTorch's name
    """A norm of matrices.

    Args:
        ord: ``"fro"`` (the root of the sum of squares), ``"nuc"`` (the sum of singular values), 2 and -2 (the largest
            and smallest of them), 1 and -1 (the largest and smallest sum of a column), ``inf`` and ``-inf`` (of a row).
        dim: the two dimensions of the matrices.
    """
    if out is not None:
        return into(out, matrix_norm, A, ord, dim, keepdim, dtype=dtype)
    name = "linalg.matrix_norm"
    if A._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    A = _cast(name, A, dtype)
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, columns = (normalize_dim(name, d, A._array.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({rows}, {columns})")
    if ord == "fro":
        return _vector_norm(A, 2, (rows, columns), keepdim)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        return _of_singular_values(A, ord, rows, columns, keepdim)
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = _vector_norm(A, 1, (summed,), keepdim)
    fold = reduce.amax if ord > 0 else reduce.amin
    return fold(sums, (kept - (kept > summed and not keepdim),), keepdim)


def _of_singular_values(A: Any, ord: Any, rows: int, columns: int, keepdim: bool) -> Any:
    check_numbers("linalg.matrix_norm", A._array)
    others = tuple(d for d in range(A._array.ndim) if d not in (rows, columns))
    values = svdvals(shape.permute(A, (*others, rows, columns)))
    fold = reduce.sum if ord == "nuc" else reduce.amax if ord > 0 else reduce.amin
    found = fold(values, (-1,), False)
    sizes = tuple(1 if d in (rows, columns) else size for d, size in enumerate(A._array.shape))
    return shape.reshape(found, sizes) if keepdim else found


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Any = None, dtype: Any = None) -> Any:
    """`vector_norm` along one dimension, `matrix_norm` of two; without ``ord`` the 2-norm of all that ``dim`` names.

    With ``ord`` and without ``dim``, A must be a vector or a matrix.
    """
    if out is not None:
        return into(out, norm, A, ord, dim, keepdim, dtype=dtype)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None:
        if A._array.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A._array.ndim}D."
            )
        dim = (0,) if A._array.ndim == 1 else (0, 1)
    elif isinstance(dim, int):
        dim = (dim,)
    if len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if isinstance(ord, str) and len(dim) != 2:
        raise RuntimeError(f"linalg.norm: the norm {ord!r} is one of matrices, dim must be of length 2")
    if len(dim) == 2:
        return matrix_norm(A, ord, dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Any, p: Any = None, *, out: Any = None) -> Any:  # PyTorch's name
    """The condition number ``norm(A, p) * norm(inv(A), p)``; infinite for singular matrices.

    Args:
        p: an order of `matrix_norm`; None is 2, for which A need not be square.
    """
    if out is not None:
        return into(out, cond, A, p)
    check_matrices("linalg.cond", A._array)
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        values = svdvals(A)
        if not A._array.size:
            return reduce.sum(values, (-1,), False)
        largest, smallest = (shape.index(values, (..., place)) for place in (0, -1))
        return div(largest, smallest) if p is None or p > 0 else div(smallest, largest)
    check_square("linalg.cond", A._array)
    if not A._array.size:
        return shape.zeros_of(_vector_norm(A, 2, (-2, -1), False), A._array.shape[:-2])
    inverse, info = inv_ex(A)
    if p == "nuc":
        of_both = mul(matrix_norm(A, p), matrix_norm(_finite(inverse, info), p))
        return where(eq(info, 0), of_both, math.inf)
    inverse = where(shape.reshape(eq(info, 0), (*info._array.shape, 1, 1)), inverse, math.inf)
    return mul(matrix_norm(A, p), matrix_norm(inverse, p))


def _finite(inverse: Any, info: Any) -> Any:
    """The inverses that there are, and zeros for the others."""
    if info._storage.device is META:
        return inverse
    return where(shape.reshape(eq(info, 0), (*info._array.shape, 1, 1)), inverse, 0.0)
