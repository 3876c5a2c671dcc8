"""Numbers at equal distances."""

from __future__ import annotations

import cupy
import numpy as np

from .launch import Array, kernel

__all__ = ["ramp"]


@kernel
def ramp(out: Array, *, start: complex, step: complex, first: int = 0, base: float | None = None) -> None:
    """``out[i] = start + (first + i) * step``, or ``base`` to that power; computed in double precision or int64."""
    exact = out.dtype.kind in "iu" and isinstance(start, int) and isinstance(step, int) and base is None
    working = np.dtype(np.int64) if exact else np.result_type(np.float64, type(start), type(step))
    values = cupy.arange(out.size).astype(working)
    cupy.add(values, first, values)
    cupy.multiply(values, step, values)
    cupy.add(values, start, values)
    if base is not None:
        values = cupy.power(working.type(base), values)
    cupy.copyto(out, values, casting="unsafe")
