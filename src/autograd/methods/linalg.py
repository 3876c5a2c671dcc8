"""Products, factorisations and norms of matrices, as methods."""

from __future__ import annotations

from typing import Any

from .. import inplace
from ..functions import linalg as functions
from ..functions import matrices


class LinalgMethods:
    """Linear algebra."""

    __slots__ = ()

    addbmm = functions.addbmm
    addmm = functions.addmm
    addmv = functions.addmv
    addr = functions.addr
    baddbmm = functions.baddbmm
    bmm = functions.bmm
    cross = functions.cross
    dot = functions.dot
    ger = functions.ger
    inner = functions.inner
    kron = functions.kron
    matmul = functions.matmul
    matrix_power = functions.matrix_power
    mm = functions.mm
    mv = functions.mv
    outer = functions.outer
    vdot = functions.vdot

    cholesky = matrices.cholesky
    cholesky_inverse = matrices.cholesky_inverse
    cholesky_solve = matrices.cholesky_solve
    det = matrices.det
    geqrf = matrices.geqrf
    inverse = matrices.inverse
    logdet = matrices.logdet
    lu = matrices.lu
    lu_solve = matrices.lu_solve
    matrix_exp = matrices.matrix_exp
    orgqr = matrices.orgqr
    ormqr = matrices.ormqr
    pinverse = matrices.pinverse
    qr = matrices.qr
    slogdet = matrices.slogdet
    svd = matrices.svd
    triangular_solve = matrices.triangular_solve

    def norm(self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """A norm over dimensions, or over all of them."""
        return matrices.norm(self, p, dim, keepdim, dtype=dtype)

    def addmm_(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Take ``beta * self + alpha * (mat1 @ mat2)``."""
        return _into_self(self, functions.addmm(self, mat1, mat2, beta=beta, alpha=alpha))

    def addmv_(self, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Take ``beta * self + alpha * (mat @ vec)``."""
        return _into_self(self, functions.addmv(self, mat, vec, beta=beta, alpha=alpha))

    def addr_(self, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Take ``beta * self + alpha * outer(vec1, vec2)``."""
        return _into_self(self, functions.addr(self, vec1, vec2, beta=beta, alpha=alpha))

    def addbmm_(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Take ``beta * self + alpha *`` the sum of ``bmm(batch1, batch2)``."""
        return _into_self(self, functions.addbmm(self, batch1, batch2, beta=beta, alpha=alpha))

    def baddbmm_(self, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """Take ``beta * self + alpha * bmm(batch1, batch2)``."""
        return _into_self(self, functions.baddbmm(self, batch1, batch2, beta=beta, alpha=alpha))


def _into_self(target: Any, result: Any) -> Any:
    """Write what a function made of a tensor into the tensor: the operands may be of the same memory.

    Raises:
        RuntimeError: if the result has another shape.
    """
    if result._array.shape != target._array.shape:
        raise RuntimeError(
            f"output with shape {list(target._array.shape)} doesn't match the broadcast shape"
            f" {list(result._array.shape)}"
        )
    return inplace.copy_(target, result)
