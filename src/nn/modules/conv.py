"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .making import Sizes, new_parameter, repeated
from .module import Module

_FUNCTIONS: dict[tuple[bool, int], Any] = {
    (False, 1): F.conv1d,
    (False, 2): F.conv2d,
    (False, 3): F.conv3d,
    (True, 1): F.conv_transpose1d,
    (True, 2): F.conv_transpose2d,
    (True, 3): F.conv_transpose3d,
}
_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """A convolution over some dimensions, or its transpose."""

    dims: ClassVar[int]
    transposed: ClassVar[bool] = False

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Parameter
    bias: Parameter | None

    def _set(
        self,
        in_channels: int,
        out_channels: int,
        sizes: dict[str, Sizes | str],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike | None,
        dtype: Any,
    ) -> None:
        Module.__init__(self)
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups}")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode={padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        for name, value in sizes.items():
            setattr(self, name, value if isinstance(value, str) else repeated(value, self.dims))
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {self.padding!r}, should be 'same' or 'valid'")
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self.groups = groups
        self.padding_mode = padding_mode
        if self.transposed:
            shape = (in_channels, out_channels // groups, *self.kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = new_parameter(shape, device, dtype)
        self.register_parameter("bias", new_parameter((out_channels,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        if self.weight.numel():
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fans(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        said = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, plain in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (plain,) * self.dims:
                said.append(f"{name}={value}")
        if self.groups != 1:
            said.append(f"groups={self.groups}")
        if self.bias is None:
            said.append("bias=False")
        if self.padding_mode != "zeros":
            said.append(f"padding_mode={self.padding_mode}")
        return ", ".join(said)


class _Convolution(_ConvNd):
    def __init__(
        self,
        in_channels: int,
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
        sizes = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
        self._set(in_channels, out_channels, {**sizes, "output_padding": 0}, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._paddings(), mode=self.padding_mode)
            padding = 0
        function = _FUNCTIONS[False, self.dims]
        result: Tensor = function(input, weight, bias, self.stride, padding, self.dilation, self.groups)
        return result

    def _paddings(self) -> list[int]:
        """Before and behind each dimension, the last one first, as `functional.pad` takes them."""
        pairs: list[tuple[int, int]] = []
        for d in reversed(range(self.dims)):
            if isinstance(self.padding, str):
                total = self.dilation[d] * (self.kernel_size[d] - 1) if self.padding == "same" else 0
                pairs.append((total // 2, total - total // 2))
            else:
                pairs.append((self.padding[d], self.padding[d]))
        return [number for pair in pairs for number in pair]


class Conv1d(_Convolution):
    """A convolution over one dimension; as `Conv2d`, with inputs ``(N, C, L)`` or ``(C, L)``."""

    dims = 1


class Conv2d(_Convolution):
    """A convolution over two dimensions.

    Args:
        in_channels, out_channels: C and O.
        kernel_size, stride, dilation: one number, or one for each dimension.
        padding: the same; or ``"valid"`` for none, ``"same"`` for as much as keeps the size.
        groups: into how many groups of channels input and result are split.
        bias: whether there is one.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``. Other modes than zeros make a
            longer copy of the input, which is what is kept for backward.
        device, dtype: of the parameters.

    Raises:
        ValueError: for channels that can't be split into the groups, or a padding or mode that does not exist.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``; ``weight`` is ``(O, C / groups, kH, kW)``. Both parameters begin
    uniform between plus and minus ``1 / sqrt(C / groups * kH * kW)``.
    """

    dims = 2


class Conv3d(_Convolution):
    """A convolution over three dimensions; as `Conv2d`, with inputs ``(N, C, D, H, W)`` or ``(C, D, H, W)``."""

    dims = 3


class _Transposed(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
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
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}, got {padding_mode!r}')
        sizes: dict[str, Sizes | str] = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
        sizes |= {"dilation": dilation, "output_padding": output_padding}
        self._set(in_channels, out_channels, sizes, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        more = self.output_padding if output_size is None else self._output_padding(input, list(output_size))
        function = _FUNCTIONS[True, self.dims]
        result: Tensor = function(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )
        return result

    def _output_padding(self, input: Tensor, size: list[int]) -> tuple[int, ...]:
        """What has to be added for the result to have a size."""
        dims, others = self.dims, input.dim() - self.dims
        if len(size) == others + dims:
            size = size[others:]
        if len(size) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or {others + dims}"
                f" elements (got {len(size)})"
            )
        least = []
        for d in range(dims):
            pad = self.padding[d]
            assert isinstance(pad, int)
            span = self.dilation[d] * (self.kernel_size[d] - 1) + 1
            least.append((input.shape[others + d] - 1) * self.stride[d] - 2 * pad + span)
        most = [number + step - 1 for number, step in zip(least, self.stride, strict=True)]
        if any(not low <= number <= high for number, low, high in zip(size, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {size}, but valid sizes range from {least} to {most} (for an input of"
                f" {list(input.shape[others:])})"
            )
        return tuple(number - low for number, low in zip(size, least, strict=True))


class ConvTranspose1d(_Transposed):
    """A transposed convolution over one dimension; as `ConvTranspose2d`."""

    dims = 1


class ConvTranspose2d(_Transposed):
    """A transposed convolution over two dimensions: what the gradient of `Conv2d` by its input is.

    Args:
        in_channels, out_channels: C and O.
        kernel_size, stride, padding, dilation: those of the convolution whose reverse this is.
        output_padding: added to the size of the result on one side.
        groups: into how many groups of channels input and result are split.
        bias: whether there is one.
        padding_mode: ``"zeros"``.
        device, dtype: of the parameters.

    Raises:
        ValueError: for channels that can't be split into the groups, or another mode; in a call for an
            ``output_size`` that can't be reached.

    Shapes: input ``(N, C, H, W)`` or ``(C, H, W)``; ``weight`` is ``(C, O / groups, kH, kW)``. A call takes an
    ``output_size`` too, for what the sizes leave open.
    """

    dims = 2


class ConvTranspose3d(_Transposed):
    """A transposed convolution over three dimensions; as `ConvTranspose2d`."""

    dims = 3
