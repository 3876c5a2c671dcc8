"""Running sums and their kin, differences and integrals, as functions: ``stowgrad.cumsum(x, 0)``."""

from __future__ import annotations

from typing import Any

from .. import return_types
from ..numpy_names import numpy_names as _numpy_names
from ..ops import elementwise as _elementwise
from ..ops import scan as ops
from ..ops import shape as _shape
from ..ops.cast import clone as _clone
from ..ops.cast import to_dtype as _to_dtype
from ..ops.promotion import category as _category
from ..ops.promotion import get_default_dtype as _get_default_dtype
from ..ops.reduce import sum as _sum
from ..out import into
from ..record import normalize_dim as _normalize_dim

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "gradient",
    "logcumsumexp",
    "trapezoid",
    "trapz",
]


@_numpy_names
def cumsum(input: Any, dim: int, *, dtype: Any = None, out: Any = None) -> Any:
    """The sum of the elements so far along a dimension; nothing is kept for backward."""
    return ops.cumsum(input, dim, dtype) if out is None else into(out, ops.cumsum, input, dim, dtype)


@_numpy_names
def cumprod(input: Any, dim: int, *, dtype: Any = None, out: Any = None) -> Any:
    """The product of the elements so far along a dimension; its gradient is exact at zeros, too."""
    return ops.cumprod(input, dim, dtype) if out is None else into(out, ops.cumprod, input, dim, dtype)


@_numpy_names
def cummax(input: Any, dim: int, *, out: Any = None) -> Any:
    """The largest element so far along a dimension, and its index, of equal ones the last: ``(values, indices)``."""
    return return_types.cummax(*(ops.cummax(input, dim) if out is None else into(out, ops.cummax, input, dim)))


@_numpy_names
def cummin(input: Any, dim: int, *, out: Any = None) -> Any:
    """The smallest element so far along a dimension, and its index, of equal ones the last: ``(values, indices)``."""
    return return_types.cummin(*(ops.cummin(input, dim) if out is None else into(out, ops.cummin, input, dim)))


@_numpy_names
def logcumsumexp(input: Any, dim: int, *, out: Any = None) -> Any:
    """The logarithm of the sum of the exponentials so far along a dimension, computed without overflow."""
    return ops.logcumsumexp(input, dim) if out is None else into(out, ops.logcumsumexp, input, dim)


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None, *, out: Any = None) -> Any:
    """The differences of neighbours along a dimension, ``n`` times; ``prepend`` and ``append`` are joined on first.

    >>> import stowgrad
    >>> stowgrad.diff(stowgrad.tensor([1, 3, 2]))
    tensor([ 2, -1])
    """
    if out is not None:
        return into(out, diff, input, n, dim, prepend, append)
    if not input._array.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = _normalize_dim("diff", dim, input._array.ndim)
    if n == 0:
        return _clone(input)
    parts = [part for part in (prepend, input, append) if part is not None]
    found = _shape.cat(parts, dim) if len(parts) > 1 else input
    for _ in range(min(n, found._array.shape[dim])):
        found = _step(found, dim)
    return found


def _part(x: Any, dim: int, start: int | None, stop: int | None) -> Any:
    return _shape.index(x, (*[slice(None)] * dim, slice(start, stop)))


def _step(x: Any, dim: int) -> Any:
    later, earlier = _part(x, dim, 1, None), _part(x, dim, None, -1)
    if x._array.dtype == bool:
        return _elementwise.ne(later, earlier)
    return _elementwise.sub(later, earlier)


def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The integral along a dimension by the trapezoidal rule, at points ``x`` or with a distance ``dx``."""
    terms, dim = _trapezoids("trapezoid", y, x, dx, dim)
    return _sum(terms, dim)


def trapz(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """`trapezoid` by another name."""
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """The running integral along a dimension by the trapezoidal rule: one element less than ``y``."""
    terms, dim = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    return ops.cumsum(terms, dim)


def _trapezoids(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """The areas between neighbouring points, and the dimension."""
    if x is not None and dx is not None:
        raise TypeError(f"{name}(): expected x or dx, not both")
    if y._array.dtype == bool or (x is not None and x._array.dtype == bool):
        raise RuntimeError(f"{name}: received a bool input, but bool is not supported")
    if _category(y._array.dtype) < 2:
        y = _to_dtype(y, _get_default_dtype())
    dim = _normalize_dim(name, dim, y._array.ndim)
    if y._array.shape[dim] == 0:
        return _elementwise.mul(y, 0.0), dim
    heights = _elementwise.add(_part(y, dim, 1, None), _part(y, dim, None, -1))
    if x is None:
        return _elementwise.mul(_elementwise.div(heights, 2.0), 1 if dx is None else dx), dim
    if x._array.ndim == 1:
        if x._array.shape[0] != y._array.shape[dim]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point; got {x._array.shape[0]} of them for"
                f" {y._array.shape[dim]} points"
            )
        behind = (1,) * (y._array.ndim - dim - 1)
        x, along = _shape.reshape(x, (-1, *behind)), -1 - len(behind)
    else:
        along = dim - y._array.ndim
    along += x._array.ndim
    widths = _elementwise.sub(_part(x, along, 1, None), _part(x, along, None, -1))
    return _elementwise.div(_elementwise.mul(heights, widths), 2.0), dim - len(heights._array.shape)


def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """The derivative of samples along each dimension: differences of second order, of ``edge_order`` at the ends.

    Args:
        input: the samples.
        spacing: the distance of samples: one number, one for each dimension, or a tensor of coordinates for each.
        dim: which dimensions; all by default.
        edge_order: 1 or 2.

    Returns:
        A list of tensors, one for each dimension.
    """
    count = input._array.ndim
    dims = list(range(count)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [_normalize_dim("gradient", d, count) for d in dims]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"gradient: dim {d} appears multiple times in the list of dims")
    if isinstance(spacing, tuple | list):
        spacings = list(spacing)
        if len(spacings) == 1 and len(dims) > 1:
            raise RuntimeError(f"torch.gradient expected spacing to be unspecified, or a list of length {len(dims)}")
    else:
        spacings = [1 if spacing is None else spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(f"gradient expected spacing of length {len(dims)}, got {len(spacings)}")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient only supports edge_order=1 and edge_order=2, got {edge_order}")
    for d in dims:
        if input._array.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"gradient expected each dimension size to be at least edge_order+1 = {edge_order + 1}, got"
                f" {input._array.shape[d]} in dimension {d}"
            )
    return [_derivative(input, d, h, edge_order) for d, h in zip(dims, spacings, strict=True)]


def _derivative(x: Any, dim: int, spacing: Any, edge_order: int) -> Any:
    """The derivative along one dimension."""
    if hasattr(spacing, "_array") and spacing._array.ndim:
        behind = (1,) * (x._array.ndim - dim - 1)
        points = _shape.reshape(spacing, (-1, *behind))
        steps = _elementwise.sub(_part(points, 0, 1, None), _part(points, 0, None, -1))
        steps = _shape.reshape(steps, ((1,) * dim) + steps._array.shape)
    else:
        steps = None
    rises = _step(x, dim)
    if steps is None:
        slopes = _elementwise.div(rises, spacing)
        inner = _elementwise.div(_elementwise.add(_part(slopes, dim, 1, None), _part(slopes, dim, None, -1)), 2.0)
        weight_first = weight_last = 0.5
    else:
        slopes = _elementwise.div(rises, steps)
        before, behind_it = _part(steps, dim, None, -1), _part(steps, dim, 1, None)
        total = _elementwise.add(before, behind_it)
        inner = _elementwise.add(
            _elementwise.mul(_elementwise.div(behind_it, total), _part(slopes, dim, None, -1)),
            _elementwise.mul(_elementwise.div(before, total), _part(slopes, dim, 1, None)),
        )
        weight_first = _elementwise.div(_part(before, dim, 0, 1), _part(total, dim, 0, 1))
        weight_last = _elementwise.div(_part(behind_it, dim, -1, None), _part(total, dim, -1, None))
    first, last = _part(slopes, dim, 0, 1), _part(slopes, dim, -1, None)
    if edge_order == 2:
        first = _bent(first, _part(slopes, dim, 1, 2), weight_first)
        last = _bent(last, _part(slopes, dim, -2, -1), weight_last)
    return _shape.cat([first, inner, last], dim)


def _bent(slope: Any, next_one: Any, weight: Any) -> Any:
    """A slope at an end, as it goes on from the next one."""
    return _elementwise.add(slope, _elementwise.mul(_elementwise.sub(slope, next_one), weight))
