"""Elements by number and by mask."""

from __future__ import annotations

import cupy

from .embedding import embedding_backward
from .launch import Array, kernel

__all__ = [
    "gather",
    "gather_backward",
    "masked_put",
    "nonzero",
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


@kernel
def masked_put(out: Array, mask: Array, src: Array) -> None:
    """``out[mask] = `` the first elements of ``src``, in order.

    Raises:
        RuntimeError: if ``src`` has too few.
    """
    where = cupy.flatnonzero(mask)
    if src.size < len(where):
        raise RuntimeError(f"masked_scatter: expected a source with at least {len(where)} elements, got {src.size}")
    flat = out.reshape(-1)
    flat[where] = src.reshape(-1)[: len(where)]
    cupy.copyto(out, flat.reshape(out.shape))


@kernel
def nonzero(x: Array, out: Array) -> None:
    """``out[n, :]``: where the n-th element of ``x`` that is not 0 lies."""
    if not x.ndim:
        return
    numbers = cupy.flatnonzero(x)
    for column in range(x.ndim - 1, -1, -1):
        out[:, column] = numbers % x.shape[column]
        numbers = numbers // x.shape[column]
