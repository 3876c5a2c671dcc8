"""The short way of choosing between elements by a condition, as `whole` has it for other ops on floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import CPU, Device, Storage, events
from ..dispatch import FLOAT32, FLOAT64, cpu_pool
from ..whole import WholeOp

BOOL = np.dtype(np.bool_)


class Choice(WholeOp):
    """An op on a condition and two operands whose kernel is ``where``."""

    def __call__(self, condition: Any, x: Any, y: Any) -> Any:
        out = self.whole(condition, x, y)
        return self.general(condition, x, y) if out is None else out

    def general(self, condition: Any, x: Any, y: Any) -> Any:
        """The op on whatever it is called with."""
        raise NotImplementedError(f"{self.name} does not say how it is called in general")

    def computed(self, category: str, a: Any, *others: Any) -> tuple[Any, Storage] | None:
        """The result where the condition ``a`` and the floats are of one shape; one of the two may be a number."""
        x, y = others
        given, other = (x, y) if type(x) is np.ndarray else (y, x)
        if type(given) is not np.ndarray or type(a) is not np.ndarray or events.observers:
            return None
        dtype, shape = given.dtype, given.shape
        if (dtype is not FLOAT32 and dtype is not FLOAT64) or a.dtype is not BOOL or a.shape != shape:
            return None
        if type(other) is np.ndarray:
            if other.dtype is not dtype or other.shape != shape:
                return None
        elif type(other) not in (int, float):
            return None
        result, storage = cpu_pool().lease_or_adopt(shape, dtype, category)
        backend("cpu").where(a, x, y, result)
        return result, storage

    def run_arrays(self, device: Device, *args: Any) -> Any:
        found = self.computed("temporary", *args) if device is CPU else None
        return super().run_arrays(device, *args) if found is None else found[0]
