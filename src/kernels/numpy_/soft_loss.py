"""Cross-entropy of logits and probabilities of the classes.

With the shares ``q = (1 - s) * w * p + s / C * w`` of the target ``p``, class weights ``w`` and smoothing ``s`` of C
classes, the loss of a row is ``sum(q) * lse - sum(q * x)``.
"""

from __future__ import annotations

import numpy as np

from ..executor import Array, parallel_slices
from .rows import max_of_rows, sum_of_rows
from .tiling import rows_per_tile

__all__ = ["soft_cross_entropy", "soft_cross_entropy_backward"]


def soft_cross_entropy(
    logits: Array,
    target: Array,
    losses: Array,
    lse: Array,
    *,
    weight: Array | None = None,
    label_smoothing: float = 0.0,
) -> None:
    """``losses`` and ``lse`` (rows,) of ``logits`` and ``target`` (rows, classes), any strides.

    ``weight`` (classes,) are factors of the classes. Half precision has its ``lse`` in float32.
    """
    rows, classes = logits.shape
    if classes == 0:
        losses.fill(0)
        lse.fill(-np.inf)
        return
    step = rows_per_tile(rows, classes, lse.dtype)

    def tile(where: slice, work: Array, shares: Array, columns: Array) -> None:
        count = where.stop - where.start
        x, work, shares, (most, total) = logits[where], work[:count], shares[:count], columns[:, :count]
        max_of_rows(x, most)
        with np.errstate(invalid="ignore", divide="ignore"):
            np.subtract(x, most[:, None], work)
            np.exp(work, work)
            sum_of_rows(work, total)
            np.log(total, total)
            np.add(most, total, most)
            lse[where] = most
            _shares(target[where], weight, label_smoothing, shares)
            sum_of_rows(shares, total)
            np.multiply(most, total, most)
            np.multiply(shares, x, shares)
            sum_of_rows(shares, total)
            np.subtract(most, total, most)
        np.copyto(losses[where], most, casting="unsafe")

    specs = [((step, classes), lse.dtype)] * 2 + [((2, step), lse.dtype)]
    parallel_slices(tile, rows, step, specs)


def soft_cross_entropy_backward(
    grad_rows: Array,
    logits: Array,
    target: Array,
    lse: Array,
    grad_logits: Array | None,
    grad_target: Array | None,
    *,
    weight: Array | None = None,
    label_smoothing: float = 0.0,
) -> None:
    """The gradients of `soft_cross_entropy` that are asked for: those that are not None; any strides."""
    rows, classes = logits.shape
    step = rows_per_tile(rows, classes, lse.dtype)

    def tile(where: slice, work: Array, shares: Array, columns: Array) -> None:
        count = where.stop - where.start
        work, shares, (upstream, total) = work[:count], shares[:count], columns[:, :count]
        np.copyto(upstream, grad_rows[where], casting="unsafe")
        with np.errstate(invalid="ignore"):
            np.subtract(logits[where], lse[where, None], work)
            if grad_target is not None:
                np.multiply(work, (label_smoothing - 1) * upstream[:, None], shares)
                if weight is not None:
                    np.multiply(shares, weight, shares, casting="unsafe")
                np.copyto(grad_target[where], shares, casting="unsafe")
            if grad_logits is not None:
                _shares(target[where], weight, label_smoothing, shares)
                sum_of_rows(shares, total)
                np.exp(work, work)
                np.multiply(work, total[:, None], work)
                np.subtract(work, shares, work)
                np.multiply(work, upstream[:, None], work)
                np.copyto(grad_logits[where], work, casting="unsafe")

    if logits.size:
        parallel_slices(tile, rows, step, [((step, classes), lse.dtype)] * 2 + [((2, step), lse.dtype)])


def _shares(target: Array, weight: Array | None, smoothing: float, out: Array) -> None:
    np.multiply(target, 1 - smoothing, out, dtype=out.dtype, casting="unsafe")
    if smoothing:
        np.add(out, smoothing / out.shape[1], out)
    if weight is not None:
        np.multiply(out, weight, out, casting="unsafe")
