"""Matrix products: BLAS, and what goes with a linear layer."""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_for

# Below this many multiplications a product is left to one BLAS call: splitting would cost more than it gains.
_SPLIT_WORK = 1 << 24
# A core reaches its full speed from about 256 rows on.
_TASK_ROWS = 512


def matmul(x: Array, y: Array, out: Array) -> None:
    """``out = x @ y``, as ``numpy.matmul``."""
    np.matmul(x, y, out=out)


def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """``out = x @ weight.T + bias`` for a matrix ``x``: rows in tasks, the bias added while they are in the cache."""
    rows = x.shape[0]
    if rows * weight.size < _SPLIT_WORK:
        _linear_rows(x, weight, bias, out)
        return
    tasks = -(-rows // _TASK_ROWS)

    def task(number: int) -> None:
        part = slice(number * _TASK_ROWS, (number + 1) * _TASK_ROWS)
        _linear_rows(x[part], weight, bias, out[part])

    parallel_for(task, tasks)


def _linear_rows(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    np.matmul(x, weight.T, out=out)
    if bias is not None:
        np.add(out, bias, out=out)
