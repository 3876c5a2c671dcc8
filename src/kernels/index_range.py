"""Whether integers are numbers of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def all_in_range(numbers: Any, size: int) -> bool:
    """Whether all integers of an array are at least 0 and below ``size``.

    Read as unsigned ones, negative numbers are large: one pass over the array says it.
    """
    if not numbers.size:
        return True
    if numbers.dtype.kind == "i":
        numbers = numbers.view(_UNSIGNED[numbers.dtype.itemsize])
    return int(numbers.max()) < size
