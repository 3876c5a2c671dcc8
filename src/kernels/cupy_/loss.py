"""Cross-entropy of classes, from logits or from a last linear layer whose logits never exist at once.

``targets`` are whole numbers (rows,); rows whose target is ``ignore_index`` have the loss 0 and no gradient. The loss
of a row is ``lse - logits[target]``, or what the note in loss_terms.py of the kernels on NumPy says; ``lse``, the
log-sum-exp, is all that backward needs beside the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cupy
import numpy as np

from .launch import WIDE, Array, kernel
from .linalg import product
from .reduce import sum as sum_over
from .softmax import logsumexp

__all__ = [
    "cross_entropy",
    "cross_entropy_backward",
    "linear_cross_entropy",
    "linear_cross_entropy_backward",
    "linear_cross_entropy_with_grads",
]

CHUNK_BYTES = 64 << 20  # of logits at once
_LEAST_ROWS = 128  # of a chunk: with fewer a product does not fill the device

_TERMS = (
    "raw T weight, bool weighted, int64 classes, int64 ignored, float64 hit, float64 spread, float64 weight_sum,"
    " float64 z_loss"
)
_LOSSES = cupy.ElementwiseKernel(
    f"raw T logits, int64 target, T lse, T total, {_TERMS}",
    "T y",
    """
    W own = (W)0, l = (W)lse;
    if (target != ignored) {
      own = (W)hit * (weighted ? (W)weight[target] : (W)1) * (l - (W)logits[(long long)i * classes + target]);
      if (spread != 0) own += (W)spread * ((W)weight_sum * l - (W)total);
      if (z_loss != 0) own += (W)z_loss * l * l;
    }
    y = (T)own;
    """,
    "stowgrad_cross_entropy",
    preamble=WIDE,
)
_GRADIENT = cupy.ElementwiseKernel(
    f"T grad, T logit, int64 target, T lse, {_TERMS}",
    "T y",
    """
    W own = (W)0, l = (W)lse;
    if (target != ignored) {
      long long column = (long long)i % classes;
      W h = (W)hit * (weighted ? (W)weight[target] : (W)1);
      W factor = h + (W)(spread * weight_sum) + (W)(2 * z_loss) * l;
      own = factor * exp((W)logit - l) - (column == target ? h : (W)0);
      if (spread != 0) own -= (W)spread * (weighted ? (W)weight[column] : (W)1);
      own *= (W)grad;
    }
    y = (T)own;
    """,
    "stowgrad_cross_entropy_backward",
    preamble=WIDE,
)
_WEIGHTED_SUM = cupy.ReductionKernel(
    "T x, T factor",
    "T y",
    "(W)x * (W)factor",
    "a + b",
    "y = (T)a",
    "0",
    "stowgrad_weighted_sum_of_logits",
    reduce_type="W",
    preamble=WIDE,
)


class _Terms(NamedTuple):
    """The arguments of a loss that all of its rows share."""

    weight: Array | None
    classes: int
    ignore_index: int
    smoothing: float
    z_loss: float
    weight_sum: float

    @classmethod
    def of(cls, classes: int, weight: Array | None, ignore_index: int, smoothing: float, z_loss: float = 0.0) -> _Terms:
        total = float(classes) if weight is None else float(weight.astype(np.float64).sum())
        return cls(weight, classes, ignore_index, smoothing, z_loss, total)

    def arguments(self, like: Array) -> tuple[object, ...]:
        """For `_TERMS`."""
        weight = like if self.weight is None else self.weight.astype(like.dtype, copy=False)
        spread = self.smoothing / max(self.classes, 1)
        numbers = (self.classes, self.ignore_index, 1 - self.smoothing, spread, self.weight_sum, self.z_loss)
        return (weight, self.weight is not None, *numbers)

    def forward(self, logits: Array, targets: Array, losses: Array, lse: Array) -> None:
        """Losses and log-sum-exps of (rows, classes)."""
        logsumexp(logits, lse, axis=1)
        total: Array | float = 0.0
        if self.smoothing:
            factors = cupy.full((), 1, logits.dtype) if self.weight is None else self.arguments(logits)[0]
            total = _WEIGHTED_SUM(logits, factors, axis=1)
        _LOSSES(logits, targets, lse, total, *self.arguments(logits), losses)

    def gradient(self, grad_rows: Array, logits: Array, targets: Array, lse: Array, out: Array) -> None:
        """The gradient of the logits; ``out`` may be they themselves."""
        columns = (grad_rows[:, None], logits, targets[:, None], lse[:, None])
        _GRADIENT(*columns, *self.arguments(logits), out)


@kernel
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
    _check_targets(targets, classes, ignore_index)
    terms, targets = _Terms.of(classes, weight, ignore_index, label_smoothing), _whole(targets)
    if lse.dtype == logits.dtype:
        if rows:
            terms.forward(logits, targets, losses, lse)
        return
    for part in _runs(rows, classes, lse.dtype.itemsize, CHUNK_BYTES):
        exact = cupy.empty(lse[part].shape, lse.dtype)
        terms.forward(logits[part].astype(lse.dtype), targets[part], exact, lse[part])
        cupy.copyto(losses[part], exact, casting="unsafe")


@kernel
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
    terms, targets = _Terms.of(classes, weight, ignore_index, label_smoothing), _whole(targets)
    if lse.dtype == logits.dtype:
        if logits.size:
            terms.gradient(grad_rows, logits, targets, lse, grad_logits)
        return
    for part in _runs(rows, classes, lse.dtype.itemsize, CHUNK_BYTES):
        exact = logits[part].astype(lse.dtype)
        terms.gradient(grad_rows[part].astype(lse.dtype), exact, targets[part], lse[part], exact)
        cupy.copyto(grad_logits[part], exact, casting="unsafe")


@kernel
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
    """`cross_entropy` of the logits ``x @ weight.T + bias``, of which about ``chunk_bytes`` exist at once.

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
    _check_targets(targets, len(weight), ignore_index)
    terms, targets = _Terms.of(len(weight), class_weight, ignore_index, label_smoothing, z_loss), _whole(targets)
    for rows in _chunks(x, weight, chunk_bytes):
        part, found = _exact(_logits(x[rows], weight, bias), lse), cupy.empty(lse[rows].shape, lse.dtype)
        terms.forward(part, targets[rows], found, lse[rows])
        cupy.copyto(losses[rows], found, casting="unsafe")


@kernel
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
    terms, targets = _Terms.of(len(weight), class_weight, ignore_index, label_smoothing, z_loss), _whole(targets)
    for rows in _chunks(x, weight, chunk_bytes):
        part = _exact(_logits(x[rows], weight, bias), lse)
        terms.gradient(_exact(grad_rows[rows], lse), part, targets[rows], lse[rows], part)
        part = part.astype(x.dtype, copy=False)
        _add_gradients(part, x[rows], weight, None if grad_x is None else grad_x[rows], grad_w, grad_b, rows.start == 0)
        del part  # before the next one is made


@kernel
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
    """``loss = scale * losses.sum()`` of `linear_cross_entropy`, and its gradients that are asked for (not None).

    A chunk has the logits of all classes for a run of rows, which its gradient replaces.
    """
    _check_targets(targets, len(weight), ignore_index)
    terms, targets = _Terms.of(len(weight), class_weight, ignore_index, label_smoothing, z_loss), _whole(targets)
    exact = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
    losses, lse, upstream = cupy.empty(len(x), exact), cupy.empty(len(x), exact), cupy.full(len(x), scale, exact)
    for rows in _chunks(x, weight, chunk_bytes):
        part = _exact(_logits(x[rows], weight, bias), lse)
        terms.forward(part, targets[rows], losses[rows], lse[rows])
        if grad_x is None and grad_w is None and grad_b is None:
            continue
        terms.gradient(upstream[rows], part, targets[rows], lse[rows], part)
        part = part.astype(x.dtype, copy=False)
        _add_gradients(part, x[rows], weight, None if grad_x is None else grad_x[rows], grad_w, grad_b, rows.start == 0)
    loss[...] = losses.sum() * scale


def _add_gradients(
    part: Array,
    x: Array,
    weight: Array,
    grad_x: Array | None,
    grad_w: Array | None,
    grad_b: Array | None,
    first: bool,
) -> None:
    """What a chunk of the logits' gradient gives the gradients of input, weight and bias."""
    if grad_x is not None:
        cupy.matmul(part, weight, out=grad_x)
    if grad_w is not None:
        _put_or_add(product(part.T, x), grad_w, first=first)
    if grad_b is not None:
        sums = cupy.empty(grad_b.shape, grad_b.dtype)
        sum_over(part, sums, axes=(0,))
        _put_or_add(sums, grad_b, first=first)


def _chunks(x: Array, weight: Array, chunk_bytes: int) -> Iterator[slice]:
    return _runs(len(x), len(weight), x.dtype.itemsize, chunk_bytes)


def _runs(rows: int, classes: int, itemsize: int, chunk_bytes: int) -> Iterator[slice]:
    """Runs of rows whose logits take about ``chunk_bytes``."""
    row_bytes = max(classes, 1) * itemsize
    step = max(chunk_bytes // row_bytes, min(_LEAST_ROWS, max(chunk_bytes // itemsize, 1)), 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _exact(x: Array, lse: Array) -> Array:
    """``x`` in the dtype of the log-sum-exps: float32 for half precision."""
    return x.astype(lse.dtype, copy=False)


def _logits(x: Array, weight: Array, bias: Array | None) -> Array:
    part = product(x, weight.T)
    if bias is not None:
        cupy.add(part, bias, out=part)
    return part


def _put_or_add(part: Array, out: Array, *, first: bool) -> None:
    if first:
        cupy.copyto(out, part)
    else:
        cupy.add(out, part, out=out)


def _whole(targets: Array) -> Array:
    return targets.astype(np.int64, copy=False)


def _check_targets(targets: Array, classes: int, ignore_index: int) -> None:
    wrong = ((targets < 0) | (targets >= classes)) & (targets != ignore_index)
    if bool(wrong.any()):
        raise IndexError(
            f"cross_entropy: target {int(targets[wrong][0])} is out of range for {classes} classes; "
            f"rows to leave out have the target {ignore_index} (ignore_index)"
        )
