"""Arrays as memory lies: sums into views whose elements overlap, and one view's elements read through another."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..executor import Array, scratch
from ..geometry import Geometry, meeting_dims, reach_of
from .tiling import copy_tiled, map_tiles

__all__ = [
    "add_overlapping",
    "restride",
]


def add_overlapping(x: Array, view: Array) -> None:
    """``view += x`` for a view in which one place in memory may be several elements: it gets all that they get.

    A loop runs over the few dimensions whose steps meet others' places; the rest is added at once.
    """
    repeated = [dim for dim, step in enumerate(view.strides) if step == 0 and view.shape[dim] > 1]
    if repeated:
        kept = [dim for dim in range(view.ndim) if dim not in repeated]
        sums = scratch(tuple(view.shape[dim] for dim in kept), view.dtype)
        np.add.reduce(x, axis=tuple(repeated), dtype=view.dtype, out=sums)
        x, view = sums, view[(*[0 if dim in repeated else slice(None) for dim in range(view.ndim)], ...)]
    looped = meeting_dims(view.shape, view.strides)
    for where in np.ndindex(*[view.shape[dim] for dim in looped]):
        chosen = dict(zip(looped, where, strict=True))
        part = (*[chosen.get(dim, slice(None)) for dim in range(view.ndim)], ...)
        target = view[part]
        if target.size:
            map_tiles(_add_tile, [x[part], target])


def _add_tile(x: Array, out: Array) -> None:
    np.add(out, x, out=out, casting="unsafe")


def restride(x: Array, out: Array, *, source: Geometry, target: Geometry) -> None:
    """Add ``x`` to zeroed memory through one view (``source``), and read that through another (``target``)."""
    least, most = reach_of(source, target)
    memory = scratch((most - least + 1,), x.dtype)
    copy_tiled(0, memory)
    if x.size:
        add_overlapping(x, _through(memory, source, least))
    if out.size:
        copy_tiled(_through(memory, target, least), out)


def _through(memory: Array, view: Geometry, least: int) -> Any:
    shape, strides, offset = view
    steps = tuple(step * memory.itemsize for step in strides)
    return np.lib.stride_tricks.as_strided(memory[offset - least :], shape, steps)
