"""Normalisation of the last dimensions, of groups of channels, and among neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .making import new_parameter, repeated
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
        self.register_parameter("weight", new_parameter(shape, device, dtype) if elementwise_affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if has_bias else None)
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


class RMSNorm(Module):
    """Unit mean square over the last dimensions, then a scale for each element.

    Args:
        normalized_shape: the sizes of the dimensions that are normalised, a single one as an int.
        eps: added to the mean square; the dtype's machine epsilon if None.
        elementwise_affine: whether there is a scale (``weight``), which begins as ones.
        device, dtype: of the parameter.

    Shapes: input and output ``(*, *normalized_shape)``.
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool
    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = repeated(normalized_shape, 1)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = new_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Zero mean and unit variance of each group of channels of each sample, then a scale and a shift a channel.

    Args:
        num_groups: the number of groups.
        num_channels: the number of channels C.
        eps: added to the variance.
        affine: whether there are a scale and a shift for each channel.
        device, dtype: of the parameters.
        bias: False to have no shift.

    Raises:
        ValueError: if the groups do not divide the channels.

    Shapes: input and output ``(N, C, *)``.
    """

    num_groups: int
    num_channels: int
    eps: float
    affine: bool
    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        size = (num_channels,)
        self.register_parameter("weight", new_parameter(size, device, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(size, device, dtype) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set scales to 1 and shifts to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine},"
            f" bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """``x / (k + alpha * mean of x**2 over size channels around it) ** beta``.

    Args:
        size: the number of channels.
        alpha, beta, k: the numbers.
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
