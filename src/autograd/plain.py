"""Ops on several plain tensors of the CPU: what `whole.apply_alone` is for one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import CPU, SMALL_BYTES, events
from ..saved_tensors.state import current
from . import dispatch
from .dispatch import FLOAT32, FLOAT64, apply, cpu_pool, record
from .record import Spec
from .variable import Variable

_ndarray = np.ndarray


def apply_plain(op: Any, tensors: tuple[Any, ...], *attrs: Any) -> Any:
    """`apply` of an op with one result on tensors (None among them): of few floats by its ``small``.

    What is not plain (other devices, observers, followers, autocast, inference mode) goes the general way.
    """
    state, source = current(), cpu_pool()
    if state.followers or state.inference or events.observers or dispatch.cast_arguments is not None:
        return apply(op, *tensors, *attrs)
    arrays: list[Any] = []
    needs: list[bool] = []
    for tensor in tensors:
        if isinstance(tensor, Variable):
            if tensor._storage.pool is not source:
                return apply(op, *tensors, *attrs)
            arrays.append(tensor._array)
            needs.append(tensor._requires_grad)
        elif tensor is None:
            arrays.append(None)
            needs.append(False)
        else:
            return apply(op, *tensors, *attrs)
    array = op.small(*arrays, *attrs) if op.small is not None and are_few(arrays) else None
    if array is not None:
        storage = source.adopt_small(array, "activation")
    elif op.has_workspace:
        ((array, storage),) = dispatch.execute(op, CPU, [*arrays, *attrs], "activation")
    else:
        ((shape, dtype),) = op.infer(*arrays, *attrs)
        array, storage = source.lease_or_adopt(shape, dtype, "activation")
        op.kernel(backend("cpu"), *arrays, *attrs, array)
    out = Variable._tensor_class._wrap(array, storage)
    if state.grad_enabled and True in needs:
        record(op, tuple(needs), tensors, [out], op.attrs(*arrays, *attrs), CPU)
    return out


def small_result(spec: Spec) -> Any:
    """An uninitialised array for what a ``small`` computes of several arrays; None if it is not that small itself."""
    shape, dtype = spec
    return np.empty(shape, dtype) if math.prod(shape) * dtype.itemsize < SMALL_BYTES else None


def are_few(arrays: list[Any]) -> bool:
    """Whether arrays (None among them, but not first) of one dtype of floats are computed by a ``small``."""
    dtype = arrays[0].dtype
    if dtype is not FLOAT32 and dtype is not FLOAT64:
        return False
    for array in arrays:
        if array is None:
            continue
        if type(array) is not _ndarray or array.dtype is not dtype or array.nbytes >= SMALL_BYTES:
            return False
        if not array.ndim or not array.size:
            return False
    return True
