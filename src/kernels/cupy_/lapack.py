"""Factorisations by cuSOLVER, as CuPy has it.

``info`` is 0 for a matrix that was factorised, and otherwise counts from 1 the step at which it could not be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupyx import errstate

from ..errors import LinAlgError
from ..matrix_functions import exponential, multiply_householder
from .launch import Array, kernel
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


def _adjoint(x: Array) -> Array:
    return cupy.conjugate(x.swapaxes(-1, -2))


def _whole_or_each(function: Callable[..., Any], info: Array, failed: Callable[[Any], int], *arrays: Array) -> None:
    """``function(*arrays)``, which writes to the last; if it fails, each matrix by itself, with NaN where it fails."""
    info.fill(0)
    if not arrays[-1].size:
        return
    with errstate(linalg="raise"):
        try:
            function(*arrays)
            return
        except np.linalg.LinAlgError:
            pass
        for place in np.ndindex(*info.shape):
            parts = [array[place] for array in arrays]
            try:
                function(*parts)
            except np.linalg.LinAlgError:
                info[place] = failed(parts[0])
                parts[-1].fill(np.nan)


def _first_zero_pivot(x: Array) -> int:
    lu, pivots = cupy.empty(x.shape, x.dtype), cupy.empty((min(x.shape),), np.int32)
    info = cupy.empty((), np.int32)
    lu_factor(x, lu, pivots, info)
    return int(info) or len(x)


@kernel
def inv(x: Array, out: Array, info: Array) -> None:
    """The inverses of matrices."""

    def run(x: Array, out: Array) -> None:
        cupy.copyto(out, cupy.linalg.inv(x))

    _whole_or_each(run, info, _first_zero_pivot, x, out)


@kernel
def solve(a: Array, b: Array, out: Array, info: Array) -> None:
    """The solutions of ``a @ out = b``, all of them matrices; batches are broadcast."""
    batch = out.shape[:-2]

    def run(a: Array, b: Array, out: Array) -> None:
        cupy.copyto(out, cupy.linalg.solve(a, b))

    spread = cupy.broadcast_to(a, (*batch, *a.shape[-2:])), cupy.broadcast_to(b, (*batch, *b.shape[-2:]))
    _whole_or_each(run, info, _first_zero_pivot, *spread, out)


@kernel
def cholesky(x: Array, out: Array, info: Array, *, upper: bool) -> None:
    """The factors of positive definite matrices, of which one half is read: ``out @ out.H``, or ``out.H @ out``."""
    turned = _adjoint(x) if upper else x

    def run(x: Array, out: Array) -> None:
        found = cupy.linalg.cholesky(x)
        cupy.copyto(out, _adjoint(found) if upper else found)

    def first_minor(x: Array) -> int:
        for order in range(1, len(x)):
            try:
                cupy.linalg.cholesky(x[:order, :order])
            except np.linalg.LinAlgError:
                return order
        return len(x)

    _whole_or_each(run, info, first_minor, turned, out)


@kernel
def det(x: Array, out: Array) -> None:
    """The determinants."""
    cupy.copyto(out, cupy.linalg.det(x))


@kernel
def slogdet(x: Array, sign: Array, logarithm: Array) -> None:
    """The signs of determinants (numbers of modulus 1, or 0), and the logarithms of their moduli."""
    found = cupy.linalg.slogdet(x)
    cupy.copyto(sign, found[0])
    cupy.copyto(logarithm, found[1])


@kernel
def qr(x: Array, *outs: Array, mode: str) -> None:
    """The factors Q and R; R alone for mode ``"r"``."""
    found = cupy.linalg.qr(x, mode=mode)
    for out, array in zip(outs, (found,) if mode == "r" else found, strict=True):
        cupy.copyto(out, array)


@kernel
def geqrf(x: Array, factors: Array, tau: Array) -> None:
    """R on and above the diagonal, below it the Householder vectors, whose factors are ``tau``."""
    for place in np.ndindex(*x.shape[:-2]):
        turned, scale = cupy.linalg.qr(x[place], mode="raw")
        cupy.copyto(factors[place], turned.T)
        cupy.copyto(tau[place], scale)


@kernel
def householder_product(x: Array, tau: Array, out: Array) -> None:
    """The first columns of the product of ``I - tau * v @ v.H`` for the ``v`` below the diagonal of ``x``."""
    multiply_householder(cupy, x, tau, out)


def _converging(name: str, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    try:
        with errstate(linalg="raise"):
            return function(*args, **keywords)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"linalg.{name}: The algorithm failed to converge because the input matrix is ill-conditioned or contained"
            " non-finite values."
        ) from None


@kernel
def svd(x: Array, u: Array, s: Array, vh: Array, *, full: bool) -> None:
    """The singular value decomposition ``u @ diag(s) @ vh``."""
    for out, array in zip((u, s, vh), _converging("svd", cupy.linalg.svd, x, full_matrices=full), strict=True):
        cupy.copyto(out, array)


@kernel
def svdvals(x: Array, s: Array) -> None:
    """The singular values, the largest first."""
    cupy.copyto(s, _converging("svd", cupy.linalg.svd, x, compute_uv=False))


@kernel
def eigh(x: Array, values: Array, vectors: Array | None, *, upper: bool) -> None:
    """Eigenvalues in ascending order and, if wanted, eigenvectors of Hermitian matrices, of which one half is read."""
    half = "U" if upper else "L"
    if vectors is None:
        cupy.copyto(values, _converging("eigh", cupy.linalg.eigvalsh, x, UPLO=half))
    else:
        found = _converging("eigh", cupy.linalg.eigh, x, UPLO=half)
        cupy.copyto(values, found[0])
        cupy.copyto(vectors, found[1])


@kernel
def eig(x: Array, values: Array, vectors: Array | None) -> None:
    """Eigenvalues and, if wanted, eigenvectors of length 1, both complex: computed on the host, by NumPy."""
    if vectors is None:
        values.set(_converging("eig", np.linalg.eigvals, x.get()).astype(values.dtype))
    else:
        found = _converging("eig", np.linalg.eig, x.get())
        values.set(found[0].astype(values.dtype))
        vectors.set(found[1].astype(vectors.dtype))


@kernel
def lstsq(a: Array, b: Array, out: Array, rank: Array, s: Array, *, rcond: float) -> None:
    """The shortest of the ``out`` for which ``a @ out - b`` is shortest, the ranks of ``a`` and its singular values."""
    for place in np.ndindex(*out.shape[:-2]):
        found = _converging("lstsq", cupy.linalg.lstsq, a[place], b[place], rcond=rcond)
        out[place], rank[place], s[place] = found[0], found[2], found[3]


@kernel
def pinv(x: Array, atol: Any, rtol: Any, out: Array, *, hermitian: bool) -> None:
    """Pseudo-inverses: singular values up to ``max(atol, rtol * the largest)`` count as 0."""
    if out.size == 0:
        return
    if hermitian:
        s, u = _converging("eigh", cupy.linalg.eigh, x)
        vh = _adjoint(u)
    else:
        u, s, vh = _converging("svd", cupy.linalg.svd, x, full_matrices=False)
    size = cupy.absolute(s)
    cutoff = cupy.maximum(cupy.multiply(cupy.amax(size, axis=-1), rtol), atol)
    inverse = cupy.reciprocal(s)
    cupy.copyto(inverse, 0, where=size <= cutoff[..., None])
    cupy.matmul(cupy.multiply(_adjoint(vh), inverse[..., None, :]), _adjoint(u), out=out)


@kernel
def matrix_exp(x: Array, out: Array) -> None:
    """The exponentials of square matrices."""
    for place in np.ndindex(*x.shape[:-2]):
        cupy.copyto(out[place], exponential(cupy, x[place]))
