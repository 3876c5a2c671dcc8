"""Singular values and vectors, eigenvalues and eigenvectors.

Results are saved, not inputs; of values alone, the input, which is factorised again in backward. Where singular values
or eigenvalues are equal, the vectors have no derivative: it comes out infinite or NaN, as in PyTorch.

Source for the derivatives: Wan and Zhang, Automatic differentiation for complex valued SVD, 2019; Boeddeker et al., On
the computation of complex-valued gradients with application to statistically optimum beamforming, 2017.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .cast import to_dtype
from .complex import conj, imag, real
from .elementwise import abs as absolute
from .elementwise import add, div, gt, mul, sub
from .matrices import (
    adjoint,
    column,
    diagonal_matrix,
    is_any,
    one,
    product,
    real_dtype,
    row,
    scale_columns,
    scale_rows,
    triangles,
)
from .shape import index
from .solve import solve_ex
from .view import diagonal

_PHASE = (
    "specified up to multiplication by e^{i phi}. The specified loss function depends on this quantity, so it is"
    " ill-defined."
)


def _is_complex(x: Any) -> bool:
    return bool(x.dtype.kind == "c")


def _differs_from_zero(do: Do, x: Any) -> bool:
    """Whether an element is larger than what rounding explains."""
    return is_any(do(gt, do(absolute, x), 1e-2))


def _gaps(do: Do, values: Any) -> Any:
    """``values[j] - values[i]`` for all i and j, and 1 where they are the same."""
    return do(triangles, do(sub, row(do, values), column(do, values)), 1, 1, 1, 1)


def _skew(do: Do, x: Any) -> Any:
    return do(sub, x, adjoint(do, x))


class LinalgSvd(Op):
    """``U @ diag(S) @ Vh``: orthonormal columns of U and rows of Vh, of which the first ``len(S)`` have gradients."""

    name = "linalg_svd"
    outputs = 3
    saves = (Slot("U", 0, output=True), Slot("S", 1, output=True), Slot("Vh", 2, output=True))
    complex_saved = "plain"

    def infer(self, x: Any, full: bool) -> tuple[Spec, ...]:
        *batch, m, n = x.shape
        k = min(m, n)
        u, vh = (m, m if full else k), (n if full else k, n)
        return ((*batch, *u), x.dtype), ((*batch, k), real_dtype(x.dtype)), ((*batch, *vh), x.dtype)

    def kernel(self, k: Any, x: Any, full: bool, u: Any, s: Any, vh: Any) -> None:
        k.svd(x, u, s, vh, full=full)

    def workspace(self, x: Any, full: bool) -> int:
        return svd_workspace(x, full)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (u, s, vh), (by_u, by_s, by_vh) = saved, grads
        k = s.shape[-1]
        u, by_u = (_first_columns(do, x, k) for x in (u, by_u))
        vh, by_vh = (_first_rows(do, x, k) for x in (vh, by_vh))
        if by_u is None and by_vh is None:
            return (_by_singular_values(do, u, by_s, vh),)
        core = _core(do, u, s, vh, by_u, by_s, by_vh)
        left = product(do, u, core)
        if by_u is not None and u.shape[-2] > k:  # the part of U's gradient that is orthogonal to U
            scaled = do(div, by_u, row(do, s))
            left = do(add, left, do(sub, scaled, product(do, u, product(do, adjoint(do, u), scaled))))
        whole = product(do, left, vh)
        if by_vh is not None and vh.shape[-1] > k:
            scaled = do(div, by_vh, column(do, s))
            rest = do(sub, scaled, product(do, product(do, scaled, adjoint(do, vh)), vh))
            whole = do(add, whole, product(do, u, rest))
        return (whole,)


def _by_singular_values(do: Do, u: Any, by_s: Any, vh: Any) -> Any:
    """The gradient of a matrix, given that of its singular values alone."""
    by_s = do(to_dtype, by_s, u.dtype) if _is_complex(u) else by_s
    tall = u.shape[-2] >= vh.shape[-1]
    return product(do, u, scale_rows(do, by_s, vh)) if tall else product(do, scale_columns(do, u, by_s), vh)


def _first_columns(do: Do, x: Any, count: int) -> Any:
    return x if x is None or x.shape[-1] == count else do(index, x, (..., slice(0, count)))


def _first_rows(do: Do, x: Any, count: int) -> Any:
    return x if x is None or x.shape[-2] == count else do(index, x, (..., slice(0, count), slice(None)))


def _core(do: Do, u: Any, s: Any, vh: Any, by_u: Any, by_s: Any, by_vh: Any) -> Any:
    """The gradient in the bases of U and V."""
    gaps = _gaps(do, do(mul, s, s))
    turn_u = None if by_u is None else _skew(do, product(do, adjoint(do, u), by_u))
    turn_v = None if by_vh is None else _skew(do, product(do, vh, adjoint(do, by_vh)))
    if _is_complex(u):
        phases = [do(imag, do(diagonal, turn, 0, -2, -1)) for turn in (turn_u, turn_v) if turn is not None]
        if _differs_from_zero(do, phases[0] if len(phases) == 1 else do(add, *phases)):
            raise RuntimeError(f"svd_backward: The singular vectors in the complex case are {_PHASE}")
    core = None if turn_u is None else scale_columns(do, do(div, turn_u, gaps), s)
    if turn_v is not None:
        by_v = scale_rows(do, s, do(div, turn_v, gaps))
        core = by_v if core is None else do(add, core, by_v)
    if by_s is not None:
        core = do(add, core, diagonal_matrix(do, by_s))
    if _is_complex(u) and turn_u is not None and turn_v is not None:
        phase = do(div, do(diagonal, turn_u, 0, -2, -1), do(mul, s, 2.0))
        core = do(add, core, diagonal_matrix(do, phase))
    return core


def svd_workspace(x: Any, full: bool) -> int:
    """What NumPy and LAPACK's gesdd allocate: the results of all, and the copies and the workspace for one matrix."""
    m, n = x.shape[-2:]
    k = min(m, n)
    vectors = m * m + n * n if full else (m + n) * k
    return int((math.prod(x.shape[:-2]) * vectors + vectors + m * n + 4 * k * k + 7 * k) * x.dtype.itemsize)


class LinalgSvdvals(Op):
    """The singular values alone. Vectors are found in backward: until then the matrix is kept, and not both of them."""

    name = "linalg_svdvals"
    saves = (Slot("A", 0),)
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return (((*x.shape[:-2], min(x.shape[-2:])), real_dtype(x.dtype)),)

    def kernel(self, k: Any, x: Any, s: Any) -> None:
        k.svdvals(x, s)

    def workspace(self, x: Any) -> int:
        return 2 * one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        u, _, vh = do(svd, saved[0], False)
        return (_by_singular_values(do, u, grads[0], vh),)


class LinalgEigh(Op):
    """The real eigenvalues and orthonormal eigenvectors of Hermitian matrices, of which one half is read."""

    name = "linalg_eigh"
    outputs = 2
    saves = (Slot("eigenvalues", 0, output=True), Slot("eigenvectors", 1, output=True))
    complex_saved = "plain"

    def infer(self, x: Any, upper: bool) -> tuple[Spec, ...]:
        return (x.shape[:-1], real_dtype(x.dtype)), (x.shape, x.dtype)

    def kernel(self, k: Any, x: Any, upper: bool, values: Any, vectors: Any) -> None:
        k.eigh(x, values, vectors, upper=upper)

    def workspace(self, x: Any, upper: bool) -> int:
        return int(x.nbytes) + 3 * one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (values, vectors), (by_values, by_vectors) = saved, grads
        if by_vectors is None:
            return (product(do, scale_columns(do, vectors, by_values), adjoint(do, vectors)),)
        turn = product(do, adjoint(do, vectors), by_vectors)
        if _is_complex(vectors) and _differs_from_zero(do, do(imag, do(diagonal, turn, 0, -2, -1))):
            raise RuntimeError(f"linalg_eigh_backward: The eigenvectors in the complex case are {_PHASE}")
        core = do(div, do(triangles, _skew(do, turn), 0.5, 0, 0.5), _gaps(do, values))
        if by_values is not None:
            core = do(add, core, diagonal_matrix(do, by_values))
        return (product(do, product(do, vectors, core), adjoint(do, vectors)),)


class LinalgEigvalsh(Op):
    """The eigenvalues of Hermitian matrices alone; vectors are found in backward."""

    name = "linalg_eigvalsh"
    saves = (Slot("A", 0),)
    complex_saved = "plain"

    def infer(self, x: Any, upper: bool) -> tuple[Spec, ...]:
        return ((x.shape[:-1], real_dtype(x.dtype)),)

    def kernel(self, k: Any, x: Any, upper: bool, values: Any) -> None:
        k.eigh(x, values, None, upper=upper)

    def workspace(self, x: Any, upper: bool) -> int:
        return 2 * one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        _, vectors = do(eigh, saved[0], node.op_attrs[0])
        return (product(do, scale_columns(do, vectors, grads[0]), adjoint(do, vectors)),)


class LinalgEig(Op):
    """The eigenvalues and eigenvectors of any square matrices, all of them complex."""

    name = "linalg_eig"
    outputs = 2
    saves = (Slot("eigenvalues", 0, output=True), Slot("eigenvectors", 1, output=True))
    complex_saved = "plain"

    def __call__(self, x: Any) -> Any:
        return apply(self, x)

    def infer(self, x: Any) -> tuple[Spec, ...]:
        dtype = np.result_type(x.dtype, np.complex64)
        return (x.shape[:-1], dtype), (x.shape, dtype)

    def kernel(self, k: Any, x: Any, values: Any, vectors: Any) -> None:
        k.eig(x, values, vectors)

    def workspace(self, x: Any) -> int:
        return 2 * int(x.nbytes) + 6 * one(x)

    def attrs(self, x: Any) -> Any:
        return x.dtype

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (values, vectors), (by_values, by_vectors) = saved, grads
        turned = adjoint(do, vectors)
        if by_vectors is None:
            core = scale_rows(do, by_values, turned)
        else:
            turn = product(do, turned, by_vectors)
            phases = do(diagonal, turn, 0, -2, -1)
            if _differs_from_zero(do, do(imag, phases)):
                raise RuntimeError(f"linalg_eig_backward: The eigenvectors in the complex case are {_PHASE}")
            lengths = do(to_dtype, do(real, phases), vectors.dtype)  # each vector keeps its length
            turn = do(sub, turn, scale_columns(do, product(do, turned, vectors), lengths))
            core = do(div, do(triangles, turn, 1, 0, 1), _gaps(do, do(conj, values)))
            if by_values is not None:
                core = do(add, core, diagonal_matrix(do, by_values))
            core = product(do, core, turned)
        whole = do(solve_ex, turned, core)[0]
        return (do(to_dtype, whole, node.op_attrs) if node.op_attrs.kind != "c" else whole,)


class LinalgEigvals(Op):
    """The eigenvalues of square matrices alone; vectors are found in backward."""

    name = "linalg_eigvals"
    saves = (Slot("self", 0),)
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape[:-1], np.result_type(x.dtype, np.complex64)),)

    def kernel(self, k: Any, x: Any, values: Any) -> None:
        k.eig(x, values, None)

    def workspace(self, x: Any) -> int:
        return 3 * one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        turned = adjoint(do, do(eig, saved[0])[1])
        whole = do(solve_ex, turned, scale_rows(do, grads[0], turned))[0]
        dtype = saved[0].dtype
        return (do(to_dtype, whole, dtype) if dtype.kind != "c" else whole,)


svd = LinalgSvd()
svdvals = LinalgSvdvals()
eigh = LinalgEigh()
eigvalsh = LinalgEigvalsh()
eig = LinalgEig()
eigvals = LinalgEigvals()
