"""Pooling: the largest element, mean or norm of windows."""

from __future__ import annotations

from typing import Any, ClassVar

from ...autograd.tensor import Tensor
from .. import functional as F
from .making import repeated
from .module import Module

# -- the largest element -----------------------------------------------------------------------------------------------


class _MaxPoolNd(Module):
    name: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        settings = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        return getattr(F, self.name)(input, *settings)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation},"
            f" ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window over one dimension; as `MaxPool2d`."""

    name = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window over two dimensions.

    Args:
        kernel_size, stride, padding, dilation: one number, or one for each dimension; the stride is the kernel's size
            by default.
        return_indices: whether to return the numbers of the elements in their planes too, for `MaxUnpool2d`.
        ceil_mode: whether there are windows that reach beyond the end.

    Keeps a byte a window, mostly.
    """

    name = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window over three dimensions; as `MaxPool2d`."""

    name = "max_pool3d"


class _MaxUnpoolNd(Module):
    dims: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.dims)
        self.stride = repeated(kernel_size if stride is None else stride, self.dims)
        self.padding = repeated(padding, self.dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        function: Any = getattr(F, f"max_unpool{self.dims}d")
        result: Tensor = function(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the results of `MaxPool1d` back where they were, among zeros."""

    dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the results of `MaxPool2d` back where they were, among zeros.

    Args:
        kernel_size, stride, padding: those of the pooling.

    A call takes the pooled tensor, the indices and, for what the sizes leave open, an ``output_size``.
    """

    dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the results of `MaxPool3d` back where they were, among zeros."""

    dims = 3


class _FractionalMaxPoolNd(Module):
    dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling ratio, and not both"
            )
        self.kernel_size = repeated(kernel_size, self.dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, self.dims)
        self.output_ratio = None if output_ratio is None else repeated(output_ratio, self.dims)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        function: Any = getattr(F, f"fractional_max_pool{self.dims}d")
        settings = self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        return function(input, *settings)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest element of windows at random distances over two dimensions.

    Args:
        kernel_size: of the windows.
        output_size: the numbers of windows; or
        output_ratio: those numbers as a part of the input's sizes.
        return_indices: whether to return the numbers of the elements in their planes too.

    Raises:
        ValueError: if neither or both of ``output_size`` and ``output_ratio`` are given, or a ratio is none.
    """

    dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest element of windows at random distances over three dimensions; as `FractionalMaxPool2d`."""

    dims = 3


class _AdaptiveMaxPoolNd(Module):
    name: ClassVar[str]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.name)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of a given number of windows over one dimension."""

    name = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of a given number of windows over two dimensions.

    Args:
        output_size: the numbers of windows, one for both dimensions or one for each; None keeps a size.
        return_indices: whether to return the numbers of the elements in their planes too.
    """

    name = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of a given number of windows over three dimensions."""

    name = "adaptive_max_pool3d"


# -- means and norms ---------------------------------------------------------------------------------------------------


class _AvgPoolNd(Module):
    name: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        settings = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        result: Tensor = getattr(F, self.name)(input, *settings, self.divisor_override)
        return result

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window over one dimension; as `AvgPool2d`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        step = kernel_size if stride is None else stride
        sizes = repeated(kernel_size, 1), repeated(step, 1), repeated(padding, 1)
        super().__init__(*sizes, ceil_mode, count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        settings = self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        result: Tensor = F.avg_pool1d(input, *settings)
        return result


class AvgPool2d(_AvgPoolNd):
    """The mean of each window over two dimensions.

    Args:
        kernel_size, stride, padding: one number, or one for each dimension; the stride is the kernel's size by default.
        ceil_mode: whether there are windows that reach beyond the end.
        count_include_pad: whether a mean is over the padding too.
        divisor_override: what sums are divided by instead of the number of elements.
    """

    name = "avg_pool2d"


class AvgPool3d(_AvgPoolNd):
    """The mean of each window over three dimensions; as `AvgPool2d`."""

    name = "avg_pool3d"


class _AdaptiveAvgPoolNd(Module):
    name: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = getattr(F, self.name)(input, self.output_size)
        return result

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of a given number of windows over one dimension."""

    name = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of a given number of windows over two dimensions.

    Args:
        output_size: the numbers of windows, one for both dimensions or one for each; None keeps a size.
    """

    name = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of a given number of windows over three dimensions."""

    name = "adaptive_avg_pool3d"


class _LPPoolNd(Module):
    name: ClassVar[str]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        function: Any = getattr(F, self.name)
        result: Tensor = function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return result

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride},"
            f" ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The norm of each window over one dimension."""

    name = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The norm of each window over two dimensions: ``sum(x ** norm_type) ** (1 / norm_type)``.

    Args:
        norm_type: the exponent.
        kernel_size, stride: one number, or one for each dimension; the stride is the kernel's size by default.
        ceil_mode: whether there are windows that reach beyond the end.
    """

    name = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The norm of each window over three dimensions."""

    name = "lp_pool3d"
