"""Folds over stretches of a dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ops import shape as shape_ops
from ..ops.cast import constant as _constant
from ..ops.elementwise import where as _where
from ..ops.sum_to import expand as _expand
from ..record import normalize_dim
from .scattering import scatter_reduce

__all__ = ["segment_reduce"]

_FOLDS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "max": ("amax", -math.inf), "min": ("amin", math.inf)}
_FOLDS["prod"] = ("prod", 1.0)


def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """The sum, mean, maximum, minimum or product of each of some stretches of a dimension that follow each other.

    Args:
        reduce: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.
        lengths: integers, how long the stretches are: of the sizes of ``data`` before ``axis`` and their number.
        offsets: integers in place of it: where each stretch begins, and where the last one ends.
        indices: only None.
        unsafe: whether lengths need not add up to the size of the dimension.
        initial: what each fold begins with; its neutral element by default, NaN for a mean of nothing.

    The node keeps the number of the stretch of each element; folds but sums and means keep ``data``, too.

    >>> import stowgrad
    >>> stowgrad.segment_reduce(stowgrad.arange(5.0), "sum", lengths=stowgrad.tensor([2, 0, 3])).tolist()
    [1.0, 0.0, 9.0]
    """
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if reduce not in _FOLDS:
        raise RuntimeError(f"segment_reduce(): reduce must be one of {', '.join(_FOLDS)}, got {reduce}")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    axis = normalize_dim("segment_reduce", axis, data._array.ndim)
    given = (offsets if lengths is None else lengths).numpy(force=True)
    if given.ndim != axis + 1:
        raise RuntimeError(f"segment_reduce(): Expected lengths or offsets of {axis + 1} dimensions, got {given.ndim}")
    counts = np.diff(given, axis=-1) if lengths is None else given
    size = data._array.shape[axis]
    if (counts < 0).any():
        raise RuntimeError("segment_reduce(): lengths contains negative value!")
    if lengths is not None and not unsafe and (counts.sum(-1) != size).any():
        raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis)")
    return _reduced(data, reduce, counts, given[..., :1] * (lengths is None), axis, initial)


def _reduced(data: Any, reduce: str, counts: Any, begins: Any, axis: int, initial: float | None) -> Any:
    sizes, device = data._array.shape, data._storage.device
    number = counts.shape[-1]
    fold, neutral = _FOLDS[reduce]
    ends = begins + np.cumsum(counts, -1)
    # Elements in no stretch go to one more, which is left out.
    places = np.empty((*sizes[:axis], sizes[axis]), np.int64)
    for row in np.ndindex(*sizes[:axis]):
        places[row] = np.searchsorted(ends[row], np.arange(sizes[axis]), side="right")
        places[row][: begins[row][0]] = number
    index = _constant(places.reshape((*places.shape, *[1] * (len(sizes) - axis - 1))), device)
    begin = shape_ops.zeros_of(data.detach(), (*sizes[:axis], number + 1, *sizes[axis + 1 :]))
    begin = begin + (neutral if initial is None else initial)
    found = scatter_reduce(begin, axis, _expand(index, sizes), data, fold)
    found = shape_ops.index(found, (*[slice(None)] * axis, slice(number)))
    if reduce != "mean":
        return found
    lengths = _constant(counts.reshape((*counts.shape, *[1] * (len(sizes) - axis - 1))), device)
    mean = found / lengths.clamp(min=1)
    return mean if initial is not None else _where(lengths == 0, math.nan, mean)
