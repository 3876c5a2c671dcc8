"""Normalisation of channels, over batches or within samples."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from ...autograd.creation import ones, tensor, zeros
from ...autograd.grad_mode import no_grad
from ...autograd.recomputing import update_state
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .making import new_parameter
from .module import Module


class _NormBase(Module):
    """Parameters and running statistics of channels."""

    _version = 2  # since then there is num_batches_tracked
    dims: ClassVar[tuple[int, ...]]  # how many dimensions an input may have

    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        size = (num_features,)
        self.register_parameter("weight", new_parameter(size, device, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(size, device, dtype) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(size, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(size, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, device=device) if tracked else None)
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def reset_running_stats(self) -> None:
        """Forget what was seen: means of 0, variances of 1."""
        with no_grad():
            if self.running_mean is not None and self.running_var is not None:
                self.running_mean.zero_()
                self.running_var.fill_(1)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set scales to 1 and shifts to 0, and forget what was seen."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.dims:
            wanted = " or ".join(f"{count}D" for count in self.dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        count = self.num_batches_tracked
        if local_metadata.get("version", 1) < 2 and count is not None:
            state_dict.setdefault(f"{prefix}num_batches_tracked", count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


class _BatchNorm(_NormBase):
    """Normalisation of each channel over a batch.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move towards those of a batch; None for the average of all batches.
        affine: whether there are a scale and a shift for each channel.
        track_running_stats: whether there are running statistics, which stand for a batch's outside of training.
        device, dtype: of parameters and statistics.
        bias: False to have no shift.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            count = self.num_batches_tracked
            update_state(lambda: count.add_(1))
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked.item())
        own = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        mean, variance = (self.running_mean, self.running_var) if tracked else (None, None)
        return F.batch_norm(input, mean, variance, self.weight, self.bias, own, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Zero mean and unit variance of each channel of ``(N, C)`` or ``(N, C, L)`` over a batch; as `BatchNorm2d`."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Zero mean and unit variance of each channel of ``(N, C, H, W)`` over a batch, then a scale and a shift.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move towards those of a batch; None for the average of all batches.
        affine: whether there are a scale and a shift for each channel.
        track_running_stats: whether there are running statistics, which stand for a batch's outside of training.
        device, dtype: of parameters and statistics.
        bias: False to have no shift.

    Raises:
        ValueError: in a call, for an input of other dimensions, or of one value a channel in training.
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Zero mean and unit variance of each channel of ``(N, C, D, H, W)`` over a batch; as `BatchNorm2d`."""

    dims = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.dim() == self.dims[0]
        channels = input.shape[0 if single else 1]
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={0 if single else 1} to match num_features ({self.num_features}),"
                    f" but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={0 if single else 1} does not match num_features. You can silence this warning by"
                " not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        result = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each sample, ``(N, C, L)`` or ``(C, L)``; as `InstanceNorm2d`."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each sample, ``(N, C, H, W)`` or ``(C, H, W)``.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: how far the running statistics move.
        affine: whether there are a scale and a shift for each channel.
        track_running_stats: whether there are running statistics, which stand for a sample's outside of training.
        device, dtype: of parameters and statistics.
        bias: False to have no shift.

    Raises:
        ValueError: in a call, for an input of other dimensions or, with ``affine``, another number of channels.
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Zero mean and unit variance of each channel of each sample, ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""

    dims = (4, 5)
