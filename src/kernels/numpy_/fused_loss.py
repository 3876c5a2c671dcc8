"""The loss of a last linear layer together with its gradients, while a chunk of the logits is there.

NOTE [ Loss and gradients in one go ]
1. A chunk is a run of rows with the logits of all classes. Its gradient takes the place of the logits in memory.
2. First each thread takes rows: product, soft-max, loss, gradient of the logits, gradient of the input. Then each takes
   classes: the chunk's part of the weight's gradient. So no element is written by two threads, and what is added to
   what depends on the chunks alone.
3. With more classes than `_MOST_CLASSES` a chunk of whole rows would have too few of them for BLAS: the loss and the
   gradients are then computed one after the other, by `loss`, which also cuts along the classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..executor import Array, parallel_for, parallel_slices, scratch
from .linalg import rows_per_task
from .loss import linear_cross_entropy, linear_cross_entropy_backward
from .loss_terms import Terms, check_targets, in_float32, is_half
from .tiling import elementwise, rows_per_tile, unit_rows

__all__ = [
    "linear_cross_entropy_with_grads",
]

CHUNK_BYTES = 16 << 20  # of logits at once
_LEAST_ROWS = 256
_CLASSES_PER_TASK = 512


def linear_cross_entropy_with_grads(
    x: Array,
    weight: Array,
    bias: Array | None,
    targets: Array,
    loss: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
    *,
    scale: float,
    class_weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """``loss = scale * losses.sum()`` of `loss.linear_cross_entropy`, and its gradients that are asked for (not None).

    Args:
        x: (rows, size).
        weight: (classes, size).
        bias: (classes,) or None.
        targets: (rows,).
        loss: out, ().
        grad_x, grad_w, grad_b: outs, of the shapes of ``x``, ``weight`` and ``bias``.
        class_weight, label_smoothing, z_loss: as for `loss.linear_cross_entropy`.

    Raises:
        IndexError: for a target that is neither a class nor ``ignore_index``.
    """
    wanted = (grad_x, grad_w, grad_b)
    rows, classes = len(x), len(weight)
    options: dict[str, Any] = {"class_weight": class_weight, "label_smoothing": label_smoothing, "z_loss": z_loss}
    options["ignore_index"] = ignore_index
    if is_half(x):
        options |= {"scale": scale, "chunk_bytes": chunk_bytes}
        in_float32(linear_cross_entropy_with_grads, (x, weight, bias, targets), (loss, *wanted), options)
        return
    losses = scratch((rows,), x.dtype)
    if rows == 0 or classes * x.itemsize * _LEAST_ROWS > chunk_bytes:
        lse = scratch((rows,), x.dtype)
        linear_cross_entropy(x, weight, bias, targets, losses, lse, **options)
        upstream = np.full(rows, scale, x.dtype)
        linear_cross_entropy_backward(upstream, x, weight, bias, targets, lse, *wanted, **options)
        loss[...] = losses.sum(dtype=np.float64) * scale
        return
    check_targets(targets, classes, ignore_index)
    terms = Terms.of(classes, class_weight, ignore_index, label_smoothing, z_loss)
    x, weight = unit_rows(x), unit_rows(weight)
    length = min(rows, chunk_bytes // (classes * x.itemsize))
    buffer = scratch((length, classes), x.dtype)
    for start in range(0, rows, length):
        part = slice(start, min(start + length, rows))
        logits = buffer[: part.stop - part.start]
        chunk = _Chunk(x[part], weight, bias, targets[part], logits, scale, terms)
        chunk.by_rows(losses[part], None if grad_x is None else grad_x[part])
        chunk.by_classes(grad_w, grad_b, first=start == 0)
    loss[...] = losses.sum(dtype=np.float64) * scale


class _Chunk:
    """A run of rows, and the memory for their logits."""

    def __init__(
        self,
        x: Array,
        weight: Array,
        bias: Array | None,
        targets: Array,
        logits: Array,
        scale: float,
        terms: Terms,
    ) -> None:
        self.x = x
        self.weight = weight
        self.bias = bias
        self.targets = targets
        self.logits = logits
        self.scale = scale
        self.terms = terms
        self.ones = np.ones(max(logits.shape), logits.dtype)

    def by_rows(self, losses: Array, grad_x: Array | None) -> None:
        """The losses; the logits become their gradient; the gradient of the input."""

        def task(part: slice) -> None:
            logits = self.logits[part]
            np.matmul(self.x[part], self.weight.T, out=logits)
            step = rows_per_tile(len(logits), logits.shape[1], logits.dtype)
            for start in range(0, len(logits), step):
                tile = slice(start, start + step)
                self._tile(logits[tile], self.targets[part][tile], losses[part][tile])
            if grad_x is not None:
                np.matmul(logits, self.weight, out=grad_x[part])

        parallel_slices(task, len(self.logits), rows_per_task(len(self.logits)))

    def _tile(self, logits: Array, targets: Array, losses: Array) -> None:
        if self.bias is not None:
            np.add(logits, self.bias, logits)
        counted = np.flatnonzero(targets != self.terms.ignore_index)
        most = np.maximum.reduce(logits, axis=1)
        losses.fill(0)
        losses[counted] = logits[counted, targets[counted]]
        sums = np.zeros_like(most)
        if self.terms.smoothing:
            self.terms.sums(logits, 0, sums)
        elementwise(np.subtract, logits, most[:, None], logits)
        np.exp(logits, logits)
        total = np.matmul(logits, self.ones[: logits.shape[1]])  # a sum of rows, at BLAS's speed
        lse = most + np.log(total)
        self.terms.finish(lse, losses, sums, targets)
        gradients = self.terms.rows(np.full(len(most), self.scale, most.dtype), lse, targets)
        np.divide(gradients.factor, total, gradients.factor)
        gradients.scale(targets, 0, logits)

    def by_classes(self, grad_w: Array | None, grad_b: Array | None, *, first: bool) -> None:
        """The chunk's part of the gradients of weight and bias."""

        def task(number: int, product: Array) -> None:
            part = slice(number * _CLASSES_PER_TASK, (number + 1) * _CLASSES_PER_TASK)
            gradient = self.logits[:, part]
            if grad_w is not None:
                _put_or_add(gradient.T, self.x, grad_w[part], product, first=first)
            if grad_b is not None:
                _put_or_add(self.ones[: len(gradient)], gradient, grad_b[part], product, first=first)

        if grad_w is not None or grad_b is not None:
            width = self.x.shape[1] if grad_w is not None else 1
            specs = [((0 if first else _CLASSES_PER_TASK * max(width, 1),), self.logits.dtype)]
            parallel_for(task, -(-len(self.weight) // _CLASSES_PER_TASK), specs)


def _put_or_add(left: Array, right: Array, out: Array, product: Array, *, first: bool) -> None:
    if first:
        np.matmul(left, right, out=out)
    else:
        more = product[: out.size].reshape(out.shape)
        np.matmul(left, right, out=more)
        np.add(out, more, out)
