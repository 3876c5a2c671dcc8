"""Factorisations, solutions and norms under the names that PyTorch has at the top level."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..ops import shape
from ..ops.complex import conj
from ..out import into
from .linear_algebra import factorizations, norms, solving, spectral
from .linear_algebra.factorizations import geqrf, lu_unpack, ormqr
from .linear_algebra.solving import cholesky_inverse, cholesky_solve, logdet, matrix_exp, triangular_solve

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "geqrf",
    "inverse",
    "logdet",
    "lu",
    "lu_solve",
    "lu_unpack",
    "matrix_exp",
    "norm",
    "orgqr",
    "ormqr",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "triangular_solve",
]


class _Svd(NamedTuple):
    U: Any
    S: Any
    V: Any


def cholesky(input: Any, upper: bool = False, *, out: Any = None) -> Any:
    """`stowgrad.linalg.cholesky` by its old name."""
    return factorizations.cholesky(input, upper=upper, out=out)


def inverse(input: Any, *, out: Any = None) -> Any:
    """`stowgrad.linalg.inv` by its old name."""
    return solving.inv(input, out=out)


def det(input: Any) -> Any:
    """The determinants of square matrices."""
    return solving.det(input)


def slogdet(input: Any, *, out: Any = None) -> Any:
    """The signs of determinants and the logarithms of their absolute values."""
    return solving.slogdet(input, out=out)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """`stowgrad.linalg.pinv` by its old name."""
    return solving.pinv(input, rcond)


def qr(input: Any, some: bool = True, *, out: Any = None) -> Any:
    """`stowgrad.linalg.qr` by its old name; complete if not ``some``."""
    return factorizations.qr(input, "reduced" if some else "complete", out=out)


def svd(input: Any, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """The decomposition ``U @ diag(S) @ V.mH``.

    Args:
        some: whether U and V have as many columns as there are singular values.
        compute_uv: whether there are vectors; otherwise U and V are zeros.
    """
    if out is not None:
        return into(out, svd, input, some, compute_uv)
    if not compute_uv:
        values = spectral.svdvals(input)
        *batch, m, n = input._array.shape
        return _Svd(shape.zeros_of(input, (*batch, m, m)), values, shape.zeros_of(input, (*batch, n, n)))
    u, s, vh = spectral.svd(input, not some)
    return _Svd(u, s, conj(shape.transpose(vh, -1, -2)))


def lu(A: Any, pivot: bool = True, get_infos: bool = False, *, out: Any = None) -> Any:
    """`stowgrad.linalg.lu_factor` by its old name; with ``info`` as a third result if ``get_infos``."""
    if out is not None:
        return into(out, lu, A, pivot, get_infos)
    found = factorizations.lu_factor_ex(A, pivot=pivot)
    return found if get_infos else tuple(found[:2])


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Any:
    """`stowgrad.linalg.lu_solve` by its old name."""
    return factorizations.lu_solve(LU_data, LU_pivots, b, out=out)


def orgqr(input: Any, tau: Any, *, out: Any = None) -> Any:
    """`stowgrad.linalg.householder_product` by its old name."""
    return factorizations.householder_product(input, tau, out=out)


def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None) -> Any:
    """A norm over dimensions, or over all of them: ``(|input| ** p).sum(dim) ** (1 / p)``.

    Args:
        p: a number, ``"fro"`` (2, over any dimensions), or ``"nuc"`` (the sum of the singular values of a matrix).
    """
    if p == "nuc":
        dims = (0, 1) if dim is None else dim
        if isinstance(dims, int) or len(dims) != 2 or (dim is None and input._array.ndim != 2):
            raise RuntimeError(f"norm: the nuclear norm needs a matrix, or two dimensions; got dim={dim}")
        return norms.matrix_norm(input, "nuc", dims, keepdim, dtype=dtype, out=out)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: only valid string values are 'fro' and 'nuc', found {p!r}")
    return norms.vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype, out=out)
