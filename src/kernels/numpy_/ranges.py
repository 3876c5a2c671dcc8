"""Numbers at equal distances."""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices
from .tiling import FLOAT64, numpy_workspace

__all__ = ["ramp"]

_TILE = 16384


def ramp(out: Array, *, start: complex, step: complex, first: int = 0, base: float | None = None) -> None:
    """``out[i] = start + (first + i) * step``, or ``base`` to that power; computed in double precision or int64."""
    exact = out.dtype.kind in "iu" and isinstance(start, int) and isinstance(step, int) and base is None
    working = np.dtype(np.int64) if exact else np.result_type(FLOAT64, type(start), type(step))

    def tile(where: slice) -> None:
        values = np.arange(first + where.start, first + where.stop, dtype=np.int64).astype(working, copy=False)
        values *= step
        values += start
        if base is not None:
            values = np.power(working.type(base), values)
        out[where] = values if out.dtype.kind == "c" or values.dtype.kind != "c" else values.real

    with np.errstate(all="ignore"), numpy_workspace(24, out.size, _TILE):
        parallel_slices(tile, out.size, _TILE)
