"""Ops on bare arrays: what backward runs on where nothing is recorded.

`do_on` gives, for a device, the function ``do(op, *arrays, *attributes)`` that formulas call; `do_on_tensors` is its
twin under ``create_graph``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import CPU, SMALL_BYTES, Device, events
from .dispatch import cpu_pool
from .record import Do

known: dict[Device, Do] = {}
ndarray = np.ndarray
_ABSENT: Any = object()


def do_on(device: Device) -> Do:
    """The function that runs ops on arrays of a device."""
    found = known.get(device)
    if found is None:
        found = known[device] = _do_on_cpu if device is CPU else _make(device)
    return found


def _make(device: Device) -> Do:
    def do(op: Any, *args: Any) -> Any:
        return op.run_arrays(device, *args)

    return do


def _do_on_cpu(op: Any, x: Any, y: Any = _ABSENT, *others: Any) -> Any:
    small = op.small
    if small is None or type(x) is not ndarray or x.nbytes >= SMALL_BYTES or not x.ndim or events.observers:
        return op.run_arrays(CPU, *((x,) if y is _ABSENT else (x, y, *others)))
    if x.dtype.kind == "V":  # NumPy makes float32 of a bfloat16 and a Python number
        return op.run_arrays(CPU, *((x,) if y is _ABSENT else (x, y, *others)))
    if y is _ABSENT:
        result = small(x)
    elif type(y) is ndarray and (y.nbytes >= SMALL_BYTES or not y.ndim):
        return op.run_arrays(CPU, x, y, *others)
    elif others:
        if any(type(other) is ndarray and (other.nbytes >= SMALL_BYTES or not other.ndim) for other in others):
            return op.run_arrays(CPU, x, y, *others)
        result = small(x, y, *others)
    else:
        result = small(x, y)
    cpu_pool().adopt_small(result, "temporary")
    return result


def do_on_tensors(op: Any, *args: Any) -> Any:
    """Run an op on tensors, recorded."""
    return op(*args)


def overlaps_itself(array: Any) -> bool:
    """Whether elements of an array lie in the same place, as after `expand`."""
    pairs = zip(array.strides, array.shape, strict=True)
    return bool(array.size) and any(stride == 0 and size > 1 for stride, size in pairs)
