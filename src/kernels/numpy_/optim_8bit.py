"""AdamW whose state is codes of 8 bits: each block of elements is unpacked, stepped and packed again in the cache.

NOTE [ Codes of 8 bits ]
1. A value is the entry of a map of 256 rising values from -1 (or 0) to 1, times the largest magnitude of its block.
2. The map's steps are about as fine relative to a value at every size (dynamic tree quantization: Dettmers et al.,
   2022, "8-bit Optimizers via Block-wise Quantization"); the nearest entry is taken.
3. The step is computed with the new means as they are, before they are packed.
4. A mean square that is not 0 is never stored as 0, as it would be by rounding: an element whose gradient stops would
   be divided by ``eps`` alone.
"""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array, parallel_slices
from .optim_tiles import add_square, effective_gradient, lerp
from .tiling import FLOAT32, contiguous, numpy_workspace

__all__ = ["adamw_8bit_step"]

_TILE = 1 << 16
_CODE_BYTES = 8  # NumPy turns codes into indices, and finds them as such


def adamw_8bit_step(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    exp_avg_scale: Array,
    exp_avg_sq_scale: Array,
    signed_map: Array,
    unsigned_map: Array,
    *,
    block_size: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    maximize: bool = False,
    decoupled: bool = True,
) -> None:
    """One step of AdamW, or of Adam if not ``decoupled``, on codes and the scales of their blocks.

    The blocks are runs of ``block_size`` elements in C order, the last may be shorter; ``step`` counts from 1.
    """
    root2 = math.sqrt(1 - beta2**step)
    step_size = lr / (1 - beta1**step)
    whole = contiguous(param)
    flat_p, flat_g, codes_m, codes_v = (x.reshape(-1) for x in (whole, contiguous(grad), exp_avg, exp_avg_sq))
    limits = [(entries[1:] + entries[:-1]) / 2 for entries in (signed_map, unsigned_map)]

    def part(where: slice, g: Array, p: Array, m: Array, v: Array, t: Array, s: Array) -> None:
        count = where.stop - where.start
        g, p, m, v, t, s = (x[:count] for x in (g, p, m, v, t, s))
        blocks = slice(where.start // block_size, -(-where.stop // block_size))
        np.copyto(g, flat_g[where], casting="same_kind")
        if param.dtype.itemsize > 2:
            p = flat_p[where]
        else:
            np.copyto(p, flat_p[where])
        _unpack(codes_m[where], exp_avg_scale[blocks], signed_map, block_size, m)
        _unpack(codes_v[where], exp_avg_sq_scale[blocks], unsigned_map, block_size, v)
        if weight_decay and decoupled:
            np.multiply(p, 1 - lr * weight_decay, p)
        g = effective_gradient(g, p, g, s, 0.0 if decoupled else weight_decay, maximize)
        lerp(m, g, 1 - beta1, s)
        add_square(v, g, beta2, 1 - beta2, s)
        np.sqrt(v, s)
        np.divide(s, root2, s)
        np.add(s, eps, s)
        np.multiply(m, -step_size, t)
        np.divide(t, s, s)
        np.add(p, s, p)
        if param.dtype.itemsize <= 2:
            np.copyto(flat_p[where], p, casting="unsafe")
        _pack(m, exp_avg_scale[blocks], limits[0], block_size, codes_m[where], t, least=0)
        _pack(v, exp_avg_sq_scale[blocks], limits[1], block_size, codes_v[where], t, least=1)

    tile = max(1, _TILE // block_size) * block_size
    with numpy_workspace(_CODE_BYTES, param.size, tile):
        parallel_slices(part, param.size, tile, [((min(tile, param.size),), FLOAT32)] * 6)
    if whole is not param:
        np.copyto(param, whole)


def _in_blocks(array: Array, block_size: int) -> list[Array]:
    """The whole blocks as rows of a matrix, and what is left as another."""
    even = array.size // block_size * block_size
    parts = [array[:even].reshape(-1, block_size), array[even:].reshape(1, -1)]
    return [part for part in parts if part.size]


def _unpack(codes: Array, scale: Array, entries: Array, block_size: int, out: Array) -> None:
    np.take(entries, codes, out=out, mode="clip")
    begin = 0
    for rows in _in_blocks(out, block_size):
        np.multiply(rows, scale[begin : begin + len(rows), None], rows)
        begin += len(rows)


def _pack(
    values: Array, scale: Array, limits: Array, block_size: int, codes: Array, work: Array, *, least: int
) -> None:
    """New scales and codes; what is greater than 0 gets at least the code ``least``."""
    np.abs(values, work)
    begin = 0
    for rows, sizes in zip(_in_blocks(values, block_size), _in_blocks(work, block_size)):
        most = scale[begin : begin + len(rows)]
        np.max(sizes, axis=1, out=most)
        np.divide(rows, np.where(most > 0, most, 1)[:, None], sizes)
        begin += len(rows)
    found = np.searchsorted(limits, work)
    if least:
        np.maximum(found, least, out=found, where=values > 0)
    np.copyto(codes, found, casting="unsafe")
