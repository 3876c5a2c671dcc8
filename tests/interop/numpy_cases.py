"""Rows of calls of NumPy's functions: what is differentiated is marked with ``V``, the rest are constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.linalg as la


class V:
    """An argument to differentiate for."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array, complex if np.iscomplexobj(array) else float)


rng = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape)


def spread(*shape: int) -> np.ndarray[Any, Any]:
    """Numbers that differ enough for sorting, minima and rounding to have derivatives."""
    size = int(np.prod(shape))
    return (rng.permutation(size) - size / 2 + 0.3).reshape(shape) / 3


def positive(*shape: int) -> np.ndarray[Any, Any]:
    return rng.uniform(0.5, 2.0, shape)


def complexes(*shape: int) -> np.ndarray[Any, Any]:
    return draw(*shape) + 1j * draw(*shape)


A, B, C3 = draw(3, 4), draw(3, 4), draw(2, 3, 4)
x5, y5 = spread(5), spread(5)
square = draw(3, 3) + 3 * np.eye(3)
symmetric = square @ square.T
mask = np.array([[True, False, True, True], [False, True, False, True], [True, True, False, False]])
with_nan = np.where(mask, A, np.nan)


def symmetrized(function: Any) -> Any:
    """A function of symmetric matrices that may be asked for any."""

    def call(matrix: Any, *args: Any, **keywords: Any) -> Any:
        return function((matrix + np.swapaxes(matrix, -1, -2)) / 2, *args, **keywords)

    call.__name__ = function.__name__
    return call


def part(function: Any, choose: Any) -> Any:
    """Some of the results of a function: what does not depend on a choice of sign or phase."""

    def call(*args: Any, **keywords: Any) -> Any:
        return choose(function(*args, **keywords))

    call.__name__ = function.__name__
    return call


# (NumPy's function, arguments, keywords) or (its name, a call of it, arguments, keywords)
ROWS: list[tuple[Any, ...]] = []


def row(function: Any, *args: Any, **keywords: Any) -> None:
    ROWS.append((function, function, args, keywords))


def called(function: Any, call: Any, *args: Any, **keywords: Any) -> None:
    ROWS.append((function, call, args, keywords))


# -- element by element and ufuncs -----------------------------------------------------------------------------------
for name in [
    "absolute",
    "fabs",
    "negative",
    "positive",
    "square",
    "sin",
    "cos",
    "tanh",
    "sinh",
    "cosh",
    "arctan",
    "arcsinh",
    "exp",
    "exp2",
    "expm1",
    "cbrt",
    "degrees",
    "radians",
    "deg2rad",
    "rad2deg",
    "conjugate",
    "sign",
    "trunc",
    "floor",
    "ceil",
    "rint",
    "tan",
]:
    row(getattr(np, name), V(spread(3, 3) / 2 + 0.11))
for name in ["log", "log2", "log10", "log1p", "sqrt", "reciprocal"]:
    row(getattr(np, name), V(positive(4)))
for name in ["arcsin", "arccos", "arctanh"]:
    row(getattr(np, name), V(rng.uniform(-0.8, 0.8, 4)))
row(np.arccosh, V(positive(4) + 1))
for name in [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "hypot",
    "arctan2",
    "logaddexp",
    "logaddexp2",
    "copysign",
]:
    row(getattr(np, name), V(A), V(B))
    row(getattr(np, name), V(A), 0.7)
    row(getattr(np, name), 0.7, V(A))
    row(getattr(np, name), A, V(B[0]))
    row(getattr(np, name), V(A), B)
for name in ["power", "float_power"]:
    row(getattr(np, name), V(positive(3)), V(draw(3)))
    row(getattr(np, name), V(positive(3)), 2)
    row(getattr(np, name), 2.0, V(draw(3)))
for name in ["remainder", "fmod", "floor_divide", "divmod"]:
    row(getattr(np, name), V(spread(4)), V(np.array([1.7, 2.9, 3.1, 1.1])))
    row(getattr(np, name), V(spread(4)), 0.77)
row(np.modf, V(spread(4)))
row(np.ldexp, V(draw(3)), np.array([1, 2, 3]))
row(np.frexp, V(draw(3)))
row(np.matmul, V(A), V(B.T))
row(np.matmul, V(C3), V(draw(4)))
row(np.matmul, A, V(B.T.astype(float)))
row(np.vecdot, V(A), V(B))
row(np.matvec, V(C3), V(draw(4)))
row(np.vecmat, V(draw(3)), V(C3))
row(np.exp, V(complexes(3)))
row(np.clip, V(spread(3, 4)), -0.5, 0.5)
row(np.clip, V(spread(3, 4)), V(np.full(4, -0.55)), None)
row(np.clip, V(spread(5)), min=-0.5, max=0.4)
row(np.round, V(spread(5)), 1)
row(np.around, V(spread(5)))
row(np.fix, V(spread(5)))
row(np.real, V(complexes(3)))
row(np.imag, V(complexes(3)))
row(np.real, V(draw(3)))
row(np.real_if_close, V(draw(3)))
row(np.angle, V(complexes(3)))
row(np.angle, V(complexes(3)), deg=True)
row(np.sinc, V(draw(4)))
row(np.i0, V(draw(4)))
row(np.nan_to_num, V(draw(4)))
row(np.unwrap, V(np.cumsum(rng.uniform(1, 5, 6))))
row(np.interp, V(np.array([-3.0, 0.1, 0.6, 1.7, 9.0])), V(np.array([-1.0, 0.0, 1.0, 2.0])), V(draw(4)))
row(np.interp, V(np.array([-3.0, 0.1, 5.0])), np.array([-1.0, 0.0, 1.0]), draw(3), left=7.0, right=8.0)
row(np.interp, V(np.array([0.1, 5.0, 370.0])), np.array([0.0, 90.0, 180.0]), V(draw(3)), period=360)

# -- shapes ----------------------------------------------------------------------------------------------------------
row(np.reshape, V(A), (2, 6))
row(np.reshape, V(A), -1, order="F")
row(np.reshape, V(A), (4, 3), order="F")
row(np.ravel, V(A))
row(np.ravel, V(A), "F")
row(np.squeeze, V(draw(1, 3, 1)))
row(np.squeeze, V(draw(1, 3, 1)), axis=2)
row(np.expand_dims, V(A), (0, 2))
row(np.expand_dims, V(A), -1)
row(np.transpose, V(C3))
row(np.transpose, V(C3), (1, 0, 2))
row(np.permute_dims, V(C3), (2, 0, 1))
row(np.matrix_transpose, V(C3))
row(la.matrix_transpose, V(C3))
row(np.swapaxes, V(C3), 0, 2)
row(np.moveaxis, V(C3), 0, -1)
row(np.moveaxis, V(C3), (0, 1), (1, 2))
row(np.rollaxis, V(C3), 2)
row(np.rollaxis, V(C3), 0, 3)
row(np.atleast_1d, V(np.array(1.5)))
row(np.atleast_2d, V(x5), 3.0)
row(np.atleast_3d, V(A))
row(np.broadcast_to, V(x5), (2, 5))
row(np.broadcast_arrays, V(draw(3, 1)), V(draw(4)))
row(np.meshgrid, V(draw(3)), V(draw(4)))
row(np.meshgrid, V(draw(3)), V(draw(4)), indexing="ij", sparse=True)
row(np.concatenate, [V(A), V(B)])
row(np.concatenate, [V(A), B], axis=1)
row(np.concatenate, [V(A), x5], axis=None)
row(np.stack, [V(A), B, V(B)], axis=1)
row(np.hstack, [V(A), V(B)])
row(np.vstack, [V(x5), V(y5)])
row(np.dstack, [V(A), B])
row(np.column_stack, [V(x5), np.arange(5)])
row(np.append, V(A), x5)
row(np.append, V(A), V(B), axis=0)
row(np.block, [[V(draw(2, 2)), np.zeros((2, 3))], [draw(1, 2), V(draw(1, 3))]])
row(np.split, V(C3), 2, axis=1 + 1)
row(np.split, V(A), [1, 3], 1)
row(np.array_split, V(x5), 3)
row(np.hsplit, V(A), 2)
row(np.vsplit, V(A), [1])
row(np.dsplit, V(C3), 2)
row(np.unstack, V(A), axis=1)
row(np.flip, V(A))
row(np.flip, V(A), 1)
row(np.fliplr, V(A))
row(np.flipud, V(A))
row(np.rot90, V(A))
row(np.rot90, V(A), 2)
row(np.roll, V(A), 5)
row(np.roll, V(A), 1, axis=1)
row(np.roll, V(A), (1, 2), (0, 1))
row(np.roll, V(A), 1, axis=(0, 1))
row(np.tile, V(x5), (2, 2))
row(np.tile, V(A), 2)
row(np.repeat, V(A), 2)
row(np.repeat, V(A), [1, 0, 2], axis=0)
row(np.resize, V(x5), (2, 4))
row(np.lib.stride_tricks.sliding_window_view, V(x5), 3)
row(np.lib.stride_tricks.sliding_window_view, V(A), (2, 2))
for mode in ("edge", "reflect", "symmetric", "wrap"):
    row(np.pad, V(A), ((1, 2), (0, 1)), mode)
row(np.pad, V(A), 1)
row(np.pad, V(A), ((1, 0), (0, 2)), constant_values=1.5)
row(np.pad, V(A), 1, constant_values=((1.0, 2.0), (3.0, 4.0)))
row(np.copy, V(A))
row(np.astype, V(A), np.float64)
row(np.delete, V(A), 1, axis=0)
row(np.delete, V(x5), [0, 2])
row(np.insert, V(x5), 2, V(np.array(7.5)))
row(np.insert, V(A), [0, 2], 1.0, axis=1)
called(np.trim_zeros, lambda x: np.trim_zeros(x * np.array([0, 0, 1, 1, 0])), V(draw(5)))

# -- reductions ------------------------------------------------------------------------------------------------------
for function in (np.sum, np.mean, np.prod, np.max, np.min, np.amax, np.amin, np.ptp, np.std, np.var):
    row(function, V(spread(3, 4)))
    row(function, V(spread(3, 4)), 1)
    row(function, V(spread(3, 4)), axis=-1, keepdims=True)
    row(function, V(spread(2, 3, 4)), axis=(0, 2))
for function in (np.nansum, np.nanmean, np.nanprod, np.nanmax, np.nanmin, np.nanstd, np.nanvar):
    row(function, V(with_nan))
    row(function, V(with_nan), 1)
    row(function, V(with_nan), axis=0, keepdims=True)
row(np.sum, V(A), initial=2.0, where=mask)
row(np.prod, V(A), axis=1, where=mask)
row(np.max, V(A), axis=0, initial=-9.0, where=mask)
row(np.mean, V(A), axis=1, where=mask)
row(np.var, V(A), axis=1, ddof=1)
row(np.var, V(A), axis=0, where=mask)
row(np.std, V(A), ddof=1, keepdims=True)
row(np.average, V(A))
row(np.average, V(A), axis=1, weights=V(positive(3, 4)))
row(np.average, V(A), axis=0, weights=positive(3), returned=True)
for function in (np.cumsum, np.cumprod, np.nancumsum, np.nancumprod):
    row(function, V(A))
    row(function, V(A), axis=1)
for function in (np.cumulative_sum, np.cumulative_prod):
    row(function, V(A), axis=1)
    row(function, V(x5), include_initial=True)
row(np.diff, V(A))
row(np.diff, V(A), n=2, axis=0)
row(np.diff, V(A), prepend=0.0, append=V(draw(3, 1)))
row(np.ediff1d, V(A), to_begin=V(draw(1)), to_end=[1.0, 2.0])
row(np.trapezoid, V(A))
row(np.trapezoid, V(A), dx=0.5, axis=0)
row(np.trapezoid, V(A), V(np.array([0.0, 1.0, 3.0, 3.5])))
row(np.trapezoid, V(A), np.array([0.0, 1.0, 3.0]), axis=0)
row(np.gradient, V(x5))
row(np.gradient, V(A), 0.5, axis=0)
row(np.gradient, V(A))
row(np.gradient, V(draw(5)), V(np.array([0.0, 1.0, 1.5, 3.0, 4.0])))
row(np.median, V(spread(3, 4)))
row(np.median, V(spread(3, 4)), axis=1)
row(np.nanmedian, V(with_nan), axis=0)
row(np.quantile, V(spread(3, 4)), 0.3)
row(np.quantile, V(spread(3, 4)), [0.25, 0.6], axis=1)
row(np.quantile, V(spread(2, 3, 4)), 0.6, axis=(0, 1), keepdims=True)
row(np.percentile, V(spread(3, 4)), [20, 50], axis=0, keepdims=True)
row(np.nanquantile, V(with_nan), 0.4)
row(np.nanpercentile, V(with_nan), 40, axis=1)
row(np.cov, V(A))
row(np.cov, V(x5), V(y5))
row(np.cov, V(A), rowvar=False, bias=True)
row(np.corrcoef, V(A))
row(np.corrcoef, V(x5), V(y5))

# -- choosing and sorting --------------------------------------------------------------------------------------------
row(np.where, mask, V(A), V(B))
row(np.where, mask, V(A), 0.0)
row(np.where, mask, 1, V(B))
row(np.take, V(A), [5, 0, 0])
row(np.take, V(A), [[1, 0]], axis=1)
row(np.take, V(A), [5, -1], axis=1, mode="wrap")
row(np.take, V(A), [5, 1], axis=0, mode="clip")
row(np.take_along_axis, V(A), np.argsort(B, axis=1), axis=1)
row(np.choose, np.array([[0, 1, 0, 1]]), [V(A), V(B)])
row(np.select, [mask, A > 0], [V(A), V(B)], 0.5)
row(np.extract, mask, V(A))
row(np.compress, [True, False, True], V(A), axis=0)
row(np.compress, [True, False, True], V(A))
row(np.piecewise, V(x5), [x5 < 0, x5 >= 0], [lambda x: x * x, lambda x: 3 * x])
row(np.piecewise, V(x5), [x5 < -0.5, x5 > 0.5], [-1.0, lambda x: x**3, lambda x: 2 * x])
row(np.sort, V(spread(3, 4)))
row(np.sort, V(spread(3, 4)), axis=0)
row(np.sort, V(spread(3, 4)), axis=None)
row(np.partition, V(spread(7)), 3)
row(np.sort_complex, V(complexes(4)))
row(np.unique, V(np.array([2.0, 1.0, 3.0])))
called(np.unique, lambda x: np.unique(x, return_inverse=True), V(np.array([2.0, 1.0, 3.0])))
for function in (np.unique_values, np.unique_counts, np.unique_inverse, np.unique_all):
    row(function, V(np.array([2.0, 1.0, 3.0])))
row(np.union1d, V(np.array([2.0, 1.0])), V(np.array([0.5])))
called(np.intersect1d, lambda x: np.intersect1d(x, x[:2]), V(np.array([2.0, 1.0, 3.0])))
called(np.setdiff1d, lambda x: np.setdiff1d(x, x[1:2]), V(np.array([2.0, 1.0, 3.0])))
called(np.setxor1d, lambda x: np.setxor1d(x, np.append(x[:1], 5.0)), V(np.array([2.0, 1.0, 3.0])))
row(np.diag, V(x5))
row(np.diag, V(A), 1)
row(np.diagflat, V(A))
row(np.diagonal, V(C3), 1, 0, 2)
row(la.diagonal, V(C3), offset=1)
row(np.trace, V(A))
row(np.trace, V(C3), 0, 1, 2)
row(la.trace, V(C3))
row(np.tril, V(A))
row(np.triu, V(C3), 1)
row(np.bincount, np.array([0, 2, 2, 1]), V(draw(4)))
row(np.bincount, np.array([0, 2, 2, 1]), weights=V(draw(4)), minlength=6)
row(np.apply_along_axis, lambda row_: row_ * row_.sum(), 1, V(A))
row(np.apply_along_axis, lambda row_: (row_ * row_).sum(), 0, V(A))
row(np.apply_over_axes, np.sum, V(C3), [0, 2])

# -- products and polynomials ----------------------------------------------------------------------------------------
row(np.dot, V(A), V(B.T))
row(np.dot, V(x5), V(y5))
row(np.dot, V(A), V(draw(4)))
row(np.dot, V(A), 2.0)
row(np.dot, V(A), V(draw(2, 4, 3)))
row(la.matmul, V(A), V(B.T))
row(np.vdot, V(complexes(3)), V(complexes(3)))
row(np.inner, V(A), V(B))
row(np.outer, V(x5), V(draw(3)))
row(la.outer, V(x5), V(draw(3)))
row(la.vecdot, V(A), V(B), axis=0)
row(np.kron, V(draw(2, 2)), V(draw(2, 3)))
row(np.tensordot, V(C3), V(draw(4, 3)), ((1, 2), (1, 0)))
row(np.tensordot, V(A), V(draw(4, 2)), 1)
row(la.tensordot, V(A), V(draw(4, 2)), axes=1)
row(np.einsum, "ij,kj->ik", V(A), V(B))
row(np.einsum, "ii", V(square))
row(np.einsum, "ij,j,i->", V(A), draw(4), V(draw(3)), optimize=True)
row(np.einsum, V(A), [0, 1], V(B), [0, 1], [0])
row(np.cross, V(draw(2, 3)), V(draw(3)))
row(np.cross, V(draw(3, 2)), V(draw(3, 2)), axis=0)
row(la.cross, V(draw(2, 3)), V(draw(2, 3)))
for mode in ("full", "same", "valid"):
    row(np.convolve, V(draw(6)), V(draw(3)), mode)
    row(np.convolve, V(draw(3)), V(draw(6)), mode)
    row(np.correlate, V(draw(6)), V(draw(4)), mode)
    row(np.correlate, V(draw(4)), V(draw(6)), mode)
    row(np.correlate, V(draw(3)), V(draw(6)), mode)
row(np.polyval, V(draw(3)), V(draw(4)))
row(np.polyadd, V(draw(3)), V(draw(5)))
row(np.polysub, V(draw(3)), V(draw(5)))
row(np.polymul, V(draw(3)), V(draw(4)))
row(np.polydiv, V(draw(5)), V(positive(3)))
row(np.polyder, V(draw(4)))
row(np.polyder, V(draw(5)), 2)
row(np.polyint, V(draw(3)))
row(np.polyint, V(draw(3)), 2, [1.0, 2.0])
row(np.poly, V(draw(3)))
called(np.roots, part(np.roots, np.sort), V(np.poly([1.0, -2.0, 3.0])))
row(np.polyfit, np.linspace(0, 1, 6), V(draw(6)), 2)
row(np.polyfit, V(np.linspace(0, 1, 6)), V(draw(6)), 1, w=V(positive(6)))
row(np.vander, V(x5), 3)
row(np.vander, V(x5), increasing=True)

# -- making ----------------------------------------------------------------------------------------------------------
row(np.full_like, V(A), V(np.array(2.5)))
row(np.linspace, V(np.array(1.0)), V(np.array(3.0)), 5)
row(np.linspace, V(draw(2)), 3.0, 4, endpoint=False, axis=1)
row(np.linspace, V(draw(2)), 3.0, 4, retstep=True)
row(np.logspace, V(np.array(0.5)), 2.0, 4)
row(np.geomspace, V(np.array(0.5)), V(np.array(8.0)), 4)

# -- numpy.linalg ----------------------------------------------------------------------------------------------------
called(la.cholesky, symmetrized(la.cholesky), V(symmetric))
row(la.cond, V(square))
row(la.det, V(square))
row(la.slogdet, V(square))
row(la.inv, V(square))
row(la.pinv, V(A))
row(la.solve, V(square), V(draw(3)))
row(la.solve, V(square), V(draw(3, 2)))
row(la.solve, V(np.stack([square, square.T])), V(draw(3, 2)))
row(la.lstsq, V(draw(6, 3)), V(draw(6)), None)
row(la.lstsq, V(draw(6, 3)), V(draw(6, 2)))
called(la.eig, part(la.eig, lambda found: np.sort(found.eigenvalues)), V(np.diag([1.0, 2.0, 4.0]) + 0.1 * square))
called(la.eigvals, part(la.eigvals, np.sort), V(np.diag([1.0, 2.0, 4.0]) + 0.1 * square))
called(la.eigh, symmetrized(part(la.eigh, lambda found: (found.eigenvalues, np.abs(found.eigenvectors)))), V(symmetric))
called(la.eigvalsh, symmetrized(la.eigvalsh), V(symmetric))
called(la.svd, part(lambda a: la.svd(a, full_matrices=False), lambda f: (np.abs(f.U), f.S, np.abs(f.Vh))), V(A))
row(la.svd, V(A), compute_uv=False)
row(la.svdvals, V(A))
row(la.qr, V(square))
called(la.qr, part(la.qr, lambda f: f.R), V(draw(5, 3)))
row(la.matrix_power, V(square), 3)
row(la.multi_dot, [V(A), V(draw(4, 2)), draw(2, 3)])
row(la.norm, V(A))
row(la.norm, V(A), axis=1)
row(la.norm, V(A), "nuc")
row(la.norm, V(x5), 1)
row(la.norm, V(x5), np.inf, keepdims=True)
row(la.norm, V(A), keepdims=True)
row(la.norm, V(C3), axis=(1, 2))
row(la.matrix_norm, V(C3))
row(la.vector_norm, V(A), axis=0, ord=3)
row(la.vector_norm, V(A))
row(la.tensorinv, V(draw(6, 2, 3)), 1)
row(la.tensorsolve, V(draw(2, 3, 6)), V(draw(2, 3)))

# -- numpy.fft -------------------------------------------------------------------------------------------------------
for name in ("fft", "ifft", "hfft"):
    row(getattr(np.fft, name), V(complexes(5)))
    row(getattr(np.fft, name), V(complexes(2, 5)), n=6, axis=0, norm="ortho")
for name in ("rfft", "ihfft"):
    row(getattr(np.fft, name), V(draw(6)))
    row(getattr(np.fft, name), V(draw(2, 5)), 4, 1, "forward")
called(np.fft.irfft, lambda x: np.fft.irfft(np.fft.rfft(x) * 1j), V(draw(6)))
called(np.fft.irfft, lambda x: np.fft.irfft(np.fft.rfft(x) * 1j, n=5), V(draw(5)))
for name in ("fft2", "ifft2", "fftn", "ifftn"):
    row(getattr(np.fft, name), V(complexes(3, 4)))
row(np.fft.fftn, V(complexes(2, 3)), (3, 3), (0, 1))
row(np.fft.rfft2, V(draw(3, 4)))
row(np.fft.rfftn, V(draw(3, 4)))
called(np.fft.irfft2, lambda x: np.fft.irfft2(np.fft.rfft2(x) * 1j), V(draw(4, 4)))
called(np.fft.irfftn, lambda x: np.fft.irfftn(np.fft.rfftn(x) * 1j), V(draw(4, 4)))
row(np.fft.fftshift, V(draw(5)))
row(np.fft.ifftshift, V(draw(3, 4)), axes=1)

# -- methods of ufuncs -----------------------------------------------------------------------------------------------
for function in (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp):
    called(function, function.reduce, V(spread(3, 4)))
    called(function, function.reduce, V(spread(3, 4)), axis=1, keepdims=True)
    called(function, function.accumulate, V(spread(3, 4)), axis=1)
    called(function, function.outer, V(x5), V(draw(2, 2)))
