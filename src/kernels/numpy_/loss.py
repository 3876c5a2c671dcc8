"""Cross-entropy of classes, from logits or from a last linear layer whose logits never exist at once.

``targets`` are whole numbers (rows,); rows whose target is ``ignore_index`` have the loss 0 and no gradient. The loss
of a row is ``lse - logits[target]``, or what the note in loss_terms.py says; ``lse``, the log-sum-exp, is all that
backward needs beside the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..executor import Array, parallel_slices, scratch
from .elementwise import accumulate_
from .loss_terms import RowGradients, Terms, check_targets, in_float32, is_half, places
from .reduce import sum as sum_over
from .rows import max_of_rows, sum_of_rows
from .tiling import copy_tiled, elementwise, rows_per_tile, unit_rows

__all__ = [
    "cross_entropy",
    "cross_entropy_backward",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
]

CHUNK_BYTES = 8 << 20  # of logits at once
_LEAST_ROWS = 1024  # of a chunk: with fewer the weight is read too often
FEW_CLASSES = 64


def cross_entropy(
    logits: Array,
    targets: Array,
    losses: Array,
    lse: Array,
    *,
    weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> None:
    """``losses`` and ``lse`` (rows,) of ``logits`` (rows, classes), any strides.

    ``weight`` (classes,) are factors of the classes. Half precision has its ``lse`` in float32.

    Raises:
        IndexError: for a target that is neither a class nor ``ignore_index``.
    """
    rows, classes = logits.shape
    check_targets(targets, classes, ignore_index)
    terms = Terms.of(classes, weight, ignore_index, label_smoothing)
    exact = losses if losses.dtype == lse.dtype else scratch(losses.shape, lse.dtype)

    def tile(where: slice, sums: Array, work: Array) -> None:
        count, numbers = where.stop - where.start, targets[where]
        part, total, picked, own = logits[where], lse[where], exact[where], sums[:count]
        _take_targets(part, numbers, ignore_index, picked)
        _log_sum_exp(part, total, own, work[:count])
        if label_smoothing:
            terms.sums(part, 0, own)
        terms.finish(total, picked, own, numbers)

    step = rows_per_tile(rows, classes, logits.dtype)
    parallel_slices(tile, rows, step, [((step,), lse.dtype), ((step, classes), lse.dtype)])
    if exact is not losses:
        copy_tiled(exact, losses)


def _take_targets(logits: Array, targets: Array, ignore_index: int, out: Array) -> None:
    """``out`` = the logit of each row's target, of the first class where the row is ignored."""
    ignored = targets == ignore_index
    if ignored.any():
        targets = np.where(ignored, 0, targets)
    out[...] = logits[np.arange(len(targets)), targets]


def _log_sum_exp(logits: Array, out: Array, sums: Array, work: Array) -> None:
    """That of rows; ``sums`` is scratch of its shape, ``work`` of the shape of the logits."""
    if 1 < logits.shape[1] <= FEW_CLASSES:
        log_sum_exp_of_few(logits, out, sums, work)
        return
    max_of_rows(logits, out)
    with np.errstate(divide="ignore", invalid="ignore"):
        elementwise(np.subtract, logits, out[:, None], work)
        np.exp(work, work)
        sum_of_rows(work, sums)
        np.log(sums, sums)
        np.add(out, sums, out)


def log_sum_exp_of_few(logits: Array, out: Array, sums: Array, work: Array) -> None:
    """`_log_sum_exp` of short rows, turned: a row of ten numbers takes NumPy as long as one of a hundred.

    ``work`` is in C order.
    """
    turned = work.reshape(logits.shape[::-1])
    np.copyto(turned, logits.T)
    np.maximum.reduce(turned, axis=0, out=out)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.subtract(turned, out, turned)
        np.exp(turned, turned)
        np.add.reduce(turned, axis=0, out=sums)
        np.log(sums, sums)
        np.add(out, sums, out)


def cross_entropy_backward(
    grad_rows: Array,
    logits: Array,
    targets: Array,
    lse: Array,
    grad_logits: Array,
    *,
    weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> None:
    """The gradient of `cross_entropy`, without weight and smoothing ``grad_rows * (softmax(logits) - onehot)``.

    ``grad_logits`` may be ``logits``, and have any strides.
    """
    rows, classes = logits.shape
    gradients = Terms.of(classes, weight, ignore_index, label_smoothing).rows(grad_rows, lse, targets)
    half = lse.dtype != logits.dtype
    step = rows_per_tile(rows, classes, lse.dtype)

    def tile(where: slice, work: Array) -> None:
        out = work[: where.stop - where.start] if half else grad_logits[where]
        gradients.part(where).fill(logits[where], lse[where], targets[where], 0, out)
        if half:
            np.copyto(grad_logits[where], out, casting="unsafe")

    parallel_slices(tile, rows, step, [((step if half else 0, classes), lse.dtype)])


def linear_cross_entropy(
    x: Array,
    weight: Array,
    bias: Array | None,
    targets: Array,
    losses: Array,
    lse: Array,
    *,
    class_weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """`cross_entropy` of the logits ``x @ weight.T + bias``, of which ``chunk_bytes`` exist at once.

    Half precision is computed on copies in float32, as BLAS wants it; its ``lse`` is in float32.

    Args:
        x: (rows, size).
        weight: (classes, size).
        bias: (classes,) or None.
        targets: (rows,).
        losses, lse: outs, (rows,).
        class_weight: (classes,) or None.
        z_loss: times the square of a row's log-sum-exp is added to its loss.

    Raises:
        IndexError: for a target that is neither a class nor ``ignore_index``.
    """
    check_targets(targets, len(weight), ignore_index)
    if is_half(x):
        options = _options(class_weight, ignore_index, label_smoothing, z_loss, chunk_bytes)
        in_float32(linear_cross_entropy, (x, weight, bias, targets), (losses, lse), options)
        return
    chunks = _Chunks.cut(len(x), len(weight), x.dtype.itemsize, chunk_bytes)
    x, weight = unit_rows(x), unit_rows(weight)
    logits = scratch((chunks.rows * chunks.classes,), x.dtype)
    columns = scratch((chunks.rows, 4), x.dtype)
    terms = Terms.of(chunks.all_classes, class_weight, ignore_index, label_smoothing, z_loss)
    for rows in chunks.row_slices():
        state = _Running(lse[rows], losses[rows], columns[: rows.stop - rows.start])
        state.begin()
        for classes in chunks.class_slices():
            part = _logits(x[rows], weight[classes], logits)
            _take_tiled(state, part, None if bias is None else bias[classes], targets[rows], classes.start, terms)
        state.finish(targets[rows], terms)


def linear_cross_entropy_backward(
    grad_rows: Array,
    x: Array,
    weight: Array,
    bias: Array | None,
    targets: Array,
    lse: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
    *,
    class_weight: Array | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """The gradients of `linear_cross_entropy` that are asked for: those that are not None."""
    if len(x) == 0 or len(weight) == 0:
        for gradient in (grad_x, grad_w, grad_b):
            if gradient is not None:
                gradient.fill(0)
        return
    if is_half(x):
        options = _options(class_weight, ignore_index, label_smoothing, z_loss, chunk_bytes)
        given = (grad_rows, x, weight, bias, targets, lse)
        in_float32(linear_cross_entropy_backward, given, (grad_x, grad_w, grad_b), options)
        return
    chunks = _Chunks.cut(len(x), len(weight), x.dtype.itemsize, chunk_bytes)
    terms = Terms.of(chunks.all_classes, class_weight, ignore_index, label_smoothing, z_loss)
    gradients = terms.rows(grad_rows, lse, targets)
    x, weight = unit_rows(x), unit_rows(weight)
    logits = scratch((chunks.rows * chunks.classes,), x.dtype)
    for rows in chunks.row_slices():
        for classes in chunks.class_slices():
            part = _logits(x[rows], weight[classes], logits)
            shift = None if bias is None else bias[classes]
            _gradient_tiled(part, shift, lse[rows], gradients.part(rows), targets[rows], classes.start)
            if grad_x is not None:
                _add_product(part, weight[classes], grad_x[rows], first=classes.start == 0)
            if grad_w is not None:
                _add_product(part.T, x[rows], grad_w[classes], first=rows.start == 0)
            if grad_b is not None:
                _add_column_sums(part, grad_b[classes], first=rows.start == 0)


def _options(
    class_weight: Array | None, ignore_index: int, label_smoothing: float, z_loss: float, chunk_bytes: int
) -> dict[str, Any]:
    return {
        "class_weight": class_weight,
        "ignore_index": ignore_index,
        "label_smoothing": label_smoothing,
        "z_loss": z_loss,
        "chunk_bytes": chunk_bytes,
    }


# -- chunks ------------------------------------------------------------------------------------------------------------


class _Chunks(NamedTuple):
    """How (all_rows, all_classes) logits are cut."""

    all_rows: int
    all_classes: int
    rows: int
    classes: int

    @classmethod
    def cut(cls, rows: int, classes: int, itemsize: int, chunk_bytes: int) -> _Chunks:
        elements = max(1, chunk_bytes // itemsize)
        least = min(_LEAST_ROWS, max(1, elements // 64))
        per_chunk = min(max(rows, 1), max(least, elements // max(classes, 1)))
        return cls(rows, classes, per_chunk, min(max(classes, 1), max(1, elements // per_chunk)))

    def row_slices(self) -> Iterator[slice]:
        for start in range(0, self.all_rows, self.rows):
            yield slice(start, min(start + self.rows, self.all_rows))

    def class_slices(self) -> Iterator[slice]:
        for start in range(0, self.all_classes, self.classes):
            yield slice(start, min(start + self.classes, self.all_classes))


class _Running(NamedTuple):
    """The log-sum-exp of rows whose logits come in chunks of classes, and the logits of their targets.

    Until `finish`, ``most`` is the largest logit so far, ``picked`` the target's logit, ``columns[:, 0]`` the sum of
    ``exp(logit - most)`` and ``columns[:, 3]`` the weighted sum of the logits; the other columns are scratch.
    """

    most: Array
    picked: Array
    columns: Array

    def begin(self) -> None:
        self.most.fill(-np.inf)
        self.picked.fill(0)
        self.columns[:, 0] = 0
        self.columns[:, 3] = 0

    def part(self, where: slice) -> _Running:
        return _Running(self.most[where], self.picked[where], self.columns[where])

    def take(self, logits: Array, targets: Array, first: int, work: Array, terms: Terms) -> None:
        """Take in the classes from ``first`` on; ``work`` is scratch of the logits' shape, or they themselves."""
        inside, numbers = places(targets, first, logits.shape[1])
        self.picked[inside] = logits[inside, numbers]
        total, new, change, weighted = self.columns.T
        if terms.smoothing:
            part = np.empty(new.shape, new.dtype)
            terms.sums(logits, first, part)
            np.add(weighted, part, weighted)
        chunk_most = np.empty(new.shape, new.dtype)  # never `new` itself, not for a single row either
        max_of_rows(logits, chunk_most)
        with np.errstate(invalid="ignore"):
            np.maximum(self.most, chunk_most, out=new)
            np.subtract(self.most, new, change)
            np.exp(change, change)
            np.copyto(change, 0, where=np.isneginf(self.most))
            elementwise(np.subtract, logits, new[:, None], work)
            np.exp(work, work)
            sum_of_rows(work, chunk_most)
            np.multiply(total, change, total)
            np.add(total, chunk_most, total)
        np.copyto(self.most, new)

    def finish(self, targets: Array, terms: Terms) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            np.add(self.most, np.log(self.columns[:, 0]), self.most)
        terms.finish(self.most, self.picked, self.columns[:, 3], targets)


def _logits(x: Array, weight: Array, buffer: Array) -> Array:
    part = buffer[: len(x) * len(weight)].reshape(len(x), len(weight))
    np.matmul(x, weight.T, out=part)
    return part


def _take_tiled(state: _Running, logits: Array, bias: Array | None, targets: Array, first: int, terms: Terms) -> None:
    def tile(where: slice) -> None:
        part = logits[where]
        if bias is not None:
            np.add(part, bias, part)
        state.part(where).take(part, targets[where], first, part, terms)

    parallel_slices(tile, len(logits), rows_per_tile(*_sizes(logits)))


def _gradient_tiled(
    logits: Array, bias: Array | None, lse: Array, gradients: RowGradients, targets: Array, first: int
) -> None:
    """Turn a chunk of logits into its gradient, in place."""

    def tile(where: slice) -> None:
        part = logits[where]
        if bias is not None:
            np.add(part, bias, part)
        gradients.part(where).fill(part, lse[where], targets[where], first, part)

    parallel_slices(tile, len(logits), rows_per_tile(*_sizes(logits)))


def _add_product(left: Array, right: Array, out: Array, *, first: bool) -> None:
    """``out = left @ right``, or ``out += `` it if not ``first``."""
    if first:
        np.matmul(left, right, out=out)
        return
    product = scratch(out.shape, out.dtype)
    np.matmul(left, right, out=product)
    accumulate_(product, out)


def _add_column_sums(part: Array, out: Array, *, first: bool) -> None:
    if first:
        sum_over(part, out, axes=(0,))
        return
    sums = scratch(out.shape, out.dtype)
    sum_over(part, sums, axes=(0,))
    np.add(out, sums, out)


def _sizes(matrix: Array) -> tuple[int, int, np.dtype[np.generic]]:
    rows, columns = matrix.shape
    return rows, columns, matrix.dtype
