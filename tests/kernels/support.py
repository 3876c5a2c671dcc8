"""Arrays of awkward strides."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def strided_like(x: Array) -> list[Array]:
    """The same values at other strides: reversed axis order, every second element, reversed direction."""
    x = np.asarray(x)
    if x.ndim == 0:
        return [x]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)[..., ::2]
    wide[...] = x
    return [x, np.ascontiguousarray(x.T).T, wide, np.ascontiguousarray(x[::-1])[::-1]]
