"""The in-place forms of ops that change some elements of their first input."""

from __future__ import annotations

from typing import Any

from ..kernels import backend
from ..memory import META, pool
from .dispatch import common_device
from .inplace import check_writable, write
from .variable import Variable


def put_(op: Any, target: Any, *args: Any) -> Any:
    """``target = op(target, *args)``: only the elements that change are written.

    Args:
        op: a `stowgrad.autograd.ops.scatter.Put`.
    """
    name = f"{op.name}_"
    operands, attrs = (target, *args[: op.inputs - 1]), args[op.inputs - 1 :]
    check_writable(name, target, *operands[1:])
    device = common_device(name, operands)
    arrays = [getattr(value, "_array", value) for value in operands[1:]]
    op.infer(target._array, *arrays, *attrs)

    def fill(_: Any) -> list[Any]:
        if device is not META:
            k = backend(device.type)
            given = []
            for value, array in zip(operands[1:], arrays, strict=True):
                if isinstance(value, Variable) and value._storage is target._storage:
                    copied, _ = pool(device).lease(array.shape, array.dtype, "temporary")
                    k.copy(array, copied)
                    array = copied
                given.append(array)
            op.put(k, target._array, *given, *attrs)
        return []

    return write(op, operands, 0, lambda: op.attrs(target._array, *arrays, *attrs), fill)
