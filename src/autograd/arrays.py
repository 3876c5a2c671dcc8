"""Ops on bare arrays: what backward runs on where nothing is recorded.

`do_on` gives, for a device, the function ``do(op, *arrays, *attributes)`` that formulas call; `do_on_tensors` is its
twin under ``create_graph``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import CPU, Device, events
from .dispatch import SMALL_BYTES, cpu_pool
from .record import Do

known: dict[Device, Do] = {}


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


def _do_on_cpu(op: Any, x: Any, *others: Any) -> Any:
    small = op.small
    if small is None or type(x) is not np.ndarray or x.nbytes >= SMALL_BYTES or not x.ndim or events.observers:
        return op.run_arrays(CPU, x, *others)
    for other in others:
        if type(other) is np.ndarray and (other.nbytes >= SMALL_BYTES or not other.ndim):
            return op.run_arrays(CPU, x, *others)
    result = small(x, *others)
    cpu_pool().adopt(result, "temporary")
    return result


def do_on_tensors(op: Any, *args: Any) -> Any:
    """Run an op on tensors, recorded."""
    return op(*args)


def overlaps_itself(array: Any) -> bool:
    """Whether elements of an array lie in the same place, as after `expand`."""
    return any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True))
