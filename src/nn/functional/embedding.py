"""Look-ups in tables."""

from __future__ import annotations

from ...autograd.creation import arange, ones_like
from ...autograd.functions.join import cat
from ...autograd.ops import embedding as embedding_ops
from ...autograd.ops import embedding_bag as bag_ops
from ...autograd.ops.elementwise import where
from ...autograd.ops.shape import gather, gather_backward
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """Rows of a table.

    Args:
        input: integers, of any shape.
        weight: the table, ``(num_embeddings, embedding_dim)``.
        padding_idx: a row that gets no gradient; may count from the end.
        max_norm: rows that are looked up and have a larger norm are scaled down to it first, in place.
        norm_type: which norm.
        scale_grad_by_freq: whether the gradient of a row is divided by how often ``input`` names it.

    Returns:
        ``(*input.shape, embedding_dim)``.

    Raises:
        IndexError: if an index is no row of the table.
        RuntimeError: if ``input`` holds no integers, or ``weight`` is no matrix.
        ValueError: if ``padding_idx`` is no row of the table.

    Keeps the indices.
    """
    check_tensors("embedding", input=input, weight=weight)
    padding_idx = _from_the_front(padding_idx, weight)
    if max_norm is not None:
        embedding_ops.renorm(input, weight, max_norm, norm_type)
    result: Tensor = embedding_ops.embedding(input, weight, padding_idx, scale_grad_by_freq)
    return result


def _from_the_front(padding_idx: int | None, weight: Tensor) -> int | None:
    if padding_idx is None:
        return None
    rows = weight.shape[0]
    if not -rows <= padding_idx < rows:
        raise ValueError(f"Padding_idx must be within num_embeddings = {rows}, got {padding_idx}")
    return padding_idx % rows


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    *,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of rows of a table over each bag; the rows themselves never exist at once.

    Args:
        input: integers: ``(B, n)``, a bag a row, or ``(n,)``, with the bags one after the other.
        weight: the table, ``(num_embeddings, embedding_dim)``.
        offsets: where each bag of an input ``(n,)`` starts.
        max_norm, norm_type, scale_grad_by_freq: as for `embedding`.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: of the shape of ``input``: factors of the rows, for ``"sum"`` only.
        include_last_offset: whether the last of the offsets is where the last bag ends.
        padding_idx: a row that does not count; may count from the end.

    Returns:
        ``(B, embedding_dim)``; 0 for a bag without rows.

    Raises:
        ValueError: for shapes or a mode that do not fit.
        NotImplementedError: for ``per_sample_weights`` with another mode.
        IndexError: if an index is no row of the table.

    Keeps the indices, the offsets and a factor for each index; of the maximum which rows it was found in.
    """
    check_tensors("embedding_bag", input=input, weight=weight)
    _check_bags(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq)
    padding_idx = _from_the_front(padding_idx, weight)
    starts = _starts(input, offsets, include_last_offset)
    indices = input.reshape(-1)
    if max_norm is not None:
        embedding_ops.renorm(indices, weight, max_norm, norm_type)
    if mode == "max":
        found: Tensor = bag_ops.embedding_bag_max(indices, weight, starts, padding_idx)
        return found
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    if padding_idx is not None:
        ones = ones_like(indices, dtype=weight.dtype) if factors is None else factors
        factors = where(indices != padding_idx, ones, 0.0)
    if mode == "mean":
        ones = ones_like(indices, dtype=weight.dtype) if factors is None else factors
        rows = bag_ops.bag_rows(starts, indices)
        counts = gather_backward(ones, rows, (starts.shape[0] - 1,))
        factors = where(ones == 0, 0.0, ones / gather(counts, rows))
    result: Tensor = bag_ops.embedding_bag(indices, weight, starts, factors, scale_grad_by_freq)
    return result


def _check_bags(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
    scale_grad_by_freq: bool,
) -> None:
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have"
            f" the same shape as the input ({list(input.shape)})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences"
        )
    if input.dim() == 1 and (offsets is None or offsets.dim() != 1):
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights was not None. It is only supported for mode='sum' (got mode='{mode}')."
        )


def _starts(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> Tensor:
    """Where the bags start, and where the last one ends."""
    count = input.numel()
    if offsets is None:
        rows, length = input.shape
        starts: Tensor = arange(rows + 1, device=input.device) * length
        return starts
    if include_last_offset and offsets.numel() == 0:
        raise RuntimeError("include_last_offset: number of offsets should be at least 1")
    offsets = offsets.long()
    if offsets.device.type != "meta" and offsets.numel():
        inside = bool(((offsets >= 0) & (offsets <= count)).all()) and bool((offsets[1:] >= offsets[:-1]).all())
        if int(offsets[0]) != 0 or not inside:
            raise RuntimeError(
                f"embedding_bag: offsets[0] has to be 0, and offsets must not fall nor go beyond the {count} indices,"
                f" got {offsets.tolist()}"
            )
    begins = offsets[:-1] if include_last_offset else offsets
    result: Tensor = cat([begins, arange(count, count + 1, device=input.device)])
    return result
