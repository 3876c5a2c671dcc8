"""NumPy's products: dot, einsum, tensordot, convolutions, and the functions of polynomials that are made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import linalg
from ..autograd import functions as F
from ..autograd.creation import ones_like, zeros_like
from ..autograd.ops.promotion import category
from .convert import floats, met, owned, plain, promoted, tensor_of, tensors_of
from .dispatching import implements

__all__ = ["real_if_real"]


@implements(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> Any:
    x, y = promoted(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim <= 2:
        return F.matmul(x, y)
    return F.tensordot(x, y, ([x.ndim - 1], [y.ndim - 2]))


@implements(np.linalg.matmul)
def _matmul(x1: Any, x2: Any, /) -> Any:
    return F.matmul(*promoted(x1, x2))


@implements(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    x, y = promoted(a, b)
    return F.vdot(x.reshape(-1), y.reshape(-1))


@implements(np.inner)
def _inner(a: Any, b: Any, /) -> Any:
    return F.inner(*promoted(a, b))


@implements(np.outer)
def _outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = promoted(a, b)
    return F.outer(x.reshape(-1), y.reshape(-1))


@implements(np.linalg.outer)
def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    return F.outer(*promoted(x1, x2))


@implements(np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return linalg.vecdot(*promoted(x1, x2), dim=axis)


@implements(np.kron)
def _kron(a: Any, b: Any) -> Any:
    return F.kron(*promoted(a, b))


@implements(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if not isinstance(axes, int):
        axes = tuple([part] if isinstance(part, int | np.integer) else list(part) for part in axes)
    x, y = promoted(a, b)
    return F.tensordot(x, y, axes)


@implements(np.linalg.tensordot)
def _linalg_tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return _tensordot(x1, x2, axes)


@implements(np.einsum)
def _einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
) -> Any:
    if isinstance(operands[0], str):
        return F.einsum(operands[0], *_typed(operands[1:], dtype))
    count = len(operands) // 2
    given = list(operands)
    for place, tensor in zip(range(0, 2 * count, 2), _typed(operands[: 2 * count : 2], dtype), strict=True):
        given[place] = tensor
    return F.einsum(*given)


def _typed(operands: Any, dtype: Any) -> list[Any]:
    tensors = met(*tensors_of(operands))
    return tensors if dtype is None else [x.to(np.dtype(dtype)) for x in tensors]


@implements(np.cross)
def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted(a, b)
    found = linalg.cross(*F.broadcast_tensors(F.movedim(x, axisa, -1), F.movedim(y, axisb, -1)), dim=-1)
    return F.movedim(found, -1, axisc)


@implements(np.linalg.cross)
def _linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return _cross(x1, x2, axis=axis)


# -- sequences and polynomials ---------------------------------------------------------------------------------------


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    x, y = floats(a, v)
    if not x._array.size or not y._array.size:
        raise ValueError("np.convolve: an operand is empty")
    whole = category(tensor_of(a).dtype) < 2 and category(tensor_of(v).dtype) < 2
    if x._array.size < y._array.size:
        x, y = y, x
    n, m = x._array.size, y._array.size
    padded = F.constant_pad_nd(x, [m - 1, m - 1])
    rows = F.as_strided(padded.clone(), (n + m - 1, m), (1, 1))
    full = F.matmul(rows, F.flip(y, 0))
    if whole:
        full = F.round(full).to(np.promote_types(tensor_of(a).dtype, tensor_of(v).dtype))
    if mode == "full":
        return full
    return full[(m - 1) // 2 : (m - 1) // 2 + n] if mode == "same" else full[m - 1 : n]


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    x, y = tensor_of(a), F.flip(F.conj(tensor_of(v)), 0)
    found = _convolve(x, y, mode)
    if mode == "same" and x._array.size < y._array.size and y._array.size % 2 == 0:
        n, m = y._array.size, x._array.size
        full = _convolve(x, y, "full")
        return full[m // 2 : m // 2 + n]
    return found


@implements(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    coefficients, points = promoted(p, x)
    value = zeros_like(points)
    for coefficient in coefficients.unbind(0):
        value = value * points + coefficient
    return value


@implements(np.polyadd)
def _polyadd(a1: Any, a2: Any) -> Any:
    x, y = (F.atleast_1d(part) for part in promoted(a1, a2))
    size = max(x.shape[0], y.shape[0])
    return F.constant_pad_nd(x, [size - x.shape[0], 0]) + F.constant_pad_nd(y, [size - y.shape[0], 0])


@implements(np.polysub)
def _polysub(a1: Any, a2: Any) -> Any:
    return _polyadd(a1, -tensor_of(a2))


@implements(np.polymul)
def _polymul(a1: Any, a2: Any) -> Any:
    return _convolve(F.atleast_1d(tensor_of(a1)), F.atleast_1d(tensor_of(a2)))


@implements(np.polydiv)
def _polydiv(u: Any, v: Any) -> Any:
    x, y = (F.atleast_1d(part) for part in floats(u, v))
    rest, size, quotient = x, y.shape[0], []
    for place in range(max(x.shape[0] - size + 1, 1) if x.shape[0] >= size else 0):
        factor = rest[place] / y[0]
        quotient.append(factor)
        rest = rest - F.constant_pad_nd(y * factor, [place, x.shape[0] - size - place])
    values = plain(rest)[len(quotient) :] if quotient else plain(rest)
    used = np.flatnonzero(np.abs(values) > 1e-14)
    first = len(quotient) + (int(used[0]) if used.size else max(values.size - 1, 0))
    quotients = F.stack(quotient) if quotient else zeros_like(x[:1])
    remainder = rest[first:] if first < x.shape[0] else zeros_like(x[:1])
    return quotients, remainder


@implements(np.polyder)
def _polyder(p: Any, m: int = 1) -> Any:
    x = tensor_of(p)
    for _ in range(m):
        powers = np.arange(x.shape[0] - 1, 0, -1).astype(x.dtype)
        x = x[:-1] * owned(powers, x)
    return x


@implements(np.polyint)
def _polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    (x,) = floats(p)
    constants = tensor_of(0.0 if k is None else k).to(x.dtype)
    constants = F.broadcast_to(constants, (m,)) if constants._array.size == 1 and constants.ndim < 2 else constants
    for step in range(m):
        powers = np.arange(x.shape[0], 0, -1).astype(x.dtype)
        x = F.cat([x / owned(powers, x), constants[step].reshape(1)])
    return x


@implements(np.poly)
def _poly(seq_of_zeros: Any) -> Any:
    (x,) = floats(seq_of_zeros)
    if x.ndim == 2:
        x = linalg.eigvals(x)
    found = ones_like(x[:1])
    for root in x.unbind(0):
        found = F.constant_pad_nd(found, [0, 1]) - F.constant_pad_nd(found * root, [1, 0])
    if found.dtype.kind == "c" and _in_pairs(plain(x)):
        return F.real(found)
    return found


def _in_pairs(roots: Any) -> bool:
    return bool(np.all(np.sort_complex(roots) == np.sort_complex(roots.conjugate())))


@implements(np.roots)
def _roots(p: Any) -> Any:
    (x,) = floats(p)
    values = plain(x)
    used = np.flatnonzero(values)
    if not used.size:
        return x[:0]
    x, zeros = x[int(used[0]) : int(used[-1]) + 1], values.size - int(used[-1]) - 1
    size = x.shape[0]
    if size == 1:
        return F.constant_pad_nd(x[1:], [0, zeros])
    below = owned(np.eye(size - 1, k=-1, dtype=x.dtype)[1:].copy(), x)
    companion = F.cat([(-x[1:] / x[0]).reshape(1, -1), below], 0)
    found = real_if_real(linalg.eigvals(companion), companion)
    return F.constant_pad_nd(found, [0, zeros]) if zeros else found


def real_if_real(values: Any, source: Any) -> Any:
    """Complex numbers that came of real ones, as real ones where NumPy gives those: if no imaginary part is left."""
    return F.real(values) if source.dtype.kind != "c" and not np.any(plain(values).imag) else values


@implements(np.polyfit)
def _polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    if full or cov:
        raise NotImplementedError("np.polyfit: full= and cov= are not supported for tensors")
    points, values = floats(x, y)
    matrix = F.vander(points, deg + 1)
    if w is not None:
        (weights,) = floats(w)
        matrix = matrix * weights.reshape(-1, 1)
        values = values * (weights if values.ndim == 1 else weights.reshape(-1, 1))
    scale = F.sqrt(F.sum(matrix * matrix, 0))
    columns = values if values.ndim == 2 else values.reshape(-1, 1)
    q, r = linalg.qr(matrix / scale)
    found = linalg.solve_triangular(r, F.matmul(q.swapaxes(0, 1), columns), upper=True) / scale.reshape(-1, 1)
    return found if values.ndim == 2 else found.reshape(-1)


@implements(np.vander)
def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # NumPy's name
    return F.vander(tensor_of(x), N, increasing)
