"""Padding of one, two or three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from ...autograd.tensor import Tensor
from .. import functional as F
from .making import repeated
from .module import Module


class _PadNd(Module):
    """A tensor with its last dimensions made longer at both ends.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims: ClassVar[int]
    mode: ClassVar[str] = "constant"

    padding: tuple[int, ...]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = F.pad(input, self.padding, self.mode)
        return result

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Padding with a number.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
        value: the number.
    """

    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = F.pad(input, self.padding, "constant", self.value)
        return result

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class _ReflectionPadNd(_PadNd):
    mode = "reflect"


class _ReplicationPadNd(_PadNd):
    mode = "replicate"


class ConstantPad1d(_ConstantPadNd):
    """Padding of the last dimension with a number.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
        value: the number.
    """

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Padding of the last two dimensions with a number.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
        value: the number.
    """

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Padding of the last three dimensions with a number.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
        value: the number.
    """

    dims = 3


class ZeroPad1d(_ZeroPadNd):
    """Padding of the last dimension with zeros.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 1


class ZeroPad2d(_ZeroPadNd):
    """Padding of the last two dimensions with zeros.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 2


class ZeroPad3d(_ZeroPadNd):
    """Padding of the last three dimensions with zeros.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 3


class CircularPad1d(_CircularPadNd):
    """Padding of the last dimension with the elements of the other end.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 1


class CircularPad2d(_CircularPadNd):
    """Padding of the last two dimensions with the elements of the other end.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Padding of the last three dimensions with the elements of the other end.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 3


class ReflectionPad1d(_ReflectionPadNd):
    """Padding of the last dimension with the elements mirrored at the first and the last one.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Padding of the last two dimensions with the elements mirrored at the first and the last one.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Padding of the last three dimensions with the elements mirrored at the first and the last one.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Padding of the last dimension with the first and the last element.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Padding of the last two dimensions with the first and the last element.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Padding of the last three dimensions with the first and the last element.

    Args:
        padding: how many elements come before and behind, of the last dimension first; a number for all ends.
    """

    dims = 3
