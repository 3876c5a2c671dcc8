"""Maps of 256 values for states of 8 bits: dynamic tree quantization (Dettmers et al., 2022, section 1.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

_DECADES = 7


def dynamic_map(signed: bool) -> np.ndarray[Any, np.dtype[np.float32]]:
    """256 rising values from -1 (or 0) to 1: seven decades, each with twice as many values as the one below.

    >>> entries = dynamic_map(signed=True)
    >>> len(entries), float(entries[127]), float(entries[-1])
    (256, 0.0, 1.0)
    """
    found = [np.zeros(1, np.float32), np.ones(1, np.float32)]
    for decade in range(_DECADES):
        bounds = np.linspace(0.1, 1, 2 ** (decade + (0 if signed else 1)) + 1, dtype=np.float32)
        middles = ((bounds[1:] + bounds[:-1]) / 2 * 10.0 ** (decade + 1 - _DECADES)).astype(np.float32)
        found += [middles, -middles] if signed else [middles]
    return np.sort(np.concatenate(found))
