"""Views by dimensions of size 1, diagonals, windows and strides, and the copies in which such a part is replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...saved_tensors.state import current
from ..dispatch import Op, apply
from ..plain import small_result
from ..record import Do, Spec, normalize_dim
from ..view_op import ViewOp, unrecorded, view_tensor
from .cast import to_dtype
from .shape import index, reshape


def strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Any:
    """A view of an array's memory with other sizes and strides (in bytes).

    Args:
        offset: how many elements behind (or before) the first one of ``x`` it begins.
    """
    make = np.lib.stride_tricks.as_strided if isinstance(x, np.ndarray) else _strided_cuda
    if offset:
        steps = (x.itemsize if offset > 0 else -x.itemsize,)
        x = make(x, (abs(offset) + 1,), steps)[abs(offset) :]
    return make(x, shape, strides)


def _strided_cuda(x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    import cupy

    return cupy.lib.stride_tricks.as_strided(x, shape, strides)


class Squeeze(ViewOp):
    """Dimensions of size 1 left out."""

    name = "squeeze"

    def view(self, x: Any, dims: tuple[int, ...]) -> Any:
        return x[(*[0 if dim in dims else slice(None) for dim in range(x.ndim)], ...)]

    def attrs(self, x: Any, dims: tuple[int, ...]) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(reshape, grads[0], node.op_attrs),)


class Unsqueeze(ViewOp):
    """A new dimension of size 1."""

    name = "unsqueeze"

    def view(self, x: Any, dim: int) -> Any:
        return x[(*[slice(None)] * dim, None, ...)]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(squeeze, grads[0], node.op_attrs),)


class Diagonal(ViewOp):
    """The diagonals of the matrices that two dimensions make, as a last dimension."""

    name = "diagonal"

    def view(self, x: Any, offset: int, dim1: int, dim2: int) -> Any:
        first, second = (normalize_dim("diagonal", dim, x.ndim) for dim in (dim1, dim2))
        if first == second:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        found = x.diagonal(offset, first, second)
        if isinstance(x, np.ndarray):
            found.flags.writeable = x.flags.writeable
        return found

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.shape, *args

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(diagonal_backward, grads[0], *node.op_attrs),)


class Unfold(ViewOp):
    """Windows of a dimension, each as a last dimension; they may overlap."""

    name = "unfold"

    def view(self, x: Any, dim: int, size: int, step: int) -> Any:
        dim = normalize_dim("unfold", dim, x.ndim)
        most = x.shape[dim] if x.ndim else 1
        if size < 0:
            raise RuntimeError(f"size is {size} but must be >= 0")
        if size > most:
            raise RuntimeError(f"maximum size for tensor at dimension {dim} is {most} but size is {size}")
        if step <= 0:
            raise RuntimeError(f"step is {step} but must be > 0")
        if not x.ndim:
            return x[None][:size]
        shape, strides = list(x.shape), list(x.strides)
        shape[dim], strides[dim] = (x.shape[dim] - size) // step + 1, x.strides[dim] * step
        return strided(x, (*shape, size), (*strides, x.strides[dim]))

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.shape, *args

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(unfold_backward, grads[0], *node.op_attrs),)


class _PutBack(Op):
    """Zeros of a shape with a gradient where a view looked."""

    fresh = False  # its own backward looks at a part of the gradient
    viewer: ViewOp

    def infer(self, grad: Any, shape: tuple[int, ...], *args: Any) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        grad, _, *args, out = args_and_outs
        k.fill(out, 0)
        k.copy(grad, self.viewer.view(out, *args))

    def attrs(self, grad: Any, shape: tuple[int, ...], *args: Any) -> Any:
        return args

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(self.viewer, grads[0], *node.op_attrs),)


class DiagonalBackward(_PutBack):
    """Zeros with a gradient on the diagonals."""

    name = "diagonal_backward"
    viewer = Diagonal()

    def small(self, grad: Any, shape: tuple[int, ...], *args: Any) -> Any:
        out = small_result((shape, grad.dtype))
        if out is not None:
            out.fill(0)
            self.viewer.view(out, *args)[...] = grad
        return out


class UnfoldBackward(_PutBack):
    """The sums of the gradients of windows over the elements that they share."""

    name = "unfold_backward"
    viewer = Unfold()

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        grad, _, *args, out = args_and_outs
        k.fill(out, 0)
        k.add_overlapping(grad, self.viewer.view(out, *args))


class ViewDtype(ViewOp):
    """The same bytes as numbers of another dtype; not differentiable."""

    name = "view_dtype"
    differentiable = False

    def __call__(self, x: Any, dtype: np.dtype[Any]) -> Any:
        array = self.view(x._array, dtype)
        recorded = current().grad_enabled and not x._requires_grad
        return view_tensor(x, array, self, (dtype,), None, None if recorded else unrecorded())

    def take(self, do: Do, x: Any, *args: Any) -> Any:
        raise RuntimeError("view: what is written through a view of another dtype has no gradient; use no_grad()")

    def view(self, x: Any, dtype: np.dtype[Any]) -> Any:
        try:
            return x.view(dtype)
        except (ValueError, TypeError) as error:
            raise RuntimeError(f"view: a tensor of {x.dtype} can't be viewed as {dtype}: {error}") from None


# -- copies in which a part is replaced --------------------------------------------------------------------------------


class ViewScatter(Op):
    """A copy of a tensor in which the part that a view looks at is replaced (by zeros, if None is given)."""

    inputs = 2
    fresh = False
    viewer: ViewOp

    def __call__(self, x: Any, src: Any, *args: Any) -> Any:
        if src is not None:
            part = self.viewer.view(x._array, *args)
            if part.shape != src._array.shape:
                raise RuntimeError(
                    f"{self.name}: expected src to have a size equal to the slice of self. src size ="
                    f" {list(src._array.shape)}, slice size = {list(part.shape)}"
                )
            src = src if src._array.dtype == x._array.dtype else to_dtype(src, x._array.dtype)
        return apply(self, x, src, *args)

    def infer(self, x: Any, src: Any, *args: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        x, src, *args, out = args_and_outs
        k.copy(x, out)
        part = self.viewer.view(out, *args)
        if src is None:
            k.fill(part, 0)
        else:
            k.copy(src, part)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        need_x, need_src = node.needs_grad
        by_x = do(self, grads[0], None, *node.op_attrs) if need_x else None
        return by_x, self.viewer.take(do, grads[0], *node.op_attrs) if need_src else None


class SliceScatter(ViewScatter):
    """A copy with a slice replaced."""

    name = "slice_scatter"
    viewer = index


class SelectScatter(ViewScatter):
    """A copy with the elements at one number replaced."""

    name = "select_scatter"
    viewer = index


class DiagonalScatter(ViewScatter):
    """A copy with diagonals replaced."""

    name = "diagonal_scatter"
    viewer = DiagonalBackward.viewer


squeeze = Squeeze()
unsqueeze = Unsqueeze()
diagonal, diagonal_backward = DiagonalBackward.viewer, DiagonalBackward()
unfold, unfold_backward = UnfoldBackward.viewer, UnfoldBackward()
view_dtype = ViewDtype()
slice_scatter, select_scatter, diagonal_scatter = SliceScatter(), SelectScatter(), DiagonalScatter()
