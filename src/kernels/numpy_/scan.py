"""Running sums, products, extremes and log-sums along one axis.

Sums and products of float32 are added up in float64, those of half precision in float32: errors would grow with length.
"""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array
from .lines import map_lines
from .tiling import FLOAT32, FLOAT64, UNTILED, DType, contiguous, tile_size

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumprod_backward",
    "cumsum",
    "logcumsumexp",
    "prod",
    "prod_backward",
]

_DIVIDED = (FLOAT32, FLOAT64)
_FEW = 16  # numbers of a line, or fewer, are multiplied by one call
_AT_ONCE = 32  # products of a line, or fewer, that NumPy multiplies faster than their halves
_SMALL = 2048  # elements: so few are multiplied from both sides, and added up in one call
_LONG, _GROUP = 64, 8  # rows from that length on are added up in groups
# Products of at least this and at most its reciprocal, times a gradient, divided by a factor, are right in that dtype.
_LEAST = {FLOAT32: 1e-280, FLOAT64: 1e-150}
_INTP = np.dtype(np.intp)


def cumsum(x: Array, out: Array, *, axis: int, reverse: bool = False) -> None:
    """``out[j] = x[0] + ... + x[j]`` along ``axis``, in ``out``'s dtype; from the end if ``reverse``."""
    _scan(np.add, x, out, axis, reverse)


def cumprod(x: Array, out: Array, *, axis: int) -> None:
    """``out[j] = x[0] * ... * x[j]`` along ``axis``, in ``out``'s dtype."""
    _scan(np.multiply, x, out, axis, reverse=False)


def cummax(x: Array, values: Array, indices: Array, *, axis: int) -> None:
    """The largest element so far along ``axis``, and the number of the last one that equals it; NaN wins."""
    _extremes(np.maximum, x, values, indices, axis)


def cummin(x: Array, values: Array, indices: Array, *, axis: int) -> None:
    """The smallest element so far along ``axis``, and the number of the last one that equals it; NaN wins."""
    _extremes(np.minimum, x, values, indices, axis)


def logcumsumexp(x: Array, out: Array, *, axis: int, reverse: bool = False) -> None:
    """``out[j] = log(exp(x[0]) + ... + exp(x[j]))`` along ``axis``; from the end if ``reverse``."""

    def block(x: Array, out: Array) -> None:
        if reverse:
            x, out = x[:, ::-1], out[:, ::-1]
        with np.errstate(invalid="ignore"):
            np.logaddexp.accumulate(x, axis=1, out=out)

    map_lines(block, [contiguous(x), out], axis)


def prod(x: Array, out: Array, *, axis: int | None = None) -> None:
    """``out = x.prod(axis)`` in ``out``'s dtype, of the flattened array for None."""
    x = contiguous(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis % max(x.ndim, 1)
    wide = _wide(out.dtype)

    def block(x: Array, out: Array, *work: Array) -> None:
        out[:, :1] = _product(x, work[0]) if work else np.multiply.reduce(x, axis=1, dtype=wide, keepdims=True)

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if x.ndim and x.shape[axis] == 0:
            out.fill(1)
        elif x.ndim and x.size <= _SMALL:
            found = np.multiply.reduce(x, axis=axis, dtype=wide)
            np.copyto(out.reshape(np.shape(found)), found, casting="same_kind")
        else:
            folded = [x.dtype] if x.dtype == out.dtype and x.dtype in _DIVIDED and x.ndim else []
            map_lines(block, [x, out.reshape([n if a != axis else 1 for a, n in enumerate(x.shape)])], axis, folded)


def _product(x: Array, work: Array) -> Array:
    """The products along axis 1, which stays, in float64: halves are multiplied, their halves, and so on.

    ``work`` is scratch of ``x``'s shape and dtype.
    """
    half = x.shape[1] // 2
    if half < _FEW:
        result: Array = np.multiply.reduce(x, axis=1, dtype=FLOAT64, keepdims=True)
        return result
    shape = (x.shape[0], half, *x.shape[2:])
    products = work.reshape(-1).view(np.uint8)[: math.prod(shape) * FLOAT64.itemsize].view(FLOAT64).reshape(shape)
    np.multiply(x[:, :half], x[:, half : 2 * half], out=products, dtype=FLOAT64)
    if x.shape[1] % 2:
        np.multiply(products[:, :1], x[:, -1:], out=products[:, :1])
    while half > _AT_ONCE:
        half, length = half // 2, half
        np.multiply(products[:, :half], products[:, half : 2 * half], out=products[:, :half])
        if length % 2:
            np.multiply(products[:, :1], products[:, length - 1 : length], out=products[:, :1])
    result = np.multiply.reduce(products[:, :half], axis=1, keepdims=True)
    return result


def prod_backward(grad: Array, x: Array, grad_x: Array, *, axis: int | None = None) -> None:
    """``grad_x[j] = grad * the product of all elements of the line but the j-th``; zeros are no matter.

    In lines without zeros, and whose product float64 can hold, it is the product of all divided by the j-th.
    """
    x, target = contiguous(x), grad_x
    if axis is None:
        x, target, axis = x.reshape(-1), grad_x.reshape(-1), 0
    axis = axis % max(x.ndim, 1)
    grad = contiguous(grad).reshape([n if a != axis else 1 for a, n in enumerate(x.shape)])

    divides = x.dtype in _DIVIDED and grad.dtype == x.dtype

    def block(x: Array, grad_x: Array, grad: Array, right: Array) -> None:
        if divides and x.shape[1] > _FEW and x.size > _SMALL:
            product = _product(x, right)
            size = np.absolute(product)
            if ((size > _LEAST[x.dtype]) & (size < 1 / _LEAST[x.dtype])).all():
                np.multiply(product, grad, product)
                narrow = product.astype(x.dtype)
                exact = np.isfinite(narrow) & (np.absolute(narrow) >= np.finfo(x.dtype).tiny)
                np.divide(narrow if exact.all() else product, x, out=grad_x, casting="same_kind")
                return
        grad_x[:, :1] = grad
        np.multiply.accumulate(x[:, :-1], axis=1, out=grad_x[:, 1:])
        np.multiply(grad_x[:, 1:], grad, grad_x[:, 1:])
        right[:, -1:] = 1
        np.multiply.accumulate(x[:, :0:-1], axis=1, out=right[:, -2::-1])
        np.multiply(grad_x, right, grad_x)

    if x.size:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            map_lines(block, [x, target, grad], axis, [x.dtype])


def cumprod_backward(grad: Array, x: Array, grad_x: Array, *, axis: int) -> None:
    """The gradient of `cumprod`.

    ``grad_x[k]`` is the sum over j >= k of ``grad[j] * x[0] * ... * x[j]`` without ``x[k]``: divided by it, unless it
    is the line's first zero, z. Before z the sum is right as it is, after z it is 0; for z it is that over the products
    with 1 in the place of ``x[z]``.
    """

    def block(x: Array, grad: Array, grad_x: Array, work: Array) -> None:
        np.multiply.accumulate(x, axis=1, out=work)
        np.multiply(grad, work, work)
        np.add.accumulate(work[:, ::-1], axis=1, out=grad_x[:, ::-1])
        zeros = x == 0
        np.copyto(work, x)
        np.copyto(work, 1, where=zeros)
        np.divide(grad_x, work, grad_x)
        if not zeros.any():
            return
        first = np.expand_dims(zeros.argmax(1), 1)
        found = np.take_along_axis(zeros, first, 1)
        np.copyto(work, x)
        np.put_along_axis(work, first, np.where(found, 1, np.take_along_axis(x, first, 1)), 1)
        np.multiply.accumulate(work, axis=1, out=work)
        np.multiply(work, grad, work)
        shape = (1, -1, 1)[: x.ndim]
        np.copyto(work, 0, where=np.arange(x.shape[1]).reshape(shape) < first)
        at_zero = np.add.reduce(work, axis=1, keepdims=True)
        np.put_along_axis(grad_x, first, np.where(found, at_zero, np.take_along_axis(grad_x, first, 1)), 1)

    arrays = [contiguous(x), contiguous(grad), grad_x]
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        map_lines(block, arrays, axis, [x.dtype], allocated=2)


def _wide(dtype: DType) -> DType:
    """What running sums of that dtype are kept in."""
    if dtype == FLOAT32:
        return FLOAT64
    return FLOAT32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _scan(ufunc: np.ufunc, x: Array, out: Array, axis: int, reverse: bool) -> None:
    wide = _wide(out.dtype)

    def block(x: Array, out: Array, *work: Array) -> None:
        length = x.shape[1]
        if work and x.ndim == 2 and ufunc is np.add and length >= _LONG and x.size > _SMALL:
            _sums_of_rows(x, out, work[0], reverse)
            return
        if reverse:
            x, out = x[:, ::-1], out[:, ::-1]
        if not work:
            ufunc.accumulate(x, axis=1, dtype=out.dtype, out=out)
            return
        step = max(1, work[0].size // max(x.size // max(length, 1), 1))
        before: Array | None = None
        for start in range(0, length, step):
            part = x[:, start : start + step]
            made = work[0][: part.size].reshape(part.shape)
            ufunc.accumulate(part, axis=1, dtype=wide, out=made)
            if before is not None:
                ufunc(made, before, out=made)
            np.copyto(out[:, start : start + step], made, casting="same_kind")
            before = made[:, -1:].copy()

    specs = [] if wide == out.dtype else [wide]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        most, lift = None, 0
        if specs:
            lift = 1  # one in eight elements of 8 bytes
            length = x.shape[axis] if x.ndim else 1
            # A number of each line of a block at least.
            most = max(UNTILED, tile_size(x.size, x.dtype, lift) // max(length, 1))
        map_lines(block, [contiguous(x), out], axis, specs, most=most, allocated=lift)


def _sums_of_rows(x: Array, out: Array, work: Array, reverse: bool) -> None:
    """The running sums of the rows of ``x``, added up in the dtype of ``work``, which is flat.

    NumPy adds the elements of a row one after another, at 3 ns each. Here a row is cut into groups of 8, and the groups
    of all rows are gone through side by side: first elements, second elements, and so on. Then each group is lifted by
    the running sum of the groups before it.
    """
    rows, length = x.shape
    width = min(length, max(_GROUP, work.size // _GROUP * _GROUP))
    height = max(1, work.size // width)
    starts = range(0, length, width)
    for top in range(0, rows, height):
        total = np.zeros(min(height, rows - top), work.dtype)
        for left in reversed(starts) if reverse else starts:
            part = (slice(top, top + height), slice(left, left + width))
            _sums_of_groups(x[part], out[part], work, total, reverse)


def _sums_of_groups(x: Array, out: Array, work: Array, total: Array, reverse: bool) -> None:
    """A part of `_sums_of_rows` that fits into ``work``; ``total`` is what the rows have added up to so far."""
    rows, length = x.shape
    count = length // _GROUP
    even = count * _GROUP
    if reverse:
        _add_columns(x, out, range(length - 1, even - 1, -1), total)
    if count:
        groups, lift = work[: rows * even].reshape(_GROUP, rows, count), np.empty((rows, count), work.dtype)
        np.copyto(groups, x[:, :even].reshape(rows, count, _GROUP).transpose(2, 0, 1))
        turned, lifted = (groups[::-1], lift[:, ::-1]) if reverse else (groups, lift)
        for number in range(1, _GROUP):
            np.add(turned[number], turned[number - 1], turned[number])
        sums = turned[-1][:, ::-1] if reverse else turned[-1]
        lifted[:, 0] = total
        lifted[:, 1:] = sums[:, :-1]
        np.add.accumulate(lifted, axis=1, out=lifted)
        np.add(sums[:, -1], lifted[:, -1], out=total)
        places = out[:, :even].reshape(rows, count, _GROUP).transpose(2, 0, 1)
        np.add(groups, lift, out=places, casting="same_kind")
    if not reverse:
        _add_columns(x, out, range(even, length), total)


def _add_columns(x: Array, out: Array, columns: range, total: Array) -> None:
    """Add some columns to ``total`` one after the other, and write what that is then."""
    for column in columns:
        np.add(total, x[:, column], total)
        np.copyto(out[:, column], total, casting="same_kind")


def _extremes(ufunc: np.ufunc, x: Array, values: Array, indices: Array, axis: int) -> None:
    floating = x.dtype.kind not in "iub"

    def block(x: Array, values: Array, indices: Array) -> None:
        ufunc.accumulate(x, axis=1, out=values)
        reached = x == values
        if floating:
            reached |= np.isnan(x)
        shape = (1, -1, 1)[: x.ndim]
        np.multiply(np.arange(x.shape[1], dtype=_INTP).reshape(shape), reached, out=indices)
        np.maximum.accumulate(indices, axis=1, out=indices)

    with np.errstate(invalid="ignore"):
        map_lines(block, [contiguous(x), values, indices], axis, allocated=2)
