"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.creation import empty
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module


class LayerNorm(Module):
    """Zero mean and unit variance over the last dimensions, then a scale and a shift for each element.

    Args:
        normalized_shape: the sizes of the dimensions that are normalised, a single one as an int.
        eps: added to the variance.
        elementwise_affine: whether there is a scale (``weight``), which begins as ones.
        bias: whether there is a shift beside it, which begins as zeros.
        device, dtype: of the parameters.

    Shapes: input and output ``(*, *normalized_shape)``.
    """

    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool
    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        has_bias = elementwise_affine and bias
        self.register_parameter(
            "weight", Parameter(empty(shape, device=device, dtype=dtype)) if elementwise_affine else None
        )
        self.register_parameter("bias", Parameter(empty(shape, device=device, dtype=dtype)) if has_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to ones and the shift to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine},"
            f" bias={self.bias is not None}"
        )
