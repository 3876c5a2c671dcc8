"""Arrays as memory lies: sums into views whose elements overlap, and one view's elements read through another."""

from __future__ import annotations

from itertools import product
from typing import Any

import cupy

from ..geometry import Geometry, meeting_dims, reach_of
from .launch import Array, kernel

__all__ = [
    "add_overlapping",
    "restride",
]


@kernel
def add_overlapping(x: Array, view: Array) -> None:
    """``view += x`` for a view in which one place in memory may be several elements: it gets all that they get."""
    repeated = [dim for dim, step in enumerate(view.strides) if step == 0 and view.shape[dim] > 1]
    if repeated:
        x = cupy.sum(x, axis=tuple(repeated), dtype=view.dtype)
        view = view[(*[0 if dim in repeated else slice(None) for dim in range(view.ndim)], ...)]
    looped = meeting_dims(view.shape, view.strides)
    for where in product(*[range(view.shape[dim]) for dim in looped]):
        chosen = dict(zip(looped, where, strict=True))
        part = (*[chosen.get(dim, slice(None)) for dim in range(view.ndim)], ...)
        target = view[part]
        if target.size:
            cupy.add(target, x[part], out=target)


@kernel
def restride(x: Array, out: Array, *, source: Geometry, target: Geometry) -> None:
    """Add ``x`` to zeroed memory through one view (``source``), and read that through another (``target``)."""
    least, most = reach_of(source, target)
    memory = cupy.zeros((most - least + 1,), x.dtype)
    if x.size:
        add_overlapping(x, _through(memory, source, least))
    if out.size:
        cupy.copyto(out, _through(memory, target, least))


def _through(memory: Array, view: Geometry, least: int) -> Any:
    shape, strides, offset = view
    steps = tuple(step * memory.itemsize for step in strides)
    return cupy.lib.stride_tricks.as_strided(memory[offset - least :], shape, steps)
