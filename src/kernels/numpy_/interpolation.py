"""Maps along the last axes, one after the other: interpolation, and pooling by means.

NOTE [ Maps as matrices ]
1. Along a short axis BLAS multiplies by the whole matrix of a map, zeros included, in a quarter to a half of the time
   that its taps take one by one: 28 rows of 28 to 56 elements in 58 us a map, in place of 258.
2. Zero times infinity is NaN, so infinity and NaN would get into results that do not read them. What is not finite in
   the end is therefore computed again, tap by tap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from ..executor import Array, blas_single_threaded, parallel_for, scratch, scratch_set
from ..taps import Gather, Plan, Taps, gather_of, width
from .tiling import FLOAT32, FLOAT64, TILE_BYTES, UNTILED, DType, contiguous, copy_tiled, tile_size

__all__ = [
    "resample",
]

_LONGEST = 64  # elements for each tap of a map along the last axis that is taken for a matrix
_FEW = 4096  # elements that are read: more are better off with an axis at a time


def resample(x: Array, out: Array, *, taps: Sequence[Taps | None]) -> None:
    """Apply a map (`Taps`) to each of the last axes of ``x``; None leaves an axis as it is.

    Args:
        x: (*, *sizes), any strides.
        out: (*, *sizes of the results).
    """
    axes = len(taps)
    if out.size == 0:
        return
    if all(tap is None for tap in taps) or x.size == 0:
        copy_tiled(x if x.size else 0, out)
        return
    lead = out.ndim - axes
    planes = math.prod(out.shape[:lead])
    source = contiguous(x).reshape(planes, *x.shape[lead:])
    target = out.reshape(planes, *out.shape[lead:])
    if source.size <= _FEW and out.size * width(taps) <= _FEW:
        gather = gather_of(tuple(taps), source.shape[1:], out.dtype)
        _at_once(source.reshape(planes, -1), target.reshape(planes, -1), gather)
        return
    order = [axis for axis in range(axes) if taps[axis] is not None]
    order.sort(key=lambda axis: target.shape[axis + 1] / source.shape[axis + 1])
    fixed = [None if tap is None else tap.plan(out.dtype) for tap in taps]
    matrices = [_matrix(tap, axis == axes - 1, out.dtype) for axis, tap in enumerate(taps)]
    shapes = _shapes(source.shape[1:], target.shape[1:], order)
    largest = max(map(math.prod, shapes))
    by_matrix = any(matrix is not None for matrix in matrices)
    # BLAS has one thread for a single task too: bits don't depend on the number of threads.
    with blas_single_threaded() if by_matrix else nullcontext():
        if planes * largest <= UNTILED:
            between = [planes * largest if len(order) > count else 0 for count in (1, 2, 0)]
            buffers = scratch_set([((size,), out.dtype) for size in between])
            _through(source, target, order, fixed, matrices, buffers)
        else:
            _tiled(source, target, taps, order, fixed, matrices, largest, shapes)


def _matrix(tap: Taps | None, last: bool, dtype: DType) -> Array | None:
    """The matrix (elements, results) of a map along the last axis or another one, if multiplying by it is faster."""
    if tap is None or dtype not in (FLOAT32, FLOAT64):
        return None
    results, taps = tap.element.shape
    # Two taps at regular distances are slices: they are not slow.
    regular = taps <= 2 and all(step.source is not None for step in tap.plan(dtype).steps)
    long = tap.size > (_LONGEST if last else _LONGEST // 2) * taps
    if taps == 1 or regular or long or tap.size * results * dtype.itemsize > TILE_BYTES:
        return None
    matrix = scratch((tap.size, results), dtype)
    matrix.fill(0)
    np.add.at(matrix, (tap.element, np.arange(results)[:, None]), tap.weight.astype(dtype))
    return matrix


def _at_once(source: Array, target: Array, gather: Gather) -> None:
    """The maps of all axes by one look-up, for a few planes."""
    planes, size = source.shape
    taps, results = gather.elements.shape
    if taps == 1 and gather.complete:
        source.take(gather.elements[0], 1, target, "clip")  # "raise" would copy twice
        if gather.weights is not None:
            np.multiply(target, gather.weights[0], out=target)
        return
    count = planes * taps * results
    work = scratch((count if gather.complete else count + planes * (size + 1),), source.dtype)
    if not gather.complete:
        longer = work[count:].reshape(planes, size + 1)
        longer[:, :size] = source
        longer[:, size] = 0
        source = longer
    read = work[:count].reshape(planes, taps, results)
    source.take(gather.elements, 1, read, "clip")
    if gather.weights is not None:
        np.multiply(read, gather.weights, out=read)
    np.add.reduce(read, axis=1, out=target)


def _tiled(
    source: Array,
    target: Array,
    taps: Sequence[Taps | None],
    order: list[int],
    fixed: list[Plan | None],
    matrices: list[Array | None],
    largest: int,
    shapes: list[tuple[int, ...]],
) -> None:
    """The maps in the order of the axes, for some planes (or some rows of one) at a time."""
    tile, first_taps = tile_size(1 << 30, target.dtype), taps[0]
    pieces = min(target.shape[1], -(-largest // tile)) if first_taps is not None else 1
    step = -(-target.shape[1] // pieces)
    together = max(1, tile // largest)
    pieces, groups = -(-target.shape[1] // step), -(-len(target) // together)

    def run(number: int, *buffers: Array) -> None:
        group, piece = divmod(number, pieces)
        where, rows = slice(group * together, (group + 1) * together), slice(piece * step, (piece + 1) * step)
        values, plans, products = source[where], fixed, matrices
        if first_taps is not None and pieces > 1:
            part, read = first_taps.rows(rows.start, rows.stop)
            values, plans = values[:, read], [part.plan(target.dtype), *fixed[1:]]
            products = [None, *matrices[1:]]
        _through(values, target[where, rows], order, plans, products, buffers)

    most = together * (largest if pieces == 1 else -(-largest * step // target.shape[1]))
    if pieces > 1 and first_taps is not None:  # a run of rows may read more than its share
        most = max(math.prod(shape[1:]) for shape in shapes) * _most_rows(first_taps, step)
    parallel_for(run, pieces * groups, [((most,), target.dtype)] * 3)


def _through(
    source: Array,
    result: Array,
    order: list[int],
    plans: Sequence[Plan | None],
    matrices: Sequence[Array | None],
    buffers: Sequence[Array],
) -> None:
    """The maps of some axes (of whole planes, (planes, *sizes)) one after the other."""
    first, second, work = buffers
    values = source
    for count, axis in enumerate(order, 1):
        into = result
        if count < len(order):
            shape = list(values.shape)
            shape[axis + 1] = result.shape[axis + 1]
            into = (second, first)[count % 2][: math.prod(shape)].reshape(shape)
        plan, matrix = plans[axis], matrices[axis]
        if matrix is not None:
            _multiplied(values, into, axis + 1, matrix)
        elif plan is not None:
            _along(values, into, axis + 1, plan, work)
        values = into
    if any(matrix is not None for matrix in matrices):
        finite = work.view(np.bool_)[: result.size].reshape(result.shape)
        if not np.isfinite(result, out=finite).all():
            _through(source, result, order, plans, [None] * len(matrices), buffers)


def _multiplied(x: Array, out: Array, axis: int, matrix: Array) -> None:
    """One map, along one axis, by its matrix."""
    with np.errstate(invalid="ignore", over="ignore"):  # it is computed again, then
        if axis == x.ndim - 1:
            np.matmul(x, matrix, out=out)
        else:
            inner = math.prod(x.shape[axis + 1 :])
            rows, results = (array.reshape(-1, array.shape[axis], inner) for array in (x, out))
            np.matmul(matrix.T, rows, out=results)


def _shapes(before: tuple[int, ...], after: tuple[int, ...], order: list[int]) -> list[tuple[int, ...]]:
    """The shapes on the way, the first one left out."""
    shape, found = list(before), []
    for axis in order:
        shape[axis] = after[axis]
        found.append(tuple(shape))
    return found


def _most_rows(taps: Taps, step: int) -> int:
    """The most rows that a run of results reads or writes."""
    most = step
    for start in range(0, len(taps.element), step):
        read = taps.rows(start, start + step)[1]
        most = max(most, read.stop - read.start)
    return most


def _along(x: Array, out: Array, axis: int, plan: Plan, work: Array) -> None:
    """One map, along one axis."""
    before: tuple[slice, ...] = (slice(None),) * axis
    column = (-1, *(1,) * (out.ndim - axis - 1))
    if not plan.steps or plan.steps[0].target != slice(0, out.shape[axis]):
        out.fill(0)
    for number, step in enumerate(plan.steps):
        target = out[(*before, step.target)]
        if step.source is not None:
            values = x[(*before, step.source)]
        else:
            direct = number == 0 and target.flags.c_contiguous
            values = target if direct else work[: target.size].reshape(target.shape)
            x.take(step.elements, axis, values, "clip")
        if step.weight is not None:
            product = target if number == 0 else work[: target.size].reshape(target.shape)
            values = np.multiply(values, step.weight.reshape(column), out=product)
        if number == 0 and plan.paired:
            first = values
        elif number == 1 and plan.paired:
            np.add(first, values, out=target)
        elif number == 0:
            if values is not target:
                np.copyto(target, values)
        else:
            np.add(target, values, out=target)
    if plan.factor is not None:
        np.multiply(out, plan.factor, out=out)
