"""The memory of a tensor through other sizes and strides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...memory import META
from ...saved_tensors.state import current
from ..dispatch import Op, record
from ..record import Do, Spec
from ..view_op import ViewOp, unrecorded, view_of, view_tensor
from .elementwise import add, div
from .shape import zeros_of
from .view import ViewScatter, strided


def _steps(x: Any) -> tuple[int, ...]:
    return tuple(step // x.itemsize for step in x.strides)


class AsStrided(ViewOp):
    """The memory of a tensor through other sizes and strides.

    Called with sizes, strides and the distance from the tensor's first element to that of the view, all in elements,
    and with the sizes and strides that the tensor has: what takes its place may lie in memory in another way.
    """

    name = "as_strided"

    def __call__(self, x: Any, *args: Any) -> Any:
        info = view_of(x)
        if info is None:
            return super().__call__(x, *args)
        # It may look at more of the base than ``x`` does: a write through it is one to the base, without a detour.
        base, (size, stride, offset, _, _) = info.base, args
        begin = offset + storage_offset(x) - storage_offset(base)
        of_base = (size, stride, begin, base._array.shape, _steps(base._array))
        recorded = current().grad_enabled
        origin = info.origin if recorded else info.origin or unrecorded()
        out = view_tensor(base, self.view(x._array, *args), self, of_base, of_base, origin)
        if recorded and x._requires_grad:
            record(self, (True,), (x,), [out], args, x._storage.pool.device)
        return out

    def view(
        self,
        x: Any,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Any:
        if isinstance(getattr(x, "base", None), bytearray):  # of the meta device
            return strided(x, size, (0,) * len(size))
        if any(size > 1 and step != given for size, step, given in zip(x.shape, _steps(x), strides, strict=True)):
            raise NotImplementedError("as_strided: the tensor's elements do not lie in memory as when it was viewed")
        return strided(x, size, tuple(step * x.itemsize for step in stride), offset)

    def take(self, do: Do, x: Any, *args: Any) -> Any:
        size, stride, offset, shape, strides = args
        return do(restride, x, (shape, strides, 0), (size, stride, offset))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        size, stride, offset, shape, strides = node.op_attrs
        grad = do(restride, grads[0], (size, stride, offset), (shape, strides, 0))
        if any(step == 0 and length > 1 for step, length in zip(strides, shape, strict=True)):
            ones = do(add, do(zeros_of, grads[0], shape), 1.0)
            grad = do(div, grad, do(restride, ones, (shape, strides, 0), (shape, strides, 0)))
        return (grad,)


class Restride(Op):
    """Elements added to zeroed memory through one view of it, and read through another.

    Called with both views, each as sizes, strides and the place of the first element. Its derivative is the way back.
    """

    name = "as_strided_backward"

    def infer(self, x: Any, source: Any, target: Any) -> tuple[Spec, ...]:
        return ((target[0], x.dtype),)

    def kernel(self, k: Any, x: Any, source: Any, target: Any, out: Any) -> None:
        k.restride(x, out, source=source, target=target)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        source, target = node.op_attrs
        return (do(restride, grads[0], target, source),)


def storage_offset(x: Any) -> int:
    """How many elements behind the begin of its storage a tensor begins."""
    array, root = x._array, x._storage()
    if x._storage.device is META or not array.size or root is None:
        return 0
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data - root.ctypes.data) // array.itemsize
    offset: int = (array.data.ptr - root.ptr) // array.itemsize
    return offset


def check_strides(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    """Raise unless sizes and strides make a view."""
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(size)}, {list(stride)}")
    if any(step < 0 for step in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(length < 0 for length in size):
        raise RuntimeError(f"as_strided: sizes must not be negative, got {list(size)}")


def check_reach(size: tuple[int, ...], stride: tuple[int, ...], first: int, available: int) -> None:
    """Raise if a view that begins at an element looks at one out of those that are available."""
    if first < 0:
        raise RuntimeError(f"as_strided: Tensor: invalid storage offset {first}")
    last = first + sum(step * (length - 1) for length, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= available:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {first} requiring a storage size"
            f" of {last + 1} elements are out of bounds for storage of size {available}"
        )


def strided_tensor(x: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Any:
    """The memory of a tensor through other sizes and strides: a view.

    Raises:
        RuntimeError: if it would reach out of the tensor's memory.
    """
    check_strides(size, stride)
    start = storage_offset(x)
    first = start if offset is None else offset
    check_reach(size, stride, first, x._storage.nbytes // x._array.itemsize)
    if not math.prod(size):
        first = start
    return as_strided(x, size, stride, first - start, x._array.shape, _steps(x._array))


as_strided, restride = AsStrided(), Restride()


class AsStridedScatter(ViewScatter):
    """A copy whose memory is replaced through other sizes and strides."""

    name = "as_strided_scatter"
    viewer = as_strided


as_strided_scatter = AsStridedScatter()


def strided_scatter(x: Any, src: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Any:
    """A copy of a tensor whose memory is replaced through other sizes and strides.

    Raises:
        RuntimeError: if they reach out of the tensor's elements.
        NotImplementedError: if these do not lie in C order.
    """
    check_strides(size, stride)
    if not x.is_contiguous() and x._storage.device is not META:
        raise NotImplementedError("as_strided_scatter: expected a contiguous tensor; call .contiguous() first")
    shape = x._array.shape
    first = 0 if offset is None else offset - storage_offset(x)
    check_reach(size, stride, first, x._array.size)
    dense = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
    return as_strided_scatter(x, src, size, stride, first, shape, dense)
