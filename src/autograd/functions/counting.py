"""What is there, and how often, as functions: ``stowgrad.unique(x)``. None of them has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import return_types
from ..grad_mode import no_grad as _no_grad
from ..ops import elementwise as _elementwise
from ..ops import reduce as _reduce
from ..ops import scan as _scan
from ..ops import shape as _shape
from ..ops import sort as ops
from ..ops.along import put_along as _put_along
from ..ops.cast import constant as _constant
from ..ops.cast import to_dtype as _to_dtype
from ..ops.promotion import promote as _promote
from ..ops.rounding import floor as _floor
from ..out import into
from ..record import normalize_dim as _normalize_dim

__all__ = [
    "bincount",
    "histc",
    "histogram",
    "isin",
    "unique",
    "unique_consecutive",
]

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number from 0 on is there, or the sum of the weights where it is.

    Raises:
        RuntimeError: for what is no vector of integers from 0 on, and weights of another size.
    """
    array = input._array
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights._array.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    length = minlength
    if array.size:
        if int(_reduce.amin(input).item()) < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        length = max(minlength, int(_reduce.amax(input).item()) + 1)
    if weights is not None and weights._array.dtype.kind != "f":
        weights = _to_dtype(weights, np.dtype(np.float64))
    numbers = input if array.dtype == _INT64 else _to_dtype(input, _INT64)
    return ops.bincount(numbers, weights, length)


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0, *, out: Any = None) -> Any:
    """How many elements fall into each of ``bins`` equal parts of the range from ``min`` to ``max``.

    For equal bounds the range is that of the elements. What lies outside is not counted; ``max`` itself is.
    """
    if out is not None:
        return into(out, histc, input, bins, min, max)
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    if min > max:
        raise RuntimeError("histc(): max must be larger than min")
    with _no_grad():
        flat = _shape.reshape(input, (input._array.size,))
        low, high = float(min), float(max)
        if low == high and flat._array.size:
            low, high = float(_reduce.amin(flat).item()), float(_reduce.amax(flat).item())
        if low == high:
            low, high = low - 1, high + 1
        if not np.isfinite([low, high]).all():
            raise RuntimeError(f"histc(): range of [{low}, {high}] is not finite")
        inside = _elementwise.mul(_elementwise.ge(flat, low), _elementwise.le(flat, high))
        kept = _shape.gather(flat, inside)
        part = _floor(_elementwise.mul(_elementwise.sub(kept, low), bins / (high - low)))
        numbers = _to_dtype(part, _INT64)
        numbers = _elementwise.where(_elementwise.ge(numbers, bins), bins - 1, numbers)
        return _to_dtype(ops.bincount(numbers, None, bins), input._array.dtype)


def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False, out: Any = None
) -> Any:
    """How many elements fall between neighbouring edges of bins: ``(hist, bin_edges)``.

    Args:
        input: floats.
        bins: how many equal parts of the range, or a vector of edges.
        range: two numbers; that of the elements by default.
        weight: what each element counts.
        density: divide by the sum and by the widths, so that the integral is 1.
    """
    if out is not None:
        return into(out, histogram, input, bins, range=range, weight=weight, density=density)
    if input._array.dtype.kind != "f":
        raise RuntimeError("histogram(): input tensor must be of a floating-point dtype")
    with _no_grad():
        dtype, device = input._array.dtype, input._storage.device
        flat = _shape.reshape(input, (input._array.size,))
        if hasattr(bins, "_array"):
            edges = bins
        else:
            low, high = _range_of(flat, range)
            edges = _constant(np.linspace(low, high, bins + 1).astype(dtype), device)
        count = edges._array.size - 1
        numbers = _elementwise.sub(ops.searchsorted(edges, flat, True, _INT64), 1)
        last = _shape.index(edges, (slice(count, None),))
        numbers = _elementwise.where(_elementwise.eq(flat, last), count - 1, numbers)
        inside = _elementwise.mul(_elementwise.ge(numbers, 0), _elementwise.lt(numbers, count))
        counted = None if weight is None else _shape.gather(_shape.reshape(weight, (-1,)), inside)
        found = _to_dtype(ops.bincount(_shape.gather(numbers, inside), counted, count), dtype)
        if density:
            widths = _elementwise.sub(_shape.index(edges, (slice(1, None),)), _shape.index(edges, (slice(None, -1),)))
            found = _elementwise.div(found, _elementwise.mul(widths, _reduce.sum(found)))
    return return_types.histogram(found, edges)


def _range_of(flat: Any, given: Any) -> tuple[float, float]:
    """The bounds of a histogram."""
    if given is not None:
        low, high = map(float, given)
    elif flat._array.size:
        low, high = float(_reduce.amin(flat).item()), float(_reduce.amax(flat).item())
    else:
        low, high = 0.0, 1.0
    if not np.isfinite([low, high]).all():
        raise RuntimeError(f"histogram(): range of [{low}, {high}] is not finite")
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements are among others (or are not, with ``invert``); either may be a number.

    >>> import stowgrad
    >>> stowgrad.isin(stowgrad.tensor([1, 2, 3]), stowgrad.tensor([3, 1])).tolist()
    [True, False, True]
    """
    device = (elements if hasattr(elements, "_array") else test_elements)._storage.device
    with _no_grad():
        x, others = (
            value if hasattr(value, "_array") else _constant(np.array(value), device)
            for value in (elements, test_elements)
        )
        dtype = _promote(x._array.dtype, others._array.dtype)
        x, others = (value if value._array.dtype == dtype else _to_dtype(value, dtype) for value in (x, others))
        count = others._array.size
        if count == 0:
            found = _elementwise.ne(x, x)
        else:
            lines = ops.sort(_shape.reshape(others, (count,)), 0)[0]
            numbers = ops.searchsorted(lines, x, False, _INT64)
            numbers = _elementwise.where(_elementwise.ge(numbers, count), count - 1, numbers)
            found = _elementwise.eq(_shape.gather(lines, numbers), x)
        return _elementwise.eq(found, False) if invert else found


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along ``dim``), always in order.

    Returns:
        The elements; with ``return_inverse`` also the number of each element among them, and with ``return_counts`` how
        often each is there.
    """
    with _no_grad():
        rows, shape = _rows(input, dim)
        order = _lexicographic(rows)
        numbers, firsts = _groups(_shape.gather(rows, order))
        found = _shape.gather(_shape.gather(rows, order), firsts)
        inverse = _put_along(numbers, order, numbers._array.shape, 0)
        return _answer(input, dim, found, inverse, numbers, shape, return_inverse, return_counts)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (or slices along ``dim``) without those that equal the one before; returns as `unique`."""
    with _no_grad():
        rows, shape = _rows(input, dim)
        numbers, firsts = _groups(rows)
        found = _shape.gather(rows, firsts)
        return _answer(input, dim, found, numbers, numbers, shape, return_inverse, return_counts)


def _rows(x: Any, dim: int | None) -> tuple[Any, tuple[int, ...]]:
    """What is compared, as rows of a matrix, and the shape of one of them."""
    if dim is None:
        return _shape.reshape(x, (x._array.size, 1)), ()
    dim = _normalize_dim("unique", dim, x._array.ndim)
    moved = _shape.permute(x, (dim, *[d for d in range(x._array.ndim) if d != dim])) if x._array.ndim else x
    shape = moved._array.shape[1:]
    size = moved._array.shape[0] if moved._array.ndim else 1
    return _shape.reshape(moved, (size, int(np.prod(shape)))), shape


def _lexicographic(rows: Any) -> Any:
    """The order that sorts rows by their first element, then by the second, ...: sorted by the last one first."""
    count, width = rows._array.shape
    order = _constant(np.arange(count), rows._storage.device)
    for column in reversed(range(width)):
        keys = _shape.gather(_shape.index(rows, (slice(None), column)), order)
        order = _shape.gather(order, ops.sort(keys, 0)[1])
    return order


def _groups(rows: Any) -> tuple[Any, Any]:
    """For each row the number of its run of equal rows, and whether it is the first one of it."""
    count = rows._array.shape[0]
    if count == 0:
        firsts = _constant(np.zeros(0, _BOOL), rows._storage.device)
        return _to_dtype(firsts, _INT64), firsts
    later, earlier = _shape.index(rows, (slice(1, None),)), _shape.index(rows, (slice(None, -1),))
    begins = _reduce.any(_elementwise.ne(later, earlier), (1,))
    firsts = _shape.cat([_constant(np.ones(1, _BOOL), rows._storage.device), _to_dtype(begins, _BOOL)], 0)
    return _elementwise.sub(_scan.cumsum(firsts, 0), 1), firsts


def _answer(
    x: Any,
    dim: int | None,
    found: Any,
    inverse: Any,
    numbers: Any,
    shape: tuple[int, ...],
    return_inverse: bool,
    return_counts: bool,
) -> Any:
    count = found._array.shape[0]
    values = _shape.reshape(found, (count, *shape))
    if dim is not None and x._array.ndim:
        at = _normalize_dim("unique", dim, x._array.ndim)
        order = [*range(1, at + 1), 0, *range(at + 1, x._array.ndim)]
        values = _shape.permute(values, tuple(order))
    results = [values]
    if return_inverse:
        results.append(inverse if dim is not None else _shape.reshape(inverse, x._array.shape))
    if return_counts:
        results.append(ops.bincount(numbers, None, count))
    return results[0] if len(results) == 1 else tuple(results)
