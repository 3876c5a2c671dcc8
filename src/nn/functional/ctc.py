"""The loss of label sequences without an alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.ops.cast import constant, copy_array_to
from ...autograd.ops.ctc import ctc_loss as ctc_op
from ...autograd.ops.elementwise import where
from ...autograd.tensor import Tensor
from ...memory import CPU
from ._checks import check_reduction, check_tensors
from .loss import reduced

__all__ = ["ctc_loss"]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification: minus the log-probability of label sequences over all alignments.

    Args:
        log_probs: ``(T, N, C)`` or ``(T, C)``: a log-soft-max over the classes. Its gradient includes the derivative of
            the soft-max, as in PyTorch.
        targets: ``(N, S)``, or all labels one after the other, ``(sum(target_lengths),)``; no blanks among them.
        input_lengths: how many times of each sample count.
        target_lengths: how many labels each sample has.
        blank: the number of the blank.
        reduction: ``"mean"`` (of the losses divided by the numbers of labels), ``"sum"`` or ``"none"``.
        zero_infinity: whether a loss is 0, without a gradient, where no alignment is short enough; else it is infinite.

    Returns:
        A number, or for ``"none"`` the loss of each sample.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if lengths, shapes or the blank do not fit.

    Keeps the arguments and the losses; backward goes through the alignments once more.
    """
    check_tensors("ctc_loss", log_probs=log_probs, targets=targets)
    check_reduction(reduction)
    single = log_probs.dim() == 2
    probs = log_probs.unsqueeze(1) if single else log_probs
    if probs.dim() != 3 or not 0 <= blank < probs.shape[2]:
        raise RuntimeError(
            f"ctc_loss: expected log_probs (T, N, C) or (T, C) and a blank among the classes, got"
            f" {list(log_probs.shape)} and {blank}"
        )
    times, samples, _ = probs.shape
    inputs, outputs = (
        _lengths("input_lengths", input_lengths, samples),
        _lengths("target_lengths", target_lengths, samples),
    )
    if (inputs > times).any():
        raise RuntimeError(f"ctc_loss: Expected input_lengths to have value at most {times}, got {int(inputs.max())}")
    rows = _rows(targets, outputs, samples)
    device = log_probs.device
    arguments = (constant(array, device) for array in (rows, inputs, outputs))
    losses: Tensor = ctc_op(probs, *arguments, blank, zero_infinity)
    if zero_infinity:
        losses = where(losses.isinf(), 0.0, losses)
    if reduction == "mean":
        losses = losses / constant(np.maximum(outputs, 1).astype(probs.dtype), device)
    if reduction == "none" and single:
        losses = losses.squeeze(0)
    return reduced(losses, reduction)


def _on_host(tensor: Tensor) -> Any:
    return copy_array_to(tensor._array, CPU, "temporary")[0]


def _lengths(name: str, lengths: Tensor | Sequence[int], samples: int) -> Any:
    given = _on_host(lengths) if isinstance(lengths, Tensor) else np.array(lengths)
    given = given.reshape(-1)
    if given.dtype.kind not in "iu" or len(given) != samples or (given < 0).any():
        raise RuntimeError(
            f"ctc_loss: {name} must be of size batch_size {samples}, integers of at least 0, got {given}"
        )
    return given.astype(np.int64)


def _rows(targets: Tensor, lengths: Any, samples: int) -> Any:
    """The labels as a row a sample, on the host."""
    given = _on_host(targets)
    if targets.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: targets must be integers, got {targets.dtype}")
    longest = int(lengths.max(initial=0))
    if targets.dim() == 2 and targets.shape[0] == samples and targets.shape[1] >= longest:
        return np.ascontiguousarray(given[:, :longest], np.int64)
    if targets.dim() == 1 and len(given) == lengths.sum():
        rows = np.zeros((samples, longest), np.int64)
        rows[np.arange(longest) < lengths[:, None]] = given
        return rows
    raise RuntimeError(
        f"ctc_loss: expected targets ({samples}, {longest}) or ({int(lengths.sum())},), got {list(targets.shape)}"
    )
