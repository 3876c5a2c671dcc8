"""What the loss of a row of logits is made of, besides the logits: weights of classes, smoothing, a penalty.

NOTE [ The loss of a row ]
With the log-sum-exp ``lse`` of a row of logits ``x``, its target ``t``, class weights ``w`` (their sum ``W``),
smoothing ``s`` and ``C`` classes, the loss is

    (1 - s) * w[t] * (lse - x[t]) + s / C * (W * lse - sum(w * x)) + z_loss * lse ** 2

and 0 for a row that is ignored. So its gradient is ``factor * softmax(x) - hit * onehot(t) - spread * w`` with

    hit = (1 - s) * w[t],  spread = s / C,  factor = hit + spread * W + 2 * z_loss * lse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..executor import Array, scratch
from ..index_range import all_in_range
from .tiling import FLOAT32, copy_tiled, elementwise


class Terms(NamedTuple):
    """The arguments of a loss that all of its rows share."""

    weight: Array | None
    ignore_index: int
    smoothing: float
    z_loss: float
    classes: int
    weight_sum: float

    @classmethod
    def of(cls, classes: int, weight: Array | None, ignore_index: int, smoothing: float, z_loss: float = 0.0) -> Terms:
        total = float(classes) if weight is None else float(np.add.reduce(weight, axis=None, dtype=np.float64))
        return cls(weight, ignore_index, smoothing, z_loss, classes, total)

    @property
    def spread(self) -> float:
        """The share of each class, times its weight."""
        return self.smoothing / max(self.classes, 1)

    def sums(self, logits: Array, first: int, out: Array) -> None:
        """``out = (logits * w).sum(1)`` of the classes from ``first`` on."""
        if self.weight is None:
            np.add.reduce(logits, axis=1, out=out, dtype=out.dtype)
        else:
            part = self.weight[first : first + logits.shape[1]]
            np.matmul(logits.astype(out.dtype, copy=False), part.astype(out.dtype, copy=False), out=out)

    def hits(self, targets: Array, dtype: np.dtype[np.generic]) -> Array:
        """``hit`` of each row, 0 where it is ignored."""
        counted = targets != self.ignore_index
        hits = scratch(targets.shape, dtype)
        if self.weight is None:
            np.multiply(counted, 1 - self.smoothing, hits, casting="unsafe")
        else:
            hits.fill(0)
            hits[counted] = (1 - self.smoothing) * self.weight[targets[counted]]
        return hits

    def finish(self, lse: Array, picked: Array, sums: Array, targets: Array) -> None:
        """Turn the logits of the targets into the losses, in ``picked``; ``sums`` are those of `sums`, or scratch."""
        plain = self.weight is None and not self.smoothing
        with np.errstate(invalid="ignore"):
            np.subtract(lse, picked, picked)
            if not plain:
                np.multiply(picked, self.hits(targets, lse.dtype), picked)
            if self.smoothing:
                np.multiply(sums, -self.spread, sums)
                np.add(picked, sums, picked)
                np.multiply(lse, self.spread * self.weight_sum, sums)
                np.add(picked, sums, picked)
            if self.z_loss:
                np.multiply(lse, lse, sums)
                np.multiply(sums, self.z_loss, sums)
                np.add(picked, sums, picked)
        picked[targets == self.ignore_index] = 0

    def rows(self, upstream: Array, lse: Array, targets: Array) -> RowGradients:
        """The three factors of the gradient of each row, times the gradient of its loss."""
        ignored = targets == self.ignore_index
        given = scratch(lse.shape, lse.dtype)
        np.copyto(given, upstream, casting="unsafe")
        given[ignored] = 0
        factors = scratch(lse.shape, lse.dtype)
        if self.weight is None and not self.smoothing and not self.z_loss:
            np.copyto(factors, given)
            return RowGradients(factors, given, None, None)
        hits = self.hits(targets, lse.dtype)
        np.add(hits, self.spread * self.weight_sum, factors)
        if self.z_loss:
            np.add(factors, 2 * self.z_loss * lse, factors)
        np.multiply(factors, given, factors)
        factors[ignored] = 0  # also where the log-sum-exp is infinite
        np.multiply(hits, given, hits)
        np.multiply(given, self.spread, given)
        return RowGradients(factors, hits, given if self.smoothing else None, self.weight)


class RowGradients(NamedTuple):
    """See `Terms.rows`: ``spread`` is None where it would be 0."""

    factor: Array
    hit: Array
    spread: Array | None
    weight: Array | None

    def part(self, where: slice) -> RowGradients:
        spread = None if self.spread is None else self.spread[where]
        return RowGradients(self.factor[where], self.hit[where], spread, self.weight)

    def fill(self, logits: Array, lse: Array, targets: Array, first: int, out: Array) -> None:
        """``out``, which may be ``logits``, = the gradient of the classes from ``first`` on."""
        with np.errstate(invalid="ignore"):
            elementwise(np.subtract, logits, lse[:, None], out)
            np.exp(out, out)
        self.scale(targets, first, out)

    def scale(self, targets: Array, first: int, out: Array) -> None:
        """The rest of `fill`, from the probabilities in ``out``."""
        with np.errstate(invalid="ignore"):
            elementwise(np.multiply, out, self.factor[:, None], out)
            if self.spread is not None and self.weight is None:
                elementwise(np.subtract, out, self.spread[:, None], out)
            elif self.spread is not None and self.weight is not None:
                shares = scratch(out.shape, out.dtype)
                np.multiply(self.spread[:, None], self.weight[first : first + out.shape[1]], shares, casting="unsafe")
                np.subtract(out, shares, out)
        inside, numbers = places(targets, first, out.shape[1])
        out[inside, numbers] -= self.hit[inside]


def is_half(x: Array) -> bool:
    """Whether an array is of half precision, which BLAS does not know."""
    return x.dtype.itemsize < FLOAT32.itemsize


def in_float32(
    function: Callable[..., None], given: Sequence[Array | None], outs: Sequence[Array | None], options: dict[str, Any]
) -> None:
    """Call ``function(*given, *outs, **options)`` on float32 copies of what is of half precision, and cast the outs."""

    def copied(x: Array) -> Array:
        copy = scratch(x.shape, FLOAT32)
        copy_tiled(x, copy)
        return copy

    wide = [x if x is None or not is_half(x) else copied(x) for x in given]
    found = [x if x is None or not is_half(x) else scratch(x.shape, FLOAT32) for x in outs]
    function(*wide, *found, **options)
    for source, target in zip(found, outs, strict=True):
        if source is not None and target is not None and source is not target:
            copy_tiled(source, target)


def places(targets: Array, first: int, count: int) -> tuple[Array, Array]:
    """The rows whose target is among ``count`` classes from ``first`` on, and its place among them."""
    if not first and all_in_range(targets, count):
        return np.arange(len(targets)), targets
    inside = np.flatnonzero((targets >= first) & (targets < first + count))
    return inside, targets[inside] - first


def check_targets(targets: Array, classes: int, ignore_index: int) -> None:
    """Raise ``IndexError`` for a target that is neither a class nor ``ignore_index``."""
    if all_in_range(targets, classes):
        return
    wrong = targets[((targets < 0) | (targets >= classes)) & (targets != ignore_index)]
    if wrong.size:
        raise IndexError(
            f"cross_entropy: target {int(wrong[0])} is out of range for {classes} classes; "
            f"rows to leave out have the target {ignore_index} (ignore_index)"
        )
