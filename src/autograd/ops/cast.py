"""Copies: of another dtype, of another layout, on another device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import META, Device, pool
from ...saved_tensors.state import current
from ..dispatch import Op, record
from ..record import Do, Spec
from ..variable import Variable
from ..whole import apply_alone
from .promotion import is_numeric


class ToDtype(Op):
    """A copy in another dtype; of complex numbers, a real dtype takes the real part."""

    name = "to_copy"

    def __call__(self, x: Any, dtype: np.dtype[Any]) -> Any:
        return apply_alone(self, x, dtype)

    def infer(self, x: Any, dtype: np.dtype[Any]) -> tuple[Spec, ...]:
        return ((x.shape, dtype),)

    def kernel(self, k: Any, x: Any, dtype: np.dtype[Any], out: Any) -> None:
        k.copy(x.real if x.dtype.kind == "c" and dtype.kind != "c" else x, out)

    def attrs(self, x: Any, dtype: np.dtype[Any]) -> Any:
        return x.dtype

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(to_dtype, grads[0], node.op_attrs),)


class Clone(Op):
    """A copy in C order."""

    name = "clone"
    fresh = False

    def __call__(self, x: Any) -> Any:
        return apply_alone(self, x)

    def small(self, x: Any) -> Any:
        return x.copy()

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.copy(x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (grads[0],)


def copy_between(source: Any, target: Any) -> None:
    """Fill ``target`` with ``source``, which may be on another device; both keep shape and dtype."""
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        backend("cpu").copy(source, target)
    else:
        backend("cuda").copy(source, target)


def copy_array_to(array: Any, device: Device, category: str) -> tuple[Any, Any]:
    """A copy of an array on a device, and its storage."""
    copy, storage = pool(device).lease(array.shape, array.dtype, category)
    if device is not META:
        copy_between(array, copy)
    return copy, storage


def constant(array: np.ndarray[Any, Any], device: Device) -> Any:
    """A tensor on a device with the values of a NumPy array.

    Raises:
        TypeError: for an array of anything but numbers or bools.
    """
    if not is_numeric(array.dtype):
        raise TypeError(f"expected numbers or bools, got an array of {array.dtype}")
    return Variable._tensor_class._wrap(*copy_array_to(array, device, "temporary"))


class ToDevice(Op):
    """A copy on another device; its gradient comes back to where the input was."""

    name = "to_device"

    def __call__(self, x: Any, device: Device) -> Any:
        array, storage = copy_array_to(x._array, device, "activation")
        out = Variable._tensor_class._wrap(array, storage)
        state = current()
        if state.inference:
            storage.mark_inference()
        elif x._requires_grad and state.grad_enabled:
            record(self, (True,), (x,), [out], x._storage.device, device)
        return out

    def run_arrays(self, device: Device, *args: Any) -> Any:
        array, target = args
        return copy_array_to(array, target, "temporary")[0]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(to_device, grads[0], node.op_attrs),)


to_dtype = ToDtype()
clone = Clone()
to_device = ToDevice()
