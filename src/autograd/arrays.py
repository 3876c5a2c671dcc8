"""Ops on bare arrays: what backward runs on where nothing is recorded.

`do_on` gives, for a device, the function ``do(op, *arrays, *attributes)`` that formulas call; `do_on_tensors` is its
twin under ``create_graph``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import CPU, SMALL_BYTES, Device, events
from .dispatch import FLOAT32, FLOAT64, cpu_pool
from .record import Do

known: dict[Device, Do] = {}
ndarray = np.ndarray
_ABSENT: Any = object()


def do_on(device: Device) -> Do:
    """The function that runs ops on arrays of a device."""
    found = known.get(device)
    if found is None:
        found = known[device] = _make_for_the_cpu() if device is CPU else _make(device)
    return found


def _make(device: Device) -> Do:
    def do(op: Any, *args: Any) -> Any:
        return op.run_arrays(device, *args)

    return do


def _make_for_the_cpu() -> Do:
    adopt = cpu_pool().adopt_small

    def do(op: Any, x: Any, y: Any = _ABSENT, *others: Any) -> Any:
        small = op.small
        if small is not None and type(x) is ndarray and not events.observers:
            dtype = x.dtype
            # Of the narrow floats NumPy would make float32, where a Python number is the other operand.
            if (dtype is FLOAT32 or dtype is FLOAT64) and x.nbytes < SMALL_BYTES and x.ndim:
                if y is _ABSENT:
                    result = small(x)
                    adopt(result, "temporary")
                    return result
                # A number or an attribute; none of NumPy's own numbers: float32 times its float64 would be float64.
                if (y.nbytes < SMALL_BYTES and y.ndim if type(y) is ndarray else type(y) in _ATTRIBUTES) and (
                    not others or _all_small(others)
                ):
                    result = small(x, y, *others) if others else small(x, y)
                    if result is not None:  # else it is not small itself
                        adopt(result, "temporary")
                        return result
        return op.run_arrays(CPU, *((x,) if y is _ABSENT else (x, y, *others)))

    return do


_ATTRIBUTES = (float, int, tuple)


def _all_small(values: tuple[Any, ...]) -> bool:
    return not any(type(value) is ndarray and (value.nbytes >= SMALL_BYTES or not value.ndim) for value in values)


def do_on_tensors(op: Any, *args: Any) -> Any:
    """Run an op on tensors, recorded."""
    return op(*args)


def overlaps_itself(array: Any) -> bool:
    """Whether elements of an array lie in the same place, as after `expand`."""
    pairs = zip(array.strides, array.shape, strict=True)
    return bool(array.size) and any(stride == 0 and size > 1 for stride, size in pairs)
