"""Factorisations by LAPACK, as NumPy has it: whole batches in one call, results in NumPy's memory, copied to the outs.

``info`` is 0 for a matrix that was factorised, and otherwise counts from 1 the step at which it could not be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import LinAlgError
from ..executor import Array, get_num_threads
from ..matrix_functions import exponential, multiply_householder
from .triangular import lu_factor

__all__ = [
    "cholesky",
    "det",
    "eig",
    "eigh",
    "geqrf",
    "householder_product",
    "inv",
    "lstsq",
    "matrix_exp",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
]


def _matrices(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """The matrices of batches of one shape, one after another."""
    for place in np.ndindex(arrays[0].shape[:-2]):
        yield tuple(array[place] for array in arrays)


def _whole_or_each(function: Callable[..., Any], info: Array, failed: Callable[[Any], int], *arrays: Array) -> None:
    """``function(*arrays)``, which writes to the last; if it fails, each matrix by itself, with NaN where it fails."""
    get_num_threads()  # BLAS follows our setting
    info[...] = 0
    try:
        function(*arrays)
        return
    except np.linalg.LinAlgError:
        pass
    for place in np.ndindex(info.shape):
        parts = [array[place] for array in arrays]
        try:
            function(*parts)
        except np.linalg.LinAlgError:
            info[place] = failed(parts[0])
            parts[-1][...] = np.nan


def _first_zero_pivot(x: Array) -> int:
    lu, pivots = np.empty_like(x, order="C"), np.empty(min(x.shape), np.int32)
    info = np.empty((), np.int32)
    lu_factor(x, lu, pivots, info)
    return int(info) or len(x)


def inv(x: Array, out: Array, info: Array) -> None:
    """The inverses of matrices."""

    def run(x: Array, out: Array) -> None:
        out[...] = np.linalg.inv(x)

    _whole_or_each(run, info, _first_zero_pivot, x, out)


def solve(a: Array, b: Array, out: Array, info: Array) -> None:
    """The solutions of ``a @ out = b``, all of them matrices; batches are broadcast."""
    batch = out.shape[:-2]

    def run(a: Array, b: Array, out: Array) -> None:
        out[...] = np.linalg.solve(a, b)

    spread = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    _whole_or_each(run, info, _first_zero_pivot, *spread, out)


def cholesky(x: Array, out: Array, info: Array, *, upper: bool) -> None:
    """The factors of positive definite matrices, of which one half is read: ``out @ out.H``, or ``out.H @ out``."""

    def run(x: Array, out: Array) -> None:
        out[...] = np.linalg.cholesky(x, upper=upper)

    def first_minor(x: Array) -> int:
        for order in range(1, len(x)):
            try:
                np.linalg.cholesky(x[:order, :order], upper=upper)
            except np.linalg.LinAlgError:
                return order
        return len(x)

    _whole_or_each(run, info, first_minor, x, out)


def det(x: Array, out: Array) -> None:
    """The determinants."""
    get_num_threads()
    with np.errstate(over="ignore"):
        out[...] = np.linalg.det(x)


def slogdet(x: Array, sign: Array, logarithm: Array) -> None:
    """The signs of determinants (numbers of modulus 1, or 0), and the logarithms of their moduli."""
    get_num_threads()
    with np.errstate(divide="ignore"):
        sign[...], logarithm[...] = np.linalg.slogdet(x)


def qr(x: Array, *outs: Array, mode: Any) -> None:
    """The factors Q and R; R alone for mode ``"r"``."""
    get_num_threads()
    found = np.linalg.qr(x, mode=mode)
    for out, array in zip(outs, (found,) if mode == "r" else found, strict=True):
        out[...] = array


def geqrf(x: Array, factors: Array, tau: Array) -> None:
    """R on and above the diagonal, below it the Householder vectors, whose factors are ``tau``."""
    get_num_threads()
    for matrix, out, scale in zip(
        *(a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:]) for a in (x, factors)),
        tau.reshape(math.prod(tau.shape[:-1]), tau.shape[-1]),
        strict=True,
    ):
        turned, scale[...] = np.linalg.qr(matrix, mode="raw")
        out[...] = turned.T


def householder_product(x: Array, tau: Array, out: Array) -> None:
    """The first columns of the product of ``I - tau * v @ v.H`` for the ``v`` below the diagonal of ``x``."""
    multiply_householder(np, x, tau, out)


def _converging(name: str, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    get_num_threads()
    try:
        return function(*args, **keywords)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix is ill-conditioned or contained"
            " non-finite values."
        ) from None


def svd(x: Array, u: Array, s: Array, vh: Array, *, full: bool) -> None:
    """The singular value decomposition ``u @ diag(s) @ vh``."""
    u[...], s[...], vh[...] = _converging("svd", np.linalg.svd, x, full_matrices=full)


def svdvals(x: Array, s: Array) -> None:
    """The singular values, the largest first."""
    s[...] = _converging("svd", np.linalg.svd, x, compute_uv=False)


def eigh(x: Array, values: Array, vectors: Array | None, *, upper: bool) -> None:
    """Eigenvalues in ascending order and, if wanted, eigenvectors of Hermitian matrices, of which one half is read."""
    half = "U" if upper else "L"
    if vectors is None:
        values[...] = _converging("eigh", np.linalg.eigvalsh, x, UPLO=half)
    else:
        values[...], vectors[...] = _converging("eigh", np.linalg.eigh, x, UPLO=half)


def eig(x: Array, values: Array, vectors: Array | None) -> None:
    """Eigenvalues and, if wanted, eigenvectors of length 1, both complex."""
    if vectors is None:
        values[...] = _converging("eig", np.linalg.eigvals, x)
    else:
        values[...], vectors[...] = _converging("eig", np.linalg.eig, x)


def lstsq(a: Array, b: Array, out: Array, rank: Array, s: Array, *, rcond: float) -> None:
    """The shortest of the ``out`` for which ``a @ out - b`` is shortest, the ranks of ``a`` and its singular values."""
    get_num_threads()
    for place in np.ndindex(out.shape[:-2]):
        try:
            out[place], _, rank[place], s[place] = np.linalg.lstsq(a[place], b[place], rcond)
        except np.linalg.LinAlgError:
            raise LinAlgError("linalg.lstsq: The algorithm failed to converge.") from None


def pinv(x: Array, atol: Any, rtol: Any, out: Array, *, hermitian: bool) -> None:
    """Pseudo-inverses: singular values up to ``max(atol, rtol * the largest)`` count as 0."""
    if out.size == 0:
        return
    if hermitian:
        values, vectors = _converging("eigh", np.linalg.eigh, x)
        u, s, vh = vectors, values, vectors.swapaxes(-1, -2).conj()
    else:
        u, s, vh = _converging("svd", np.linalg.svd, x, full_matrices=False)
    size = np.abs(s)
    cutoff = np.maximum(np.asarray(atol), np.asarray(rtol) * size.max(axis=-1))[..., None]
    with np.errstate(divide="ignore"):
        inverse = np.where(size > cutoff, 1 / s, 0).astype(s.dtype)
    np.matmul(vh.swapaxes(-1, -2).conj() * inverse[..., None, :], u.swapaxes(-1, -2).conj(), out=out)


def matrix_exp(x: Array, out: Array) -> None:
    """The exponentials of square matrices."""
    get_num_threads()
    for a, target in _matrices(x, out):
        with np.errstate(all="ignore"):
            target[...] = exponential(np, a)
