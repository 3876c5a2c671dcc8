"""The derivatives of writes that leave nothing of the former value, or only some of its elements."""

from __future__ import annotations

from typing import Any

from ..record import Do, Record
from .cast import to_device, to_dtype
from .shape import zeros_of
from .sum_to import reduced


class Overwrite(Record):
    """The whole tensor was filled with what has no gradient: its former value gets zeros.

    Args:
        name: PyTorch's name of the op, without the underscore.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(zeros_of, grads[0], tuple(grads[0].shape)),)


class CopyInto(Record):
    """The whole tensor was filled with another, which was broadcast, cast and moved to its device."""

    name = "copy"
    inputs = 2
    fresh = False

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        shape, dtype, device = node.op_attrs
        need_target, need_source = node.needs_grad
        former = do(zeros_of, grad, tuple(grad.shape)) if need_target else None
        if not need_source:
            return former, None
        given = reduced(do, grad, shape)
        if given.dtype != dtype:
            given = do(to_dtype, given, dtype)
        return former, given if device is node.run_device else do(to_device, given, device)
