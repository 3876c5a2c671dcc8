"""`sum_to` and `expand`: broadcasting and its reverse, each the derivative of the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ..dispatch import Op
from ..record import Do, Spec
from ..view_op import ViewOp


class SumTo(Op):
    """The sum over the dimensions along which a smaller shape was broadcast."""

    name = "sum_to"

    def small(self, x: Any, shape: tuple[int, ...]) -> Any:
        extra, out = x.ndim - len(shape), np.empty(shape, x.dtype)
        kept = x.shape[extra:]
        if kept == shape:
            np.add.reduce(x, axis=tuple(range(extra)), out=out)
        elif extra:
            backend("cpu").sum_to(x, out)
        else:
            axes = tuple([axis for axis, size in enumerate(shape) if size != kept[axis]])
            np.add.reduce(x, axis=axes, out=out, keepdims=True)
        return out

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
        full = shape
        if -1 in shape:
            if -1 in shape[:lead]:
                raise RuntimeError(f"expand: -1 is not allowed for a new leading dimension, got {list(shape)}")
            full = tuple([x.shape[d - lead] if size == -1 else size for d, size in enumerate(shape)])
        try:
            return _spread(x, full) if isinstance(x, np.ndarray) else _expand_cuda(x, full)
        except ValueError:
            raise RuntimeError(f"expand: a tensor of shape {list(x.shape)} can't be expanded to {list(full)}") from None

    def attrs(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (reduced(do, grads[0], node.op_attrs),)


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """`np.broadcast_to`, and as writable as ``x``.

    Raises:
        ValueError: if it can't be.
    """
    if x.flags.c_contiguous and x.dtype.kind == "f" and x.size:  # a third of the time that `np.broadcast_to` takes
        lead = len(shape) - x.ndim
        strides = [0] * lead
        for size, wanted, stride in zip(x.shape, shape[lead:], x.strides, strict=True):
            if size != wanted and size != 1:
                raise ValueError("sizes do not fit")
            strides.append(stride if size == wanted else 0)
        return np.ndarray(shape, x.dtype, x, 0, strides)
    view = np.broadcast_to(x, shape)
    view.flags.writeable = x.flags.writeable
    return view


def _expand_cuda(x: Any, shape: tuple[int, ...]) -> Any:
    import cupy

    return cupy.broadcast_to(x, shape)


def reduced(do: Do, grad: Any, shape: tuple[int, ...]) -> Any:
    """The gradient of an operand that was broadcast from ``shape``."""
    return grad if tuple(grad.shape) == shape else do(sum_to, grad, shape)


sum_to = SumTo()
expand = Expand()
