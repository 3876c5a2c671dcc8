"""NumPy's sums, means, extremes, quantiles and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import functions as F
from ..autograd.creation import full_like
from ..autograd.ops.promotion import category, get_default_dtype
from .convert import as_axes, beside, floats, owned, promoted, tensor_of
from .dispatching import implements

__all__: list[str] = []

_GIVEN = object()


def _every(x: Any, axis: Any) -> tuple[int, ...]:
    """The axes as a tuple of numbers from zero."""
    if axis is None:
        return tuple(range(x.ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(np.lib.array_utils.normalize_axis_tuple(tuple(int(a) for a in axes), x.ndim))


def _masked(x: Any, where: Any, fill: float | int | bool) -> Any:
    return x if where is True else F.where(tensor_of(where).to(np.dtype(bool)), x, fill)


def _as_float(x: Any) -> Any:
    return x.to(get_default_dtype()) if category(x.dtype) < 2 else x


def _keeping(x: Any, found: Any, axis: Any, keepdims: bool) -> Any:
    """A result without the reduced axes, or with them as ones."""
    if not keepdims:
        return found
    axes = _every(x, axis)
    return found.reshape([1 if dim in axes else size for dim, size in enumerate(x.shape)])


@implements(np.sum)
def _sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    x = _masked(tensor_of(a), where, 0)
    found = F.sum(x, as_axes(axis), keepdims, dtype=None if dtype is None else np.dtype(dtype)) if axis != () else x
    return found if initial is None else found + initial


@implements(np.prod)
def _prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    x = _masked(tensor_of(a), where, 1)
    axes = _every(x, axis)
    keywords = {} if dtype is None else {"dtype": np.dtype(dtype)}
    if axis is None:
        found = _keeping(x, F.prod(x, **keywords), axis, keepdims)
    else:
        found = x
        for dim in sorted(axes, reverse=True):
            found = F.prod(found, dim, keepdims, **keywords)
    return found if initial is None else found * initial


def _extreme(function: Any, combine: Any, name: str) -> Callable[..., Any]:
    def extreme(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
        **_: Any,
    ) -> Any:
        x = tensor_of(a)
        if where is not True:
            if initial is None:
                raise ValueError(f"np.{name}: where= needs initial=")
            x = _masked(x, where, initial)
        found = function(x, _every(x, axis), keepdims) if x.ndim else x
        return found if initial is None else combine(found, promoted(found, initial)[1])

    return extreme


implements(np.max, np.amax)(_extreme(F.amax, F.maximum, "max"))
implements(np.min, np.amin)(_extreme(F.amin, F.minimum, "min"))


@implements(np.ptp)
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    x = tensor_of(a)
    axes = _every(x, axis)
    return F.amax(x, axes, keepdims) - F.amin(x, axes, keepdims)


def _logical(function: Any, fill: bool) -> Callable[..., Any]:
    def reduce(
        a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True, **_: Any
    ) -> Any:
        x = tensor_of(a)
        x = x if where is True else _masked(F.ne(x, 0), where, fill)
        return function(x, None if axis is None else _every(x, axis), keepdims) if x.ndim else F.ne(x, 0)

    return reduce


implements(np.all)(_logical(F.all, True))
implements(np.any)(_logical(F.any, False))


@implements(np.mean)
def _mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    x = _as_float(tensor_of(a) if dtype is None else tensor_of(a).to(np.dtype(dtype)))
    if where is True:
        return F.mean(x, as_axes(axis), keepdims)
    chosen = F.broadcast_to(tensor_of(where).to(np.dtype(bool)), x.shape)
    return F.sum(_masked(x, chosen, 0), as_axes(axis), keepdims) / F.sum(chosen, as_axes(axis), keepdims)


@implements(np.var)
def _var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    x = _as_float(tensor_of(a) if dtype is None else tensor_of(a).to(np.dtype(dtype)))
    ddof = ddof if correction is None else correction
    if where is True and mean is None:
        return F.var(x, as_axes(axis), correction=ddof, keepdim=keepdims)
    mean = _mean(x, axis, keepdims=True, where=where) if mean is None else tensor_of(mean)
    chosen = F.broadcast_to(tensor_of(where).to(np.dtype(bool)), x.shape)
    difference = F.where(chosen, F.abs(x - mean), 0.0)
    squares = F.sum(F.square(difference), as_axes(axis), keepdims)
    return squares / (F.sum(chosen, as_axes(axis), keepdims) - ddof)


@implements(np.std)
def _std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: Any = None,
) -> Any:
    if where is True and mean is None and dtype is None:
        ddof = ddof if correction is None else correction
        return F.std(_as_float(tensor_of(a)), as_axes(axis), correction=ddof, keepdim=keepdims)
    return F.sqrt(_var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


@implements(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    x = _as_float(tensor_of(a))
    if weights is None:
        found = F.mean(x, as_axes(axis), keepdims)
        count = x._array.size / max(found._array.size, 1)
        return (found, full_like(found, count)) if returned else found
    x, w = floats(x, weights)
    if w.shape != x.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = _every(x, axis)
        order = np.argsort(axes)
        w = F.permute(w, tuple(int(i) for i in order))
        w = w.reshape([x.shape[dim] if dim in axes else 1 for dim in range(x.ndim)])
        w = F.broadcast_to(w, x.shape)
    total = F.sum(w, as_axes(axis), keepdims)
    found = F.sum(x * w, as_axes(axis), keepdims) / total
    return (found, total) if returned else found


# -- running ---------------------------------------------------------------------------------------------------------


def _running(function: Any) -> Callable[..., Any]:
    def running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = tensor_of(a)
        x = x.reshape(-1) if axis is None else x
        return function(x, 0 if axis is None else int(axis), dtype=None if dtype is None else np.dtype(dtype))

    return running


def _cumulative(function: Any, start: int) -> Callable[..., Any]:
    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        tensor = tensor_of(x)
        if axis is None:
            if tensor.ndim > 1:
                raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
            tensor, axis = tensor.reshape(-1), 0
        found = function(tensor, int(axis), dtype=None if dtype is None else np.dtype(dtype))
        if not include_initial:
            return found
        first = np.full([1 if dim == axis % found.ndim else size for dim, size in enumerate(found.shape)], start)
        return F.cat([owned(first.astype(found.dtype), found), found], int(axis))

    return cumulative


implements(np.cumsum)(_running(F.cumsum))
implements(np.cumprod)(_running(F.cumprod))
implements(getattr(np, "cumulative_sum", None))(_cumulative(F.cumsum, 0))
implements(getattr(np, "cumulative_prod", None))(_cumulative(F.cumprod, 1))


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _GIVEN, append: Any = _GIVEN) -> Any:
    x = tensor_of(a)
    parts = [x]
    for given, place in ((prepend, 0), (append, len(parts))):
        if given is not _GIVEN and given is not np._NoValue:
            extra = tensor_of(given)
            if extra.ndim == 0:
                extra = F.broadcast_to(extra, [1 if dim == axis % x.ndim else s for dim, s in enumerate(x.shape)])
            parts.insert(0 if place == 0 else len(parts), extra)
    joined = F.cat(promoted(*parts), axis) if len(parts) > 1 else x
    return F.diff(joined, n, axis)


@implements(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    x = tensor_of(ary).reshape(-1)
    parts = [F.diff(x)]
    if to_begin is not None:
        parts.insert(0, tensor_of(to_begin).reshape(-1).to(x.dtype))
    if to_end is not None:
        parts.append(tensor_of(to_end).reshape(-1).to(x.dtype))
    return F.cat(parts) if len(parts) > 1 else parts[0]


@implements(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    values = _as_float(tensor_of(y))
    if x is None:
        return F.trapezoid(values, dx=dx, dim=axis)
    values, points = floats(values, x)
    return F.trapezoid(values, points, dim=axis) if points.ndim == values.ndim else _trapezoid_1d(values, points, axis)


def _trapezoid_1d(y: Any, x: Any, axis: int) -> Any:
    return F.movedim(F.trapezoid(F.movedim(y, axis, -1), x), -1, -1)


@implements(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = _as_float(tensor_of(f))
    axes = _every(x, axis)
    spacing = [1.0] * len(axes) if not varargs else list(varargs) if len(varargs) == len(axes) else None
    if spacing is None:
        if len(varargs) != 1:
            raise TypeError("invalid number of arguments")
        spacing = [varargs[0]] * len(axes)
    found = []
    for dim, step in zip(axes, spacing, strict=True):
        size = step if isinstance(step, int | float) else tensor_of(step)
        if not isinstance(size, int | float) and size.ndim == 0:
            (part,) = F.gradient(x, dim=dim, edge_order=edge_order)
            part = part / size
        else:
            given = size if isinstance(size, int | float) else (size,)
            (part,) = F.gradient(x, spacing=given, dim=dim, edge_order=edge_order)
        found.append(part)
    return found[0] if len(found) == 1 else tuple(found)


# -- quantiles -------------------------------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile_of(function: Any, scale: float, name: str) -> Callable[..., Any]:
    def quantile(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Any = None,
        interpolation: Any = None,
    ) -> Any:
        if weights is not None or method not in _METHODS:
            raise NotImplementedError(
                f"np.{name}: tensors take no weights, and as method {', '.join(_METHODS)}; got {method!r}"
            )
        x = _as_float(tensor_of(a))
        share = beside(q, x).to(x.dtype) / scale
        flat, shape = share.reshape(-1), tuple(share.shape)
        axes = _every(x, axis)
        rest = [dim for dim in range(x.ndim) if dim not in axes]
        merged = F.permute(x, (*rest, *axes)).reshape((*[x.shape[dim] for dim in rest], -1))
        found = function(merged, flat, -1, interpolation=method)
        found = found.reshape((*shape, *found.shape[1:]))
        if keepdims:
            found = found.reshape((*shape, *[1 if dim in axes else size for dim, size in enumerate(x.shape)]))
        return found

    return quantile


implements(np.quantile)(_quantile_of(F.quantile, 1.0, "quantile"))
implements(np.nanquantile)(_quantile_of(F.nanquantile, 1.0, "nanquantile"))
implements(np.percentile)(_quantile_of(F.quantile, 100.0, "percentile"))
implements(np.nanpercentile)(_quantile_of(F.nanquantile, 100.0, "nanpercentile"))


def _median_of(function: Any, name: str) -> Callable[..., Any]:
    def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
        return _quantile_of(function, 1.0, name)(a, 0.5, axis, keepdims=keepdims)

    return median


implements(np.median)(_median_of(F.quantile, "median"))
implements(np.nanmedian)(_median_of(F.nanquantile, "nanmedian"))


# -- without NaN -----------------------------------------------------------------------------------------------------


def _without_nan(function: Callable[..., Any], fill: float) -> Callable[..., Any]:
    """A reduction that reads NaN as a number that doesn't matter to it."""

    def reduce(a: Any, *args: Any, **keywords: Any) -> Any:
        x = tensor_of(a)
        return function(F.where(F.isnan(x), fill, x) if category(x.dtype) > 1 else x, *args, **keywords)

    return reduce


implements(np.nansum)(_without_nan(_sum, 0.0))
implements(np.nanprod)(_without_nan(_prod, 1.0))
implements(np.nancumsum)(_without_nan(_running(F.cumsum), 0.0))
implements(np.nancumprod)(_without_nan(_running(F.cumprod), 1.0))


def _nan_extreme(function: Callable[..., Any], fill: float) -> Callable[..., Any]:
    def extreme(
        a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        x, keywords = tensor_of(a), {"initial": initial, "where": where}
        if category(x.dtype) < 2:
            return function(x, axis, keepdims=keepdims, **keywords)
        nan = F.isnan(x)
        found = function(F.where(nan, fill, x), axis, keepdims=keepdims, **keywords)
        return F.where(F.all(nan, _every(x, axis), keepdims), math.nan, found)

    return extreme


implements(np.nanmax)(_nan_extreme(_extreme(F.amax, F.maximum, "nanmax"), -math.inf))
implements(np.nanmin)(_nan_extreme(_extreme(F.amin, F.minimum, "nanmin"), math.inf))


@implements(np.nanmean)
def _nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Any:
    x = _as_float(tensor_of(a) if dtype is None else tensor_of(a).to(np.dtype(dtype)))
    chosen = F.logical_not(F.isnan(x))
    if where is not True:
        chosen = F.logical_and(chosen, tensor_of(where))
    return _mean(x, axis, keepdims=keepdims, where=chosen)


def _nan_spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def spread(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = True,
        mean: Any = None,
        correction: Any = None,
    ) -> Any:
        x = _as_float(tensor_of(a))
        chosen = F.logical_not(F.isnan(x))
        if where is not True:
            chosen = F.logical_and(chosen, tensor_of(where))
        ddof = ddof if correction is None else correction
        return function(x, axis, dtype, None, ddof, keepdims, where=chosen, mean=mean)

    return spread


implements(np.nanvar)(_nan_spread(_var))
implements(np.nanstd)(_nan_spread(_std))


# -- covariance ------------------------------------------------------------------------------------------------------


@implements(np.cov)
def _cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    x = _observations(m, y, rowvar)
    x = x if dtype is None else x.to(np.dtype(dtype))
    correction = (0 if bias else 1) if ddof is None else ddof
    return F.cov(
        x,
        correction=correction,
        fweights=None if fweights is None else tensor_of(fweights),
        aweights=None if aweights is None else tensor_of(aweights),
    )


def _observations(m: Any, y: Any, rowvar: bool) -> Any:
    (x,) = floats(m)
    if not rowvar and x.ndim > 1:
        x = x.swapaxes(0, 1)
    if y is None:
        return x
    x, other = floats(x, y)
    if not rowvar and other.ndim > 1:
        other = other.swapaxes(0, 1)
    return F.cat([F.atleast_2d(x), F.atleast_2d(other)], 0)


@implements(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    return F.corrcoef(_observations(x, y, rowvar))
