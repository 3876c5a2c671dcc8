"""A tensor in another dtype, on the CPU, or as a Python number: methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import CPU
from .ops.promotion import bfloat16


class ConversionMethods:
    """Short names for `Tensor.to`, and conversion to Python's numbers."""

    __slots__ = ()

    _array: Any
    to: Any
    item: Any

    def cpu(self) -> Any:
        """The tensor on the CPU."""
        return self.to(CPU)

    def float(self) -> Any:
        """The tensor in float32."""
        return self.to(np.dtype(np.float32))

    def double(self) -> Any:
        """The tensor in float64."""
        return self.to(np.dtype(np.float64))

    def long(self) -> Any:
        """The tensor in int64."""
        return self.to(np.dtype(np.int64))

    def bool(self) -> Any:
        """The tensor as bool."""
        return self.to(np.dtype(np.bool_))

    def bfloat16(self) -> Any:
        """The tensor in bfloat16."""
        return self.to(bfloat16)

    def __bool__(self) -> Any:
        if self._array.size != 1:
            raise RuntimeError(f"Boolean value of Tensor with {self._array.size} values is ambiguous")
        return bool(self.item())

    def __float__(self) -> Any:
        return float(self._only_element())

    def __int__(self) -> int:
        return int(self._only_element())

    def _only_element(self) -> Any:
        if self._array.size != 1:  # Python's conversions raise ValueError, `item` RuntimeError: PyTorch's types
            raise ValueError(
                f"only one element tensors can be converted to Python scalars; this one has {self._array.size}"
            )
        return self.item()

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iu" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self._array.ndim == 0 else object.__format__(self, spec)
