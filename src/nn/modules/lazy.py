"""Modules that learn sizes of their inputs from the first one."""

from __future__ import annotations

from typing import Any, ClassVar

from ...autograd.creation import tensor
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from ..uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from .batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .making import Sizes
from .module import Module


class LazyModuleMixin(Module):
    """A module with `UninitializedParameter`: before the first call `initialize_parameters` gives them shapes.

    After that it is of the class ``cls_to_become``, if there is one. A dry run with an input like the later ones has to
    come before the parameters are copied, shared or counted; an optimizer may have them already.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(_infer, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give shapes to the parameters; called with what ``forward`` will be called with."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))


def _infer(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The hook before the first call."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    for number, entry in list(module._forward_pre_hooks.items()):
        if entry.function is _infer:
            del module._forward_pre_hooks[number]
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose ``in_features`` is the size of the first input's last dimension.

    Args:
        out_features: size of the output's last dimension.
        bias: whether there is one.
        device, dtype: of the parameters.
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike | None = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        size = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = size
            _materialize(self, weight=(self.out_features, size), bias=(self.out_features,))
            self.reset_parameters()
        elif not self.in_features:  # its state was loaded
            self.in_features = self.weight.shape[-1]


def _materialize(module: Module, **shapes: tuple[int, ...]) -> None:
    for name, shape in shapes.items():
        value: Any = getattr(module, name)
        if is_lazy(value):
            value.materialize(shape)


# -- convolutions ------------------------------------------------------------------------------------------------------


class _LazyConv(LazyModuleMixin):
    """A convolution whose ``in_channels`` are those of the first input; the other arguments are the convolution's."""

    dims: ClassVar[int]
    transposed: ClassVar[bool]
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    groups: int
    weight: Any
    bias: Any

    def _prepare(self, out_channels: int, bias: bool, device: DeviceLike | None, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]  # the convolution's

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"Expected {self.dims + 1}D (unbatched) or {self.dims + 2}D (batched) input to {type(self).__name__},"
                f" but got input of size: {list(input.shape)}"
            )
        channels = input.shape[-1 - self.dims]
        if not self.has_uninitialized_params():  # its state was loaded
            self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        if channels % self.groups:
            raise ValueError(f"in_channels must be divisible by groups, got {channels} and {self.groups}")
        self.in_channels = channels
        if self.transposed:
            shape = (channels, self.out_channels // self.groups, *self.kernel_size)
        else:
            shape = (self.out_channels, channels // self.groups, *self.kernel_size)
        _materialize(self, weight=shape, bias=(self.out_channels,))
        self.reset_parameters()


class _LazyConvolution(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._prepare(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        sizes = stride, padding, output_padding
        super().__init__(0, 0, kernel_size, *sizes, groups, False, dilation, padding_mode)
        self._prepare(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):
    """A `Conv1d` whose ``in_channels`` is known from the first input; the other arguments are the same."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """A `Conv2d` whose ``in_channels`` is known from the first input; the other arguments are the same."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """A `Conv3d` whose ``in_channels`` is known from the first input; the other arguments are the same."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """A `ConvTranspose1d` whose ``in_channels`` is known from the first input; the other arguments are the same."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """A `ConvTranspose2d` whose ``in_channels`` is known from the first input; the other arguments are the same."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """A `ConvTranspose3d` whose ``in_channels`` is known from the first input; the other arguments are the same."""

    cls_to_become = ConvTranspose3d


# -- norms -------------------------------------------------------------------------------------------------------------


class _LazyNorm(LazyModuleMixin):
    """A norm whose ``num_features`` are the channels of the first input; the other arguments are the norm's."""

    dims: ClassVar[Any]
    num_features: int
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, device=device)

    def reset_parameters(self) -> None:
        """Set scales, shifts and statistics to what they begin with, once they have shapes."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]  # the norm's

    def initialize_parameters(self, input: Tensor) -> None:
        single = self.dims[0] == input.dim() and isinstance(self, InstanceNorm1d | InstanceNorm2d | InstanceNorm3d)
        self.num_features = input.shape[0 if single else 1]
        if self.has_uninitialized_params():
            size = (self.num_features,)
            _materialize(self, weight=size, bias=size, running_mean=size, running_var=size)
            self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` whose ``num_features`` is known from the first input; the other arguments are the same."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` whose ``num_features`` is known from the first input; the other arguments are the same."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` whose ``num_features`` is known from the first input; the other arguments are the same."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """A `InstanceNorm1d` whose ``num_features`` is known from the first input; the other arguments are the same."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """A `InstanceNorm2d` whose ``num_features`` is known from the first input; the other arguments are the same."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """A `InstanceNorm3d` whose ``num_features`` is known from the first input; the other arguments are the same."""

    cls_to_become = InstanceNorm3d
