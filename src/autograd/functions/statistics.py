"""Statistics, as functions: ``stowgrad.var(x, dim=0)``."""

from __future__ import annotations

from typing import Any

from ...memory import META as _META
from ..numpy_names import numpy_names as _numpy_names
from ..ops import complex as _complex
from ..ops import elementwise as _elementwise
from ..ops import reduce as _reduce
from ..ops import shape as _shape
from ..ops import variance as ops
from ..ops.cast import to_dtype as _to_dtype
from ..ops.extremes import clamp as _clamp
from ..ops.linalg import matmul as _matmul
from ..ops.promotion import category as _category
from ..ops.promotion import get_default_dtype as _get_default_dtype
from ..ops.reduce import Dims as _Dims
from ..out import into

__all__ = [
    "corrcoef",
    "cov",
    "std",
    "std_mean",
    "var",
    "var_mean",
]


@_numpy_names
def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> Any:
    """The variance over dimensions, or over all: squared deviations over their number less ``correction`` (1)."""
    dims, less = _arguments("var", dim, unbiased, correction)
    return (
        _spread(ops.var, input, dims, less, keepdim)
        if out is None
        else into(out, var, input, dims, correction=less, keepdim=keepdim)
    )


@_numpy_names
def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> Any:
    """The standard deviation: the square root of `var`. Where it is 0, so is its gradient."""
    dims, less = _arguments("std", dim, unbiased, correction)
    return (
        _spread(ops.std, input, dims, less, keepdim)
        if out is None
        else into(out, std, input, dims, correction=less, keepdim=keepdim)
    )


@_numpy_names
def var_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """The variance and the mean, in one go."""
    dims, less = _arguments("var_mean", dim, unbiased, correction)
    if input._array.dtype.kind == "c":
        return _spread(ops.var, input, dims, less, keepdim), _reduce.mean(input, dims, keepdim)
    return ops.var_mean(input, dims, keepdim, less)


@_numpy_names
def std_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """The standard deviation and the mean, in one go."""
    dims, less = _arguments("std_mean", dim, unbiased, correction)
    if input._array.dtype.kind == "c":
        return _spread(ops.std, input, dims, less, keepdim), _reduce.mean(input, dims, keepdim)
    return ops.std_mean(input, dims, keepdim, less)


def _arguments(name: str, dim: Any, unbiased: bool | None, correction: float | None) -> tuple[_Dims, float]:
    """The dimensions and the correction, from PyTorch's two ways to give them."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}(): expected unbiased or correction, not both")
    if correction is None:
        correction = 0 if unbiased is False else 1
    return dim, correction


def _spread(op: Any, x: Any, dims: _Dims, correction: float, keepdim: bool) -> Any:
    """Variance or deviation; that of complex numbers is that of the real and the imaginary parts together."""
    if x._array.dtype.kind != "c":
        return op(x, dims, keepdim, correction)
    parts = [ops.var(part(x), dims, keepdim, correction) for part in (_complex.real, _complex.imag)]
    total = _elementwise.add(*parts)
    return _elementwise.sqrt(total) if op is ops.std else total


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance of variables, which are rows; columns are observations.

    Args:
        input: at most two dimensions.
        correction: what the number of observations is diminished by.
        fweights: how often each observation was made: integers.
        aweights: how much each observation counts: floats.

    Raises:
        RuntimeError: for more dimensions, and weights that do not fit.
    """
    if input._array.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got {input._array.ndim} dimensions"
        )
    if input._array.dtype == bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input if input._array.ndim == 2 else _shape.reshape(input, (1, input._array.size))
    if _category(x._array.dtype) < 2:
        x = _to_dtype(x, _get_default_dtype())
    count = x._array.shape[1]
    for what, given, whole in (("fweights", fweights, True), ("aweights", aweights, False)):
        if given is not None and (given._array.ndim > 1 or given._array.size != count):
            raise RuntimeError(f"cov(): expected {what} to have the same numel as there are observations, {count}")
        if given is not None and (given._array.dtype.kind in "iu") != whole:
            raise RuntimeError(f"cov(): expected {what} of {'integral' if whole else 'floating point'} dtype")
        if given is not None and given._storage.device is not _META and bool((given < 0).any().item()):
            raise RuntimeError(f"cov(): {what} cannot be negative")
    weights = fweights if aweights is None else aweights if fweights is None else _elementwise.mul(fweights, aweights)
    if weights is None:
        total: Any = count
        mean = _elementwise.div(_reduce.sum(x, (1,), True), count)
        norm: Any = max(count - correction, 0)
    else:
        total = _reduce.sum(weights)
        mean = _elementwise.div(_reduce.sum(_elementwise.mul(x, weights), (1,), True), total)
        less: Any = correction
        if aweights is not None and correction != 0:
            less = _elementwise.div(
                _elementwise.mul(_reduce.sum(_elementwise.mul(weights, aweights)), correction), total
            )
        norm = _elementwise.sub(total, less)
        norm = _elementwise.where(_elementwise.le(norm, 0), 0, norm)
    away = _elementwise.sub(x, mean)
    other = away if weights is None else _elementwise.mul(away, weights)
    product = _elementwise.div(_matmul(away, _complex.conj(_shape.transpose(other, 0, 1))), norm)
    return _shape.reshape(product, ()) if product._array.size == 1 else product


def corrcoef(input: Any) -> Any:
    """The correlation of variables, which are rows: `cov` over the deviations."""
    found = cov(input)
    if not found._array.ndim:
        return _elementwise.div(found, found)
    size = found._array.shape[0]
    flat = _shape.reshape(found, (size * size,))
    deviations = _elementwise.sqrt(_complex.real(_shape.index(flat, (slice(None, None, size + 1),))))
    scaled = _elementwise.div(
        _elementwise.div(found, _shape.reshape(deviations, (-1, 1))), _shape.reshape(deviations, (1, -1))
    )
    if scaled._array.dtype.kind != "c":
        return _clamp(scaled, -1.0, 1.0)
    parts = [_clamp(part(scaled), -1.0, 1.0) for part in (_complex.real, _complex.imag)]
    return _elementwise.add(parts[0], _elementwise.mul(parts[1], 1j))
