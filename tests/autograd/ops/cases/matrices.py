"""Factorisations, solutions and norms of matrices.

Results that are free in a sign go through a function that is not. Where half of a matrix is read, it is made of both.
"""

from __future__ import annotations

import math

import numpy as np

from stowgrad.autograd.ops import (
    complex as parts,
)
from stowgrad.autograd.ops import (
    determinant,
    elementwise,
    factor,
    householder,
    matrices,
    pinv,
    solve,
    spectral,
    vector_norm,
)

from .case import Case, apart, rand

_PIVOTS = np.array([2, 3, 3], np.int32)


def regular(*sizes):
    """Matrices whose inverse is no larger than they are."""
    return rand(*sizes) + 3 * np.eye(*sizes[-2:])


def hermitian(x):
    return (x + x.mT) * 0.5


def lower(x):
    return matrices.triangles(x, 1, 1, 0)


def positive(x):
    return x @ x.mT


def _svd(x, full=False):
    u, s, vh = spectral.svd(x, full)
    k = s.shape[-1]
    return (
        elementwise.square(u[..., :k]),
        s,
        elementwise.square(vh[..., :k, :]),
        (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :],
    )


def _eigh(x):
    values, vectors = spectral.eigh(hermitian(x), False)
    return values, elementwise.square(vectors)


def _eig(x):
    values, vectors = spectral.eig(x)
    return parts.real(values), elementwise.square(parts.real(vectors))


def _qr(x, mode="reduced"):
    return factor.qr(x, mode)


def _solved(upper, left, unit):
    return lambda a, b: solve.solve_triangular(a, b, upper, left, unit)


def _lu_solve(left, adjoint):
    return lambda lu, pivots, b: factor.lu_solve(lu, pivots, b, left, adjoint)


_SPREAD = np.diag([1.0, 2.5, 4.0, 6.0])
_SINGULAR = np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.3, -1.0, 2.0]])

CASES = [
    Case("triangles", lambda x: matrices.triangles(x, 1, 0.5, 0), (rand(3, 4),), "lower"),
    Case("triangles", lambda x: matrices.triangles(x, 0, 1, -2, 7.0), (rand(2, 4, 3),), "upper, filled"),
    Case("linalg_inv_ex", lambda x: solve.inv_ex(x)[0], (regular(2, 3, 3),)),
    Case("linalg_solve_ex", lambda a, b: solve.solve_ex(a, b)[0], (regular(3, 3), rand(3, 2))),
    Case("linalg_solve_ex", lambda a, b: solve.solve_ex(a, b)[0], (regular(2, 1, 3, 3), rand(4, 3, 2)), "batches"),
    *(
        Case("linalg_solve_triangular", _solved(*how), (regular(3, 3), rand(3, 3)), f"{how}")
        for how in ((True, True, False), (False, True, True), (True, False, True), (False, False, False))
    ),
    Case("linalg_solve_triangular", _solved(True, True, False), (regular(2, 1, 3, 3), rand(4, 3, 2)), "batches"),
    Case("linalg_solve_triangular", _solved(False, True, False), (regular(40, 40) * 8, rand(40, 2)), "large"),
    Case("cholesky_solve", lambda b, x: solve.cholesky_solve(b, lower(x), False), (rand(3, 2), regular(3, 3))),
    Case(
        "cholesky_solve", lambda b, x: solve.cholesky_solve(b, lower(x).mT, True), (rand(3, 2), regular(3, 3)), "upper"
    ),
    Case("cholesky_inverse", lambda x: solve.cholesky_inverse(lower(x), False), (regular(3, 3),)),
    Case("cholesky_inverse", lambda x: solve.cholesky_inverse(lower(x).mT, True), (regular(2, 3, 3),), "upper"),
    Case("linalg_det", determinant.det, (rand(3, 3),)),
    Case("linalg_det", determinant.det, (_SINGULAR,), "singular"),
    Case("linalg_det", determinant.det, (np.stack([_SINGULAR, regular(3, 3)]),), "one singular"),
    Case("linalg_slogdet", lambda x: determinant.slogdet(x)[1], (regular(2, 3, 3),)),
    Case("linalg_cholesky_ex", lambda x: factor.cholesky_ex(positive(x), False)[0], (regular(2, 3, 3),)),
    Case("linalg_cholesky_ex", lambda x: factor.cholesky_ex(positive(x), True)[0], (regular(3, 3),), "upper"),
    Case("linalg_qr", _qr, (regular(4, 3),), "tall"),
    Case("linalg_qr", _qr, (regular(2, 3, 3),), "square"),
    Case("linalg_qr", _qr, (regular(3, 4),), "wide"),
    Case("linalg_qr", lambda x: _qr(x)[0], (regular(3, 4),), "wide, Q"),
    Case("linalg_qr", lambda x: _qr(x, "complete")[1], (regular(3, 4),), "complete, R"),
    Case("linalg_lu_factor_ex", lambda x: factor.lu_factor_ex(x)[0], (regular(2, 3, 3),)),
    Case("linalg_lu_factor_ex", lambda x: factor.lu_factor_ex(x.flip(0))[0], (regular(4, 3),), "tall"),
    Case("linalg_lu_factor_ex", lambda x: factor.lu_factor_ex(x.flip(0))[0], (regular(3, 4),), "wide"),
    Case("permute_rows", lambda x, p: factor.permute_rows(x, p, False), (rand(3, 2), _PIVOTS)),
    Case("permute_rows", lambda x, p: factor.permute_rows(x, p, True), (rand(2, 3, 2), _PIVOTS), "back"),
    *(
        Case("linalg_lu_solve", _lu_solve(*how), (regular(3, 3), _PIVOTS, rand(3, 3)), f"{how}")
        for how in ((True, False), (True, True), (False, False), (False, True))
    ),
    Case("linalg_lu_solve", _lu_solve(True, False), (regular(3, 3), _PIVOTS, rand(2, 3, 1)), "batch"),
    Case("linalg_svd", _svd, (regular(3, 3),), "square"),
    Case("linalg_svd", _svd, (regular(4, 3),), "tall"),
    Case("linalg_svd", _svd, (regular(2, 2, 3),), "wide"),
    Case("linalg_svd", lambda x: _svd(x, True), (regular(4, 3),), "full"),
    Case("linalg_svd", lambda x: spectral.svd(x, False)[1], (regular(3, 4),), "values"),
    Case("linalg_eigh", _eigh, (rand(4, 4) * 0.3 + _SPREAD,)),
    Case("linalg_eigh", lambda x: spectral.eigh(hermitian(x), True)[0], (rand(4, 4) * 0.3 + _SPREAD,), "values"),
    Case("linalg_eig", _eig, (rand(4, 4) * 0.3 + _SPREAD,)),
    Case("linalg_eig", lambda x: elementwise.abs(spectral.eig(x)[0]), (rand(3, 3),), "values"),
    Case("linalg_svdvals", spectral.svdvals, (regular(3, 4),), "wide"),
    Case("linalg_svdvals", spectral.svdvals, (regular(2, 4, 3),), "tall"),
    Case("linalg_eigvalsh", lambda x: spectral.eigvalsh(hermitian(x), False), (rand(4, 4) * 0.3 + _SPREAD,)),
    Case("linalg_eigvals", lambda x: elementwise.abs(spectral.eigvals(x)), (rand(4, 4) * 0.3 + _SPREAD,)),
    Case("linalg_pinv", lambda x: pinv.pinv(x, 0.0, 1e-6, False), (regular(4, 3),), "tall"),
    Case("linalg_pinv", lambda x: pinv.pinv(x, 0.0, 1e-6, False), (regular(2, 3, 4),), "wide"),
    Case("linalg_pinv", lambda x: pinv.pinv(hermitian(x), 0.0, 1e-6, True), (regular(3, 3),), "hermitian"),
    Case("linalg_lstsq", lambda a, b: pinv.lstsq(a, b, 1e-6)[0], (regular(4, 3), rand(4, 2)), "tall"),
    Case("linalg_lstsq", lambda a, b: pinv.lstsq(a, b, 1e-6)[0], (regular(2, 3, 4), rand(2, 3, 2)), "wide"),
    Case("linalg_matrix_exp", pinv.matrix_exp, (rand(2, 3, 3),)),
    Case("linalg_matrix_exp", pinv.matrix_exp, (rand(3, 3) * 4,), "squared"),
    Case("linalg_householder_product", householder.householder_product, (rand(4, 3), rand(3))),
    Case("linalg_householder_product", householder.householder_product, (rand(2, 4, 3), rand(2, 2)), "fewer"),
    *(
        Case("linalg_vector_norm", lambda x, p=p: vector_norm.vector_norm(x, p, (0,)), (apart(3, 4),), f"{p}")
        for p in (0.5, 1, 1.5, 2, 3, math.inf, -math.inf, -1)
    ),
    Case("linalg_vector_norm", lambda x: vector_norm.vector_norm(x, 2, (0, 2), True), (apart(2, 3, 4),), "apart"),
]
NOT_DIFFERENTIABLE = {"geqrf", "lu_permutation"}
