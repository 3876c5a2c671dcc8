"""Linear algebra under PyTorch's names: factorisations, solutions, norms; batches and complex numbers included.

Most keep for backward what they return, not what they were given.
"""

from __future__ import annotations

from .autograd.functions.linear_algebra.factorizations import (
    cholesky,
    cholesky_ex,
    householder_product,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
)
from .autograd.functions.linear_algebra.norms import cond, matrix_norm, norm, vector_norm
from .autograd.functions.linear_algebra.products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    multi_dot,
    vander,
    vecdot,
)
from .autograd.functions.linear_algebra.solving import (
    det,
    inv,
    inv_ex,
    lstsq,
    matrix_exp,
    pinv,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from .autograd.functions.linear_algebra.spectral import eig, eigh, eigvals, eigvalsh, matrix_rank, svd, svdvals
from .kernels.errors import LinAlgError

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
