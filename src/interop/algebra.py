"""``numpy.linalg`` and ``numpy.fft``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import fft, linalg
from ..autograd import functions as F
from .convert import as_axes, float_of, floats, plain, promoted, tensor_of, tensors_of
from .dispatching import implements
from .products import real_if_real

__all__ = ["EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult"]


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors, called as in NumPy."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a symmetric matrix, called as in NumPy."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """A matrix as a product, called as in NumPy."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Sign and logarithm of a determinant, called as in NumPy."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """A singular value decomposition, called as in NumPy."""

    U: Any
    S: Any
    Vh: Any


@implements(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return linalg.cholesky(float_of(a), upper=upper)


@implements(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    return linalg.cond(float_of(x), p)


@implements(np.linalg.det)
def _det(a: Any) -> Any:
    return linalg.det(float_of(a))


@implements(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    return SlogdetResult(*linalg.slogdet(float_of(a)))


@implements(np.linalg.inv)
def _inv(a: Any) -> Any:
    return linalg.inv(float_of(a))


@implements(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    rtol = rcond if rtol is np._NoValue or rtol is None else rtol
    return linalg.pinv(float_of(a), hermitian=hermitian, rtol=1e-15 if rtol is None else rtol)


@implements(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    matrix, right = floats(a, b)
    if right.ndim == 1:
        return linalg.solve(matrix, right.unsqueeze(-1)).squeeze(-1)
    batch = np.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(right.shape[:-2]))
    matrix = F.broadcast_to(matrix, (*batch, *matrix.shape[-2:]))
    return linalg.solve(matrix, F.broadcast_to(right, (*batch, *right.shape[-2:])))


@implements(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    matrix, right = floats(a, b)
    columns = right.unsqueeze(-1) if right.ndim == 1 else right
    values = np.linalg.svd(plain(matrix), compute_uv=False)
    limit = np.finfo(matrix.dtype).eps * max(matrix.shape) if rcond is None else max(float(rcond), 0.0)
    rank = int(np.sum(values > limit * values.max(initial=0.0)))
    solution = F.matmul(linalg.pinv(matrix, rtol=float(limit)), columns)
    if rank == matrix.shape[1] < matrix.shape[0]:
        misfit = columns - F.matmul(matrix, solution)
        residuals = F.sum(F.square(F.abs(misfit)), 0)
    else:
        residuals = F.real(columns[:0, 0]) if columns.dtype.kind == "c" else columns[:0, 0]
    return solution.squeeze(-1) if right.ndim == 1 else solution, residuals, rank, linalg.svdvals(matrix)


@implements(np.linalg.eig)
def _eig(a: Any) -> Any:
    (x,) = floats(a)
    values, vectors = linalg.eig(x)
    if x.dtype.kind != "c" and not np.any(plain(values).imag):
        return EigResult(F.real(values), F.real(vectors))
    return EigResult(values, vectors)


@implements(np.linalg.eigvals)
def _eigvals(a: Any) -> Any:
    (x,) = floats(a)
    return real_if_real(linalg.eigvals(x), x)


@implements(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:  # NumPy's name
    return EighResult(*linalg.eigh(float_of(a), UPLO.upper()))


@implements(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Any:  # NumPy's name
    return linalg.eigvalsh(float_of(a), UPLO.upper())


@implements(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    (x,) = floats(a)
    if not compute_uv:
        return linalg.svdvals(x)
    return SVDResult(*linalg.svd(x, full_matrices))


@implements(np.linalg.svdvals)
def _svdvals(x: Any, /) -> Any:
    return linalg.svdvals(float_of(x))


@implements(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    (x,) = floats(a)
    if mode == "raw":
        packed, tau = F.geqrf(x)
        return packed.swapaxes(-1, -2), tau
    q, r = linalg.qr(x, mode)
    return r if mode == "r" else QRResult(q, r)


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Any:
    return linalg.matrix_power(tensor_of(a), int(n))


@implements(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    (x,) = floats(A)
    keywords = {"atol": tol, "rtol": 0.0} if tol is not None else {} if rtol is None else {"rtol": rtol}
    return linalg.matrix_rank(x.detach(), hermitian=hermitian, **keywords)


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    return linalg.multi_dot(promoted(*tensors_of(arrays)))


@implements(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    (tensor,) = floats(x)
    if axis is None and ord is None:
        found = linalg.vector_norm(tensor.reshape(-1))
        return found.reshape([1] * tensor.ndim) if keepdims else found
    return linalg.norm(tensor, ord, as_axes(axis), keepdims)


@implements(np.linalg.matrix_norm)
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return linalg.matrix_norm(float_of(x), ord, keepdim=keepdims)


@implements(np.linalg.vector_norm)
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return linalg.vector_norm(float_of(x), ord, as_axes(axis), keepdims)


@implements(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Any:
    return linalg.tensorinv(float_of(a), ind)


@implements(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    matrix, right = floats(a, b)
    return linalg.tensorsolve(matrix, right, None if axes is None else tuple(axes))


# -- numpy.fft -------------------------------------------------------------------------------------------------------


def _one_dimension(function: Any) -> Callable[..., Any]:
    def transform(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        return function(tensor_of(a), n, axis, norm)

    return transform


def _several_dimensions(function: Any, default: Any) -> Callable[..., Any]:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        return function(tensor_of(a), None if s is None else tuple(s), None if axes is None else tuple(axes), norm)

    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    implements(getattr(np.fft, _name))(_one_dimension(getattr(fft, _name)))
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    implements(getattr(np.fft, _name))(_several_dimensions(getattr(fft, _name), (-2, -1)))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    implements(getattr(np.fft, _name))(_several_dimensions(getattr(fft, _name), None))


@implements(np.fft.fftshift)
def _fftshift(x: Any, axes: Any = None) -> Any:
    return fft.fftshift(tensor_of(x), as_axes(axes))


@implements(np.fft.ifftshift)
def _ifftshift(x: Any, axes: Any = None) -> Any:
    return fft.ifftshift(tensor_of(x), as_axes(axes))
