"""Singular values and principal components of matrices of low rank, from random samples of their columns."""

from __future__ import annotations

from typing import Any

from .. import inplace
from ..ops.complex import conj
from ..ops.elementwise import sub
from ..ops.linalg import matmul
from ..ops.matrices import check_matrices
from ..ops.reduce import mean
from ..ops.shape import transpose, zeros_of
from .linear_algebra.factorizations import qr
from .linear_algebra.spectral import svd

__all__ = ["pca_lowrank", "svd_lowrank"]


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:  # PyTorch's name
    """An approximate ``U @ diag(S) @ V.mH`` of rank ``q``, of A or of ``A - M``.

    Source: Halko, Martinsson and Tropp, Finding structure with randomness, 2009, algorithms 4.4 and 5.1.

    Args:
        q: a little more than the rank of A.
        niter: how often the basis of the samples is refined.
    """
    check_matrices("svd_lowrank", A._array)
    A = A if M is None else sub(A, M)
    m, n = A._array.shape[-2:]
    tall = A if m >= n else _turned(A)
    basis = _basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = svd(matmul(_turned(basis), tall), False)
    u, v = matmul(basis, u), _turned(vh)
    return (u, s, v) if m >= n else (v, s, u)


def _turned(x: Any) -> Any:
    return conj(transpose(x, -1, -2))


def _basis(A: Any, q: int, niter: int) -> Any:
    samples = zeros_of(A.detach(), (A._array.shape[-1], q))
    inplace.random_("svd_lowrank", samples, "normal", None, mean=0.0, std=1.0)
    basis = qr(matmul(A, samples)).Q
    for _ in range(niter):
        basis = qr(matmul(_turned(A), basis)).Q
        basis = qr(matmul(A, basis)).Q
    return basis


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:  # PyTorch's name
    """Principal components: `svd_lowrank` of A, less the mean of its rows if ``center``.

    Raises:
        ValueError: if ``q`` is larger than a size of the matrices, or ``niter`` negative.
    """
    check_matrices("pca_lowrank", A._array)
    smaller = min(A._array.shape[-2:])
    if q is None:
        q = min(6, smaller)
    elif not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(sub(A, mean(A, (-2,), True)) if center else A, q, niter)
