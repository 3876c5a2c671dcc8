"""NumPy's functions that choose elements, sort them, or work on each by itself; diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import linalg
from ..autograd import functions as F
from ..autograd.creation import zeros_like
from ..autograd.ops.promotion import category
from .convert import beside, float_of, floats, met, number_or_tensor, owned, plain, promoted, tensor_of
from .dispatching import CONSTANT, implements
from .shaping import gathered

__all__: list[str] = []

CONSTANT.update(
    {
        np.allclose,
        np.argmax,
        np.argmin,
        np.argpartition,
        np.argsort,
        np.argwhere,
        np.array2string,
        np.array_equal,
        np.array_equiv,
        np.array_repr,
        np.array_str,
        np.can_cast,
        np.common_type,
        np.count_nonzero,
        np.diag_indices_from,
        np.digitize,
        np.einsum_path,
        np.flatnonzero,
        np.iscomplex,
        np.isclose,
        np.isin,
        np.isneginf,
        np.isposinf,
        np.isreal,
        np.lexsort,
        np.min_scalar_type,
        np.nanargmax,
        np.nanargmin,
        np.nonzero,
        np.packbits,
        np.ravel_multi_index,
        np.searchsorted,
        np.tril_indices_from,
        np.triu_indices_from,
        np.unpackbits,
        np.unravel_index,
    }
)


# -- choosing --------------------------------------------------------------------------------------------------------


@implements(np.where)
def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    chosen = tensor_of(condition)
    chosen = chosen if chosen.dtype == np.bool_ else F.ne(chosen, 0)
    if x is None or y is None:
        return tuple(F.nonzero(chosen, as_tuple=True))
    x, y = number_or_tensor(x), number_or_tensor(y)
    if not hasattr(x, "dtype") and not hasattr(y, "dtype"):
        return owned(np.where(plain(chosen), x, y), chosen)
    return F.where(chosen, x, y)


@implements(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    x, index = tensor_of(a), tensor_of(indices)
    size = x._array.size if axis is None else x.shape[axis]
    if mode == "wrap":
        index = F.remainder(index, size)
    elif mode == "clip":
        index = F.clamp(index, 0, size - 1)
    index = index.to(np.dtype(np.int64))
    if axis is None:
        return F.take(x, index)
    axis %= x.ndim
    return x[(*[slice(None)] * axis, index)]


@implements(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    return F.take_along_dim(tensor_of(arr), tensor_of(indices).to(np.dtype(np.int64)), axis)


@implements(np.choose)
def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    index = plain(tensor_of(a))

    def arrange(*numbers: Any) -> Any:
        options: Any = {"mode": mode}
        return np.choose(index, numbers, **options)

    return gathered(arrange, *list(choices))


@implements(np.select)
def _select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    found = number_or_tensor(default)
    for condition, choice in zip(reversed(list(condlist)), reversed(list(choicelist)), strict=True):
        found = _where(condition, choice, found)
    return found


@implements(np.extract)
def _extract(condition: Any, arr: Any) -> Any:
    x = tensor_of(arr).reshape(-1)
    return x[owned(np.flatnonzero(plain(condition)), x)]


@implements(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    x = tensor_of(a)
    x = x.reshape(-1) if axis is None else x
    kept = owned(np.flatnonzero(plain(condition)), x)
    return F.index_select(x, 0 if axis is None else axis, kept)


@implements(np.piecewise)
def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    tensor = tensor_of(x)
    conditions = plain(condlist)
    conditions = [conditions] if np.ndim(conditions[0]) == 0 and tensor.ndim > 0 else list(conditions)
    conditions = [np.asarray(condition, bool) for condition in conditions]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.logical_or.reduce(conditions))
    found = zeros_like(tensor)
    for condition, function in zip(conditions, funclist, strict=True):
        mask = tensor_of(condition)
        value = function(tensor[mask], *args, **kw) if callable(function) else function
        found = found.index_put((mask,), tensor_of(value).to(tensor.dtype))
    return found


# -- order -----------------------------------------------------------------------------------------------------------


@implements(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    x = tensor_of(a)
    return F.sort(x.reshape(-1) if axis is None else x, -1 if axis is None else axis, stable=True)[0]


@implements(np.partition)
def _partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Any:
    x = tensor_of(a)
    x, axis = (x.reshape(-1), -1) if axis is None else (x, axis)
    return F.take_along_dim(x, owned(np.argpartition(plain(x), kth, axis), x), axis)


@implements(np.sort_complex)
def _sort_complex(a: Any) -> Any:
    x = tensor_of(a)
    values = plain(x)
    x = x if x.dtype.kind == "c" else x.to(np.result_type(x.dtype, np.complex64))
    return F.take_along_dim(x, owned(np.lexsort((values.imag, values.real), axis=-1), x), -1)


@implements(np.unique)
def _unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    x = tensor_of(ar)
    _, first, inverse, counts = np.unique(plain(x), True, True, True, axis, equal_nan=equal_nan)
    values = _chosen(x.reshape(-1) if axis is None else x, first, 0 if axis is None else axis)
    wanted = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    found = (values, *[owned(part, x) for asked, part in wanted if asked])
    return found if len(found) > 1 else values


def _chosen(x: Any, numbers: Any, axis: int = 0) -> Any:
    return F.index_select(x, axis, owned(np.array(numbers, np.int64), x))


@implements(np.unique_values)
def _unique_values(x: Any, /) -> Any:
    return _unique(x, equal_nan=False)


@implements(np.unique_counts)
def _unique_counts(x: Any, /) -> Any:
    found = np.unique_counts(plain(tensor_of(x)))
    values, counts = _unique(x, return_counts=True, equal_nan=False)
    return type(found)(values, counts)


@implements(np.unique_inverse)
def _unique_inverse(x: Any, /) -> Any:
    found = np.unique_inverse(plain(tensor_of(x)))
    return type(found)(*_unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_all)
def _unique_all(x: Any, /) -> Any:
    found = np.unique_all(plain(tensor_of(x)))
    return type(found)(*_unique(x, True, True, True, equal_nan=False))


@implements(np.union1d)
def _union1d(ar1: Any, ar2: Any) -> Any:
    return _unique(F.cat([part.reshape(-1) for part in promoted(ar1, ar2)]))


@implements(np.intersect1d)
def _intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    x, y = (part.reshape(-1) for part in promoted(ar1, ar2))
    _, first, second = np.intersect1d(plain(x), plain(y), assume_unique, return_indices=True)
    values = _chosen(x, first)
    return (values, owned(first), owned(second)) if return_indices else values


@implements(np.setdiff1d)
def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    x, y = (part.reshape(-1) for part in promoted(ar1, ar2))
    x = x if assume_unique else _unique(x)
    return _chosen(x, np.flatnonzero(~np.isin(plain(x), plain(y))))


@implements(np.setxor1d)
def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    x, y = (_unique(part) for part in promoted(ar1, ar2))
    return _unique(F.cat([_setdiff1d(x, y, True), _setdiff1d(y, x, True)]))


# -- element by element ----------------------------------------------------------------------------------------------


@implements(np.clip)
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **_: Any
) -> Any:
    x = tensor_of(a)
    lower = min if a_min is None or a_min is np._NoValue else a_min
    upper = max if a_max is None or a_max is np._NoValue else a_max
    bounds = [None if b is None or b is np._NoValue else number_or_tensor(b) for b in (lower, upper)]
    if any(hasattr(b, "dtype") for b in bounds):
        x, *bounds = _met_where_given(x, bounds)
    return F.clamp(x, *bounds) if any(b is not None for b in bounds) else x.clone()


def _met_where_given(x: Any, others: list[Any]) -> list[Any]:
    given = iter(met(x, *[tensor_of(b) for b in others if b is not None]))
    return [next(given), *[None if b is None else next(given) for b in others]]


@implements(np.round, np.around)
def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    x = tensor_of(a)
    return F.round(x, decimals=decimals) if category(x.dtype) > 1 or not decimals else _round_whole(x, decimals)


def _round_whole(x: Any, decimals: int) -> Any:
    return owned(np.round(plain(x), decimals), x)


@implements(np.fix)
def _fix(x: Any, out: Any = None) -> Any:
    return F.trunc(tensor_of(x))


@implements(np.real)
def _real(val: Any) -> Any:
    x = tensor_of(val)
    return F.real(x)


@implements(np.imag)
def _imag(val: Any) -> Any:
    x = tensor_of(val)
    return F.imag(x) if x.dtype.kind == "c" else x * 0


@implements(np.real_if_close)
def _real_if_close(a: Any, tol: float = 100) -> Any:
    x = tensor_of(a)
    return F.real(x) if np.isrealobj(np.real_if_close(plain(x), tol)) and x.dtype.kind == "c" else x


@implements(np.angle)
def _angle(z: Any, deg: bool = False) -> Any:
    found = F.angle(tensor_of(z))
    return F.rad2deg(found) if deg else found


@implements(np.sinc)
def _sinc(x: Any) -> Any:
    return F.sinc(tensor_of(x))


@implements(np.i0)
def _i0(x: Any) -> Any:
    return F.i0(tensor_of(x))


@implements(np.nan_to_num)
def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    tensor = tensor_of(x)
    found = F.nan_to_num(tensor, nan, posinf, neginf)
    return found if copy else tensor.copy_(found)


@implements(np.unwrap)
def _unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * np.pi) -> Any:
    (x,) = floats(p)
    values = plain(x)
    whole_turns = (np.unwrap(values, discont, axis, period=period) - values).astype(values.dtype)
    return x + owned(whole_turns, x)


@implements(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    at, points = floats(x, xp)
    values = float_of(beside(fp, at))
    if period is not None:
        at, points = F.remainder(at, period), F.remainder(points, period)
        order = np.argsort(plain(points))
        points, values = _chosen(points, order), _chosen(values, order)
        points = F.cat([points[-1:] - period, points, points[:1] + period])
        values = F.cat([values[-1:], values, values[:1]])
    numbers = np.clip(np.searchsorted(plain(points), plain(at), side="right") - 1, 0, points.shape[0] - 2)
    index = owned(numbers, at)
    low, high = points[index], points[index + 1]
    share = (at - low) / (high - low)
    found = values[index] * (1 - share) + values[index + 1] * share
    first = values[0] if left is None or period is not None else left
    last = values[-1] if right is None or period is not None else right
    found = F.where(at < points[0], number_or_tensor(first), found)
    return F.where(at > points[-1], number_or_tensor(last), found)


# -- diagonals and triangles -----------------------------------------------------------------------------------------


@implements(np.diag)
def _diag(v: Any, k: int = 0) -> Any:
    return F.diag(tensor_of(v), k)


@implements(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Any:
    return F.diagflat(tensor_of(v), k)


@implements(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return F.diagonal(tensor_of(a), offset, axis1, axis2)


@implements(np.linalg.diagonal)
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return linalg.diagonal(tensor_of(x), offset=offset)


@implements(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    found = F.sum(F.diagonal(tensor_of(a), offset, axis1, axis2), -1)
    return found if dtype is None else found.to(np.dtype(dtype))


@implements(np.linalg.trace)
def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return _trace(x, offset, -2, -1, dtype)


@implements(np.tril)
def _tril(m: Any, k: int = 0) -> Any:
    return F.tril(F.atleast_2d(tensor_of(m)), k)


@implements(np.triu)
def _triu(m: Any, k: int = 0) -> Any:
    return F.triu(F.atleast_2d(tensor_of(m)), k)


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    bins = tensor_of(x)
    if weights is None:
        return F.bincount(bins, minlength=minlength)
    (shares,) = floats(weights)
    size = max(int(plain(bins).max(initial=-1)) + 1, minlength)
    return F.index_add(owned(np.zeros(size, shares.dtype), shares), 0, bins, shares)


# -- functions of the user's ---------------------------------------------------------------------------------------


@implements(np.apply_along_axis)
def _apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    x = F.movedim(tensor_of(arr), axis, -1)
    lead = tuple(x.shape[:-1])
    found = F.stack(met(*[tensor_of(func1d(row, *args, **kwargs)) for row in x.reshape(-1, x.shape[-1]).unbind(0)]))
    found = found.reshape((*lead, *found.shape[1:]))
    place, inner = axis % (len(lead) + 1), found.ndim - len(lead)
    if not inner:
        return found
    return F.movedim(found, tuple(range(len(lead), found.ndim)), tuple(range(place, place + inner)))


@implements(np.apply_over_axes)
def _apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    x = tensor_of(a)
    for axis in np.atleast_1d(axes):
        found = tensor_of(func(x, int(axis)))
        x = found if found.ndim == x.ndim else found.unsqueeze(int(axis))
    return x
