"""Linear layers."""

from __future__ import annotations

from ...autograd.ops import linalg
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = ["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Args:
        input: ``(*, in_features)``.
        weight: ``(out_features, in_features)``.
        bias: ``(out_features,)`` or None.

    Returns:
        ``(*, out_features)``.

    Raises:
        RuntimeError: if shapes, dtypes or devices do not fit.

    Keeps the input if the weight needs a gradient, and the weight if the input does.
    """
    check_tensors("linear", input=input, weight=weight)
    result: Tensor = linalg.linear(input, weight, bias)
    return result
