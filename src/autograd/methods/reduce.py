"""Reductions, as methods."""

from __future__ import annotations

from ..functions import reduce as functions


class ReduceMethods:
    """What folds dimensions."""

    __slots__ = ()

    sum = functions.sum
    mean = functions.mean
    amax = functions.amax
    max = functions.max
    argmax = functions.argmax
    all = functions.all
    any = functions.any
