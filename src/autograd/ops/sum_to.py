"""`sum_to` and `expand`: broadcasting and its reverse, each the derivative of the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Spec
from ..view_op import ViewOp


class SumTo(Op):
    """The sum over the dimensions along which a smaller shape was broadcast."""

    name = "sum_to"

    def infer(self, x: Any, shape: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((shape, x.dtype),)

    def kernel(self, k: Any, x: Any, shape: tuple[int, ...], out: Any) -> None:
        k.sum_to(x, out)

    def attrs(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.shape

    fresh = False

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(expand, grads[0], node.op_attrs),)


class Expand(ViewOp):
    """A view in which dimensions of size 1 are repeated; -1 keeps a size."""

    name = "expand"

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        lead = len(shape) - x.ndim
        if lead < 0:
            raise RuntimeError(
                f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the number of"
                f" dimensions in the tensor ({x.ndim})"
            )
        if any(size == -1 for size in shape[:lead]):
            raise RuntimeError(f"expand: -1 is not allowed for a new leading dimension, got {list(shape)}")
        full = tuple(x.shape[d - lead] if size == -1 else size for d, size in enumerate(shape))
        try:
            view = np.broadcast_to(x, full) if isinstance(x, np.ndarray) else _expand_cuda(x, full)
        except ValueError:
            raise RuntimeError(f"expand: a tensor of shape {list(x.shape)} can't be expanded to {list(full)}") from None
        if isinstance(view, np.ndarray):
            view.flags.writeable = x.flags.writeable
        return view

    def attrs(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (reduced(do, grads[0], node.op_attrs),)


def _expand_cuda(x: Any, shape: tuple[int, ...]) -> Any:
    import cupy

    return cupy.broadcast_to(x, shape)


def reduced(do: Do, grad: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of an operand that was broadcast from ``shape``."""
    return grad if tuple(grad.shape) == shape else do(sum_to, grad, shape)


sum_to = SumTo()
expand = Expand()
