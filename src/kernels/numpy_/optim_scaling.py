"""Gradients of a scaled loss back at their own size."""

from __future__ import annotations

import numpy as np

from ..executor import Array
from .optim_tiles import update_tiles
from .tiling import BOOL

__all__ = ["unscale"]


def unscale(grad: Array, *, factor: float) -> bool:
    """``grad *= factor``; whether something in it is infinite or no number."""
    found = [False]

    def tile(g: Array, out: Array, mask: Array) -> None:
        np.isfinite(g, mask)
        if not mask.all():
            found[0] = True
        with np.errstate(all="ignore"):
            np.multiply(g, factor, out)

    update_tiles(tile, grad, [grad], 0, [BOOL])
    return found[0]
