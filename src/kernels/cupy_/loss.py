"""Cross-entropy of classes, from logits or from a last linear layer whose logits never exist at once.

``targets`` are whole numbers (rows,); rows whose target is ``ignore_index`` have the loss 0 and no gradient. The loss
of a row is ``lse - logits[target]``; ``lse``, the log-sum-exp, is all that backward needs beside the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator

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

_LOSSES = cupy.ElementwiseKernel(
    "raw T logits, int64 target, T lse, int64 classes, int64 ignored",
    "T y",
    "y = target == ignored ? (T)0.0f : (T)((W)lse - (W)logits[(long long)i * classes + target])",
    "stowgrad_cross_entropy",
    preamble=WIDE,
)
_GRADIENT = cupy.ElementwiseKernel(
    "T grad, T logit, int64 target, T lse, int64 classes, int64 ignored",
    "T y",
    """
    W softmax = exp((W)logit - (W)lse);
    W hit = (long long)i % classes == target ? (W)1 : (W)0;
    y = target == ignored ? (T)0.0f : (T)((W)grad * (softmax - hit));
    """,
    "stowgrad_cross_entropy_backward",
    preamble=WIDE,
)


@kernel
def cross_entropy(logits: Array, targets: Array, losses: Array, lse: Array, *, ignore_index: int = -100) -> None:
    """``losses`` and ``lse`` (rows,) of ``logits`` (rows, classes).

    Raises:
        IndexError: for a target that is neither a class nor ``ignore_index``.
    """
    _check_targets(targets, logits.shape[1], ignore_index)
    _forward(logits, _whole(targets), losses, lse, ignore_index)


@kernel
def cross_entropy_backward(
    grad_rows: Array, logits: Array, targets: Array, lse: Array, grad_logits: Array, *, ignore_index: int = -100
) -> None:
    """``grad_logits = grad_rows * (softmax(logits) - onehot(targets))``; ``grad_logits`` may be ``logits``."""
    _gradient(grad_rows, logits, _whole(targets), lse, grad_logits, ignore_index)


@kernel
def linear_cross_entropy(
    x: Array,
    weight: Array,
    bias: Array | None,
    targets: Array,
    losses: Array,
    lse: Array,
    *,
    ignore_index: int = -100,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """`cross_entropy` of the logits ``x @ weight.T + bias``, of which about ``chunk_bytes`` exist at once.

    Args:
        x: (rows, size).
        weight: (classes, size).
        bias: (classes,) or None.
        targets: (rows,).
        losses, lse: outs, (rows,).

    Raises:
        IndexError: for a target that is neither a class nor ``ignore_index``.
    """
    _check_targets(targets, len(weight), ignore_index)
    targets = _whole(targets)
    for rows in _chunks(x, weight, chunk_bytes):
        _forward(_logits(x[rows], weight, bias), targets[rows], losses[rows], lse[rows], ignore_index)


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
    ignore_index: int = -100,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """The gradients of `linear_cross_entropy` that are asked for: those that are not None."""
    if len(x) == 0 or len(weight) == 0:
        for gradient in (grad_x, grad_w, grad_b):
            if gradient is not None:
                gradient.fill(0)
        return
    targets = _whole(targets)
    for rows in _chunks(x, weight, chunk_bytes):
        part = _logits(x[rows], weight, bias)
        _gradient(grad_rows[rows], part, targets[rows], lse[rows], part, ignore_index)
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
    ignore_index: int = -100,
    chunk_bytes: int = CHUNK_BYTES,
) -> None:
    """``loss = scale * losses.sum()`` of `linear_cross_entropy`, and its gradients that are asked for (not None).

    A chunk has the logits of all classes for a run of rows, which its gradient replaces.
    """
    _check_targets(targets, len(weight), ignore_index)
    targets = _whole(targets)
    losses, lse = cupy.empty(len(x), x.dtype), cupy.empty(len(x), x.dtype)
    upstream = cupy.full(len(x), scale, x.dtype)
    for rows in _chunks(x, weight, chunk_bytes):
        part = _logits(x[rows], weight, bias)
        _forward(part, targets[rows], losses[rows], lse[rows], ignore_index)
        if grad_x is None and grad_w is None and grad_b is None:
            continue
        _gradient(upstream[rows], part, targets[rows], lse[rows], part, ignore_index)
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
    row_bytes = max(len(weight), 1) * x.dtype.itemsize
    step = max(chunk_bytes // row_bytes, min(_LEAST_ROWS, max(chunk_bytes // x.dtype.itemsize, 1)), 1)
    for start in range(0, len(x), step):
        yield slice(start, min(start + step, len(x)))


def _logits(x: Array, weight: Array, bias: Array | None) -> Array:
    part = product(x, weight.T)
    if bias is not None:
        cupy.add(part, bias, out=part)
    return part


def _forward(logits: Array, targets: Array, losses: Array, lse: Array, ignore_index: int) -> None:
    logsumexp(logits, lse, axis=1)
    _LOSSES(logits, targets, lse, logits.shape[1], ignore_index, losses)


def _gradient(grad_rows: Array, logits: Array, targets: Array, lse: Array, out: Array, ignore_index: int) -> None:
    columns = (grad_rows[:, None], logits, targets[:, None], lse[:, None])
    _GRADIENT(*columns, logits.shape[1], ignore_index, out)


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
