"""Sequences of different lengths as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.functions.join import stack
from ...autograd.tensor import Tensor
from .. import functional as F


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences, each ``(length, *)``, made equally long and stacked.

    Args:
        sequences: the tensors, which differ in the first dimension only; or one tensor of them.
        batch_first: whether the batch comes before the length in the result.
        padding_value: what is filled in.
        padding_side: ``"right"`` for behind the end, ``"left"`` for before the beginning.

    Returns:
        ``(longest, N, *)`` or ``(N, longest, *)``.

    Raises:
        RuntimeError: for another side, or no sequences.

    >>> import stowgrad
    >>> pad_sequence([stowgrad.ones(2), stowgrad.ones(3)], batch_first=True).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f'Expected padding_side to be one of "left" or "right", got {padding_side!r}')
    listed: list[Any] = list(sequences)
    if not listed:
        raise RuntimeError("Expected a non-empty list of Tensors")
    longest = max(sequence.shape[0] for sequence in listed)
    padded = []
    for sequence in listed:
        lacking = longest - sequence.shape[0]
        ends = (0, lacking) if padding_side == "right" else (lacking, 0)
        others = (0, 0) * (sequence.dim() - 1)
        padded.append(F.pad(sequence, (*others, *ends), value=padding_value) if lacking else sequence)
    result: Tensor = stack(padded, 0 if batch_first else 1)
    return result


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a tensor that was padded on the right, as views.

    Args:
        padded_sequences: ``(longest, N, *)``, or ``(N, longest, *)`` with ``batch_first``.
        lengths: that of each sequence.
        batch_first: see above.
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [batch[number, : int(length)] for number, length in enumerate(lengths.tolist())]
