"""Elements by number and by mask."""

from __future__ import annotations

import cupy

from .embedding import embedding_backward
from .launch import Array, kernel

__all__ = [
    "gather",
    "gather_backward",
]


@kernel
def gather(x: Array, indices: Array, out: Array) -> None:
    """``out = x[indices]`` for an array of integers or bools along the first dimensions."""
    if indices.dtype == bool:
        rows = cupy.flatnonzero(indices)
        cupy.take(x.reshape(indices.size, *x.shape[indices.ndim :]), rows, axis=0, out=out)
    else:
        cupy.take(x, indices, axis=0, out=out)


@kernel
def gather_backward(grad: Array, indices: Array, out: Array) -> None:
    """Zeros with ``grad`` added where ``indices`` looked."""
    if indices.dtype == bool:
        out.fill(0)
        out.reshape(indices.size, *out.shape[indices.ndim :])[cupy.flatnonzero(indices)] = grad
    elif not grad.size:
        out.fill(0)
    else:
        rows = out.reshape(out.shape[0], -1)
        embedding_backward(grad.reshape(-1, rows.shape[1]), indices.reshape(-1) % out.shape[0], rows)
