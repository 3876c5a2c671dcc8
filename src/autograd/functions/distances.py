"""Distances, as functions: ``stowgrad.cdist(a, b)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import elementwise as _elementwise
from ..ops import shape as _shape
from ..ops.cast import constant as _constant
from ..ops.distance import cdist as _cdist
from ..ops.vector_norm import vector_norm as _vector_norm
from ..out import into

__all__ = ["cdist", "dist", "pdist"]

_MODES = (None, "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The p-norm of the difference of each row of ``x1`` and each row of ``x2``: (..., P, R).

    Args:
        x1, x2: (..., P, M) and (..., R, M); the leading dimensions broadcast.
        p: which norm, from 0 to infinity.
        compute_mode: accepted as by PyTorch; differences are always taken one by one, which is exact, and no array of
            all differences is made or kept.

    >>> import stowgrad
    >>> stowgrad.cdist(stowgrad.tensor([[0.0, 0.0]]), stowgrad.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _cdist(x1, x2, p)


def pdist(input: Any, p: float = 2.0) -> Any:
    """The distances of all pairs of different rows of a matrix, as a vector: those above the diagonal of `cdist`."""
    if input._array.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input._array.ndim}D")
    count = input._array.shape[0]
    above = _constant(np.flatnonzero(np.triu(np.ones((count, count), bool), 1)), input._storage.device)
    return _shape.gather(_shape.reshape(_cdist(input, input, p), (count * count,)), above)


def dist(input: Any, other: Any, p: float = 2.0, *, out: Any = None) -> Any:
    """The p-norm of ``input - other``, over all elements."""
    if out is not None:
        return into(out, dist, input, other, p)
    return _vector_norm(_elementwise.sub(input, other), p)
