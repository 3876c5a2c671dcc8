"""Elements by number and by mask."""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array
from .embedding import embedding, embedding_backward

__all__ = [
    "gather",
    "gather_backward",
]


def gather(x: Array, indices: Array, out: Array) -> None:
    """``out = x[indices]`` for an array of integers or bools along the first dimensions."""
    if indices.dtype == bool:
        np.compress(indices.reshape(-1), x.reshape(indices.size, *x.shape[indices.ndim :]), axis=0, out=out)
    else:
        columns = math.prod(x.shape[1:])
        embedding(x.reshape(x.shape[0], columns), indices % max(x.shape[0], 1), out.reshape(*indices.shape, columns))


def gather_backward(grad: Array, indices: Array, out: Array) -> None:
    """Zeros with ``grad`` added where ``indices`` looked."""
    if indices.dtype == bool:
        out.fill(0)
        out.reshape(indices.size, *out.shape[indices.ndim :])[indices.reshape(-1)] = grad
    else:
        columns = math.prod(out.shape[1:])
        rows = out.reshape(out.shape[0], columns)
        embedding_backward(grad.reshape(indices.size, columns), (indices % max(out.shape[0], 1)).reshape(-1), rows)
