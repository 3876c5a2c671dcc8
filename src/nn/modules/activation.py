"""Activations whose curves are made of straight lines, and softmax in its forms."""

from __future__ import annotations

import warnings
from typing import Any

from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .making import new_parameter
from .module import Module


class InplaceModule(Module):
    """An activation that may write its result over its input.

    Args:
        inplace: whether it does.
    """

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def _said(self, settings: str = "") -> str:
        """The settings and, if so, that it works in place."""
        return ", ".join([text for text in (settings, "inplace=True" if self.inplace else "") if text])

    def extra_repr(self) -> str:
        return self._said()


class ReLU(InplaceModule):
    """``max(x, 0)``; keeps one bit an element for backward."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class Hardtanh(InplaceModule):
    """``x`` held between two numbers.

    Args:
        min_val, max_val: the numbers.
        inplace: whether the result is written over the input.

    Raises:
        AssertionError: unless ``max_val`` is above ``min_val``.
    """

    min_val: float
    max_val: float

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val = min_val
        self.max_val = max_val
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._said(f"min_val={self.min_val}, max_val={self.max_val}")


class ReLU6(Hardtanh):
    """``x`` held between 0 and 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return self._said()


class Threshold(InplaceModule):
    """``x`` where it is above a threshold, else a value.

    Args:
        threshold, value: the numbers.
        inplace: whether the result is written over the input.
    """

    threshold: float
    value: float

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._said(f"threshold={self.threshold}, value={self.value}")


class LeakyReLU(InplaceModule):
    """``x`` where it is positive, else ``negative_slope * x``."""

    negative_slope: float

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._said(f"negative_slope={self.negative_slope}")


class RReLU(InplaceModule):
    """`LeakyReLU` with a slope drawn for each element from ``[lower, upper)``; their mean outside of training."""

    lower: float
    upper: float

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._said(f"lower={self.lower}, upper={self.upper}")


class PReLU(Module):
    """`LeakyReLU` with slopes that are learned, one for all or one a channel.

    Args:
        num_parameters: 1, or the number of channels.
        init: what they begin with.
        device, dtype: of the parameter ``weight``.
    """

    num_parameters: int
    init: float
    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: DeviceLike | None = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = new_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to what they begin with."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Hardsigmoid(InplaceModule):
    """``x / 6 + 1 / 2`` held between 0 and 1."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(InplaceModule):
    """``x`` times `Hardsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardshrink(Module):
    """``x`` where it is further from 0 than ``lambd``, else 0."""

    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """``x`` brought nearer to 0 by ``lambd``, 0 where it is nearer than that."""

    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


# -- softmax -----------------------------------------------------------------------------------------------------------


class _OverDim(Module):
    """Something along a dimension.

    Args:
        dim: the dimension; without it 0 for tensors of 0, 1 and 3 dimensions, else 1, and a warning.
    """

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def _chosen(self, input: Tensor) -> int:
        if self.dim is not None:
            return self.dim
        warnings.warn(
            f"Implicit dimension choice for {type(self).__name__.lower()} has been deprecated. Change the call to"
            " include dim=X as an argument.",
            stacklevel=3,
        )
        return 0 if input.dim() in (0, 1, 3) else 1

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_OverDim):
    """``exp(x)`` divided by its sum along a dimension; keeps the result.

    Args:
        dim: the dimension.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self._chosen(input))


class LogSoftmax(_OverDim):
    """The logarithm of `Softmax`; keeps the result."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self._chosen(input))


class Softmin(_OverDim):
    """`Softmax` of ``-x``."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self._chosen(input))


class Softmax2d(Module):
    """`Softmax` over the channels of images, ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        ValueError: for an input of other dimensions.
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
