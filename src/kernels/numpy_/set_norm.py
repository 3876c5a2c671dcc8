"""Normalisation of sets that fit into a tile: what batch norm and group norm do to most images.

NOTE [ Sets in a tile ]
Arrays are (outer, sets, members, inner), in C order. A set is normalised over all axes but its own, and each member of
it has a weight: batch norm is (samples, channels, 1, places), group norm (1, samples * groups, channels of a group,
places). Statistics, sums and results of a tile of whole sets are computed while they are in the cache, where one after
the other would go through all of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .row_tiles import rows_of_a_tile
from .rows import SUMMED, sum_of_line_products, sum_of_lines
from .tiling import FLOAT64, TILE_BYTES, in_rows

_SHORTEST = 32  # elements of a line; with fewer, what a line costs takes longer than what its elements do


def fits(x: Array) -> bool:
    """Whether an array (outer, sets, members, inner) is normalised here."""
    outer, _, members, inner = x.shape
    return x.dtype in SUMMED and inner >= _SHORTEST and 0 < outer * members * inner * x.itemsize <= TILE_BYTES


def rstd_of(variance: Array, eps: float) -> Array:
    """``1 / sqrt(variance + eps)``."""
    rstd = scratch(variance.shape, variance.dtype)
    np.add(variance, eps, rstd)
    np.sqrt(rstd, rstd)
    np.reciprocal(rstd, rstd)
    return rstd


def set_norm(
    x: Array, weight: Array | None, bias: Array | None, out: Array, mean: Array, variance: Array, *, eps: float
) -> None:
    """``out = (x - mean) / sqrt(variance + eps) * weight + bias``; ``mean`` and ``variance`` (sets,) are outs too.

    ``weight`` and ``bias`` are (sets, members).
    """
    outer, sets, members, inner = x.shape
    share = 1 / (outer * members * inner)

    def tile(where: slice, lines: Array, scale: Array) -> None:
        part, m, v = out[:, where], mean[where], variance[where]
        lines, scale = lines[:, : len(m)], scale[: len(m)]
        with in_rows(inner, part.size):
            sum_of_lines(x[:, where], lines)
            np.add.reduce(lines, axis=(0, 2), dtype=FLOAT64, out=m)
            np.multiply(m, share, m)
            np.subtract(x[:, where], m[:, None, None], part)
            sum_of_line_products(part, part, lines)
            np.add.reduce(lines, axis=(0, 2), dtype=FLOAT64, out=v)
            np.multiply(v, share, v)
            np.add(v[:, None], eps, scale)
            np.sqrt(scale, scale)
            np.reciprocal(scale, scale)
            if weight is not None:
                np.multiply(scale, weight[where], scale)
            np.multiply(part, scale[:, :, None], part)
            if bias is not None:
                np.add(part, bias[where][:, :, None], part)

    height, dtype = _height(x), x.dtype
    parallel_slices(tile, sets, height, [((outer, height, members), dtype), ((height, members), dtype)])


def set_norm_backward(
    grad: Array,
    x: Array | None,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    grad_x: Array | None,
    total: Array,
    product: Array,
) -> None:
    """The gradients of `set_norm` at the input, if asked for, and in ``total`` and ``product`` at bias and weight.

    These two are (sets, members): what the members of each set add. Without ``x`` there is only ``total``.
    """
    outer, sets, members, inner = grad.shape
    share = -1 / (outer * members * inner)
    if weight is None:
        factor = np.broadcast_to(rstd[:, None], total.shape)
    else:
        factor = np.multiply(rstd[:, None], weight, scratch(total.shape, grad.dtype))

    def tile(where: slice, centred: Array, lines: Array, numbers: Array) -> None:
        g, r, f, sums, products = grad[:, where], rstd[where], factor[where], total[where], product[where]
        centred, lines, means = centred[:, : len(r)], lines[:, : len(r)], numbers[:, : len(r)]
        slope, shift = means
        with in_rows(inner, g.size):
            _over_outer(sum_of_lines, [g], lines, sums)
            if x is None:
                return
            np.subtract(x[:, where], mean[where][:, None, None], centred)
            _over_outer(sum_of_line_products, [g, centred], lines, products)
            np.multiply(products, r[:, None], products)
            if grad_x is None:
                return
            # With n = centred * rstd and h = grad * weight: grad_x = rstd * (h - mean(h) - n * mean(h * n)).
            np.vecdot(products, f, out=slope)
            np.vecdot(sums, f, out=shift)
            np.multiply(slope, r, slope)
            np.multiply(means, share, means)
            np.multiply(centred, slope[:, None, None], centred)
            np.add(centred, shift[:, None, None], centred)
            part = grad_x[:, where]
            np.multiply(g, f[:, :, None], part)
            np.add(part, centred, part)

    height, dtype = _height(grad), grad.dtype
    specs = [((outer, height, members, inner), dtype), ((outer, height, members), dtype), ((2, height), dtype)]
    parallel_slices(tile, sets, height, specs)


def _over_outer(function: Callable[..., None], arrays: Sequence[Array], lines: Array, out: Array) -> None:
    """``out`` = the sum over the first axis of the sums that a function takes of each line; ``lines`` is for these."""
    if len(lines) == 1:
        function(*arrays, out[None])
        return
    function(*arrays, lines)
    np.add.reduce(lines, axis=0, dtype=FLOAT64, out=out)


def _height(x: Array) -> int:
    """Sets of a tile."""
    sets: int = x.shape[1]
    return min(sets, rows_of_a_tile(sets, x.size // sets, x.dtype))
