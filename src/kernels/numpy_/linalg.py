"""Products of matrices: BLAS on all threads for large ones, batches of small ones shared out over threads."""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array, get_num_threads, parallel_slices, scratch
from .tiling import FLOAT32, contiguous

__all__ = [
    "matmul",
]

_LARGE_PRODUCT = 1 << 24  # multiplications: from here on BLAS's own threads pay off
_TILE_PRODUCT = 1 << 23  # multiplications of a tile of small products
_ROUNDS = 4  # large products for each thread, or more, are shared out: BLAS's threads wait for each other in each one
_LEAST_ROWS, MOST_ROWS = 192, 1024  # of a task: fewer would pack the whole other factor too often
_ROW_MULTIPLE = 16  # rows that BLAS computes together
_FEW_ROWS = 128  # on one thread; on several the product itself takes less
_TERMS_A_ROW = 4  # with fewer, turning the result round takes as long as what packing saves
_PACKED_PRODUCT = 1 << 20  # multiplications: from here on BLAS packs its factors


def matmul(a: Array, b: Array, out: Array) -> None:
    """``out = a @ b`` with NumPy's rules for vectors, matrices and broadcast batches of matrices."""
    get_num_threads()  # BLAS follows our setting from the first product on
    a, b = _blas_ready(a), _blas_ready(b)
    if a.ndim == b.ndim == 2:
        if b.flags.f_contiguous and is_faster_transposed(a, b.T):
            np.copyto(out, transposed_product(a, b.T).T)
        elif a.size * b.shape[1] >= _LARGE_PRODUCT:
            _shared_out(a, b, out)
        else:
            np.matmul(a, b, out)
        return
    batch = out.shape[:-2]
    if a.ndim < 2 or b.ndim < 2 or math.prod(batch) < 2 or out.size == 0:
        np.matmul(a, b, out)
        return
    each = a.shape[-2] * a.shape[-1] * b.shape[-1]
    if each * math.prod(batch) <= _TILE_PRODUCT:
        np.matmul(a, b, out)
        return
    if len(batch) > 1 and a.shape[:-2] == b.shape[:-2]:
        a, b, out = _merged(a, b, out)
        batch = out.shape[:-2]
    if each >= _LARGE_PRODUCT and batch[0] < _ROUNDS * get_num_threads():
        np.matmul(a, b, out)
        return
    if a.shape[:-2] != batch:
        a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    if b.shape[:-2] != batch:
        b = np.broadcast_to(b, (*batch, *b.shape[-2:]))

    # Slices of the first axis: merging the batch axes of strided inputs would copy them.
    def tile(where: slice) -> None:
        np.matmul(a[where], b[where], out=out[where])

    inner = each * math.prod(batch[1:])
    parallel_slices(tile, batch[0], max(1, _TILE_PRODUCT // max(inner, 1)))


def is_faster_transposed(x: Array, weight: Array) -> bool:
    """Whether ``weight @ x.T`` is faster than ``x @ weight.T``.

    OpenBLAS packs the factor that gives a result its columns, element by element if that is a transpose. With few rows
    this takes longer than the product: twice as long as packing the other factor and turning the result round.
    """
    return (
        1 < len(x) <= _FEW_ROWS // get_num_threads()
        and x.shape[1] >= _TERMS_A_ROW * len(x)
        and x.dtype is FLOAT32
        and weight.dtype is FLOAT32
        and x.size * len(weight) >= _PACKED_PRODUCT
        and weight.flags.c_contiguous
    )


def transposed_product(x: Array, weight: Array) -> Array:
    """``weight @ x.T``, in scratch."""
    product = scratch((len(weight), len(x)), FLOAT32)
    np.matmul(weight, x.T, product)
    return product


def _merged(*batches: Array) -> tuple[Array, ...]:
    """Batches of the same matrices along one axis, if none must be copied for that."""
    try:
        return tuple([x.reshape(-1, *x.shape[-2:], copy=False) for x in batches])
    except ValueError:
        return batches


def rows_per_task(rows: int) -> int:
    """Rows of a product that one thread takes at a time: enough for BLAS's full speed, and as much for every thread."""
    threads = get_num_threads()
    rounds = -(-rows // (threads * MOST_ROWS))
    step = -(-rows // (threads * rounds)) if rows else 1
    return max(-(-step // _ROW_MULTIPLE) * _ROW_MULTIPLE, _LEAST_ROWS)


def _shared_out(a: Array, b: Array, out: Array) -> None:
    """A large product by rows, or by columns where there are few rows: BLAS works on one thread in each task."""
    rows, columns = out.shape

    def by_rows(part: slice) -> None:
        np.matmul(a[part], b, out=out[part])

    def by_columns(part: slice) -> None:
        np.matmul(a, b[:, part], out=out[:, part])

    if rows >= columns:
        parallel_slices(by_rows, rows, rows_per_task(rows))
    else:
        parallel_slices(by_columns, columns, rows_per_task(columns))


def _blas_ready(x: Array) -> Array:
    """``x`` or a leased copy, if neither of its last two axes is contiguous: NumPy would not call BLAS."""
    if x.ndim < 2 or x.dtype.kind not in "fc":
        return x
    item, (row, column) = x.itemsize, x.strides[-2:]
    if column == item and row >= item * x.shape[-1] and row % item == 0:
        return x
    if row == item and column >= item * x.shape[-2] and column % item == 0:
        return x
    return contiguous(x)
