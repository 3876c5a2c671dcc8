"""The bilinear layer."""

from __future__ import annotations

import math

from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = ["bilinear"]


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output feature k.

    Args:
        input1: ``(*, in1_features)``.
        input2: ``(*, in2_features)``.
        weight: ``(out_features, in1_features, in2_features)``.
        bias: ``(out_features,)`` or None.

    Returns:
        ``(*, out_features)``.

    Raises:
        RuntimeError: if the shapes do not fit.

    Keeps the arguments, and ``out_features * in2_features`` numbers a row.
    """
    check_tensors("bilinear", input1=input1, input2=input2, weight=weight)
    leading = tuple(input1.shape[:-1])
    if weight.dim() != 3 or input1.dim() != input2.dim() or leading != tuple(input2.shape[:-1]):
        raise RuntimeError(
            "bilinear(): expected inputs of equal leading dimensions and a weight of 3, got"
            f" {list(input1.shape)}, {list(input2.shape)} and {list(weight.shape)}"
        )
    outs, first, second = weight.shape
    if (input1.shape[-1], input2.shape[-1]) != (first, second):
        raise RuntimeError(
            f"bilinear(): input1 and input2 sizes do not match weight sizes: got {input1.shape[-1]} and"
            f" {input2.shape[-1]}, expected {first} and {second}"
        )
    if bias is not None and tuple(bias.shape) != (outs,):
        raise RuntimeError(f"bilinear(): expected a bias of the shape [{outs}], got {list(bias.shape)}")
    count = math.prod(leading)
    rows = input1.reshape(count, first)
    by_first = (rows @ weight.permute(1, 0, 2).reshape(first, outs * second)).reshape(count, outs, second)
    result: Tensor = (by_first @ input2.reshape(count, second, 1)).reshape(*leading, outs)
    return result if bias is None else result + bias
