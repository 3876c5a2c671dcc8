"""Views of shape and index, and the copies that go with them."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ...kernels.index_range import all_in_range
from ...saved_tensors.state import current
from ..dispatch import Op, apply, record
from ..placed import Placed
from ..record import Do, Slot, Spec, normalize_dim
from ..variable import Variable
from ..view_op import ViewOp, unrecorded, view_tensor
from .cast import clone, to_dtype
from .promotion import promote
from .sum_to import expand


class View(ViewOp):
    """The same elements in another shape, without a copy."""

    name = "view"

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        shape = full_shape("view", shape, x.size)
        try:
            return x.reshape(shape, copy=False) if isinstance(x, np.ndarray) else _reshaped_in_place(x, shape)
        except ValueError:
            raise RuntimeError(
                f"view size {list(shape)} is not compatible with the input tensor's size {list(x.shape)} and stride:"
                " at least one dimension spans two of them; use .reshape(...) instead"
            ) from None

    def take(self, do: Do, x: Any, *args: Any) -> Any:
        return do(reshape, x, *args)

    def attrs(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(reshape, grads[0], node.op_attrs),)


def _reshaped_in_place(x: Any, shape: tuple[int, ...]) -> Any:
    view = x.view()
    try:
        view.shape = shape
    except AttributeError as error:
        raise ValueError(str(error)) from None  # what NumPy raises
    return view


def full_shape(name: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """A shape with its -1 filled in.

    Raises:
        RuntimeError: if it does not hold ``size`` elements.
    """
    known = math.prod(part for part in shape if part != -1)
    unknown = sum(part == -1 for part in shape)
    if unknown == 1 and known and size % known == 0:
        return tuple(size // known if part == -1 else part for part in shape)
    if unknown or known != size or any(part < 0 for part in shape):
        raise RuntimeError(f"{name}: shape '{list(shape)}' is invalid for input of size {size}")
    return shape


class Reshape:
    """A view where strides allow it, a copy in C order where not."""

    inputs = 1
    small = None

    def __call__(self, x: Any, shape: tuple[int, ...]) -> Any:
        try:
            return view(x, full_shape("reshape", shape, x._array.size))
        except RuntimeError:
            full_shape("reshape", shape, x._array.size)
            copied = view(clone(x), shape)
            copied._metadata().view = None  # nobody else has the copy: it need not be known as a view of it
            return copied

    def run_arrays(self, device: Any, x: Any, shape: tuple[int, ...]) -> Any:
        """The same on arrays."""
        try:
            return view.view(x, shape)
        except RuntimeError:
            return view.view(clone.run_arrays(device, x), shape)


class Permute(ViewOp):
    """The dimensions in another order."""

    name = "permute"

    def view(self, x: Any, dims: tuple[int, ...]) -> Any:
        order = tuple(normalize_dim("permute", dim, x.ndim) for dim in dims)
        if sorted(order) != list(range(x.ndim)):
            raise RuntimeError(f"permute: {list(dims)} is no order of the {x.ndim} dimensions of the tensor")
        return x.transpose(order)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        order = [dim % max(len(node.op_attrs[0]), 1) for dim in node.op_attrs[0]]
        return (do(permute, grads[0], tuple(int(dim) for dim in np.argsort(order))),)


class Transpose(ViewOp):
    """Two dimensions swapped."""

    name = "transpose"

    def view(self, x: Any, dim0: int, dim1: int) -> Any:
        return (
            x.swapaxes(normalize_dim("transpose", dim0, x.ndim), normalize_dim("transpose", dim1, x.ndim))
            if x.ndim
            else x
        )

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(transpose, grads[0], *node.op_attrs),)


class Index(ViewOp):
    """Basic indexing: integers, slices, ``...`` and None."""

    name = "slice"
    fresh = True
    scatters = True

    def view(self, x: Any, index: Any) -> Any:
        try:
            found = x[index]
        except IndexError as error:
            raise IndexError(f"index {_index_text(index)} for a tensor of shape {list(x.shape)}: {error}") from None
        # An integer for every dimension gives NumPy's scalar: `...` keeps it a view.
        return (
            found if hasattr(found, "base") and found.shape is not None and not np.isscalar(found) else x[(*index, ...)]
        )

    def attrs(self, x: Any, index: Any) -> Any:
        return index, x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        where, shape = node.op_attrs
        return (Placed(grads[0], shape, ((where, ()),)),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(index_backward, grads[0], *node.op_attrs),)


class IndexBackward(Op):
    """Zeros with a gradient written where an index looked."""

    name = "slice_backward"
    fresh = False  # its own backward looks at a part of the gradient

    def infer(self, grad: Any, index: Any, shape: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, index: Any, shape: tuple[int, ...], out: Any) -> None:
        k.fill(out, 0)
        k.copy(grad, out[(*index, ...)] if Ellipsis not in index else out[index])

    def attrs(self, grad: Any, index: Any, shape: tuple[int, ...]) -> Any:
        return index

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(index, grads[0], node.op_attrs),)


def _index_text(index: Any) -> str:
    return ", ".join(str(part) for part in index)


class Gather(Op):
    """Advanced indexing by one integer or bool array along the first dimensions: a copy."""

    name = "index"
    inputs = 2
    saves = (Slot("indices", 1, needed_for=(0,)),)

    def infer(self, x: Any, indices: Any) -> tuple[Spec, ...]:
        if indices.dtype == bool:
            if x.shape[: indices.ndim] != indices.shape:
                raise IndexError(
                    f"the shape of the mask {list(indices.shape)} does not match the shape {list(x.shape)} of the"
                    " indexed tensor in its first dimensions"
                )
            return (((int(np.count_nonzero(indices)), *x.shape[indices.ndim :]), x.dtype),)
        if indices.dtype.kind not in "iu":
            raise IndexError(f"tensors used as indices must be integer or bool tensors, got {indices.dtype}")
        size = x.shape[0] if x.ndim else 0
        outside = not all_in_range(indices, size)
        if outside and (int(indices.min()) < -size or int(indices.max()) >= size):
            raise IndexError(f"index out of range for dimension 0 with size {size}")
        return (((*indices.shape, *x.shape[1:]), x.dtype),)

    def kernel(self, k: Any, x: Any, indices: Any, out: Any) -> None:
        k.gather(x, indices, out)

    def attrs(self, x: Any, indices: Any) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(gather_backward, grads[0], saved[0], node.op_attrs), None


class GatherBackward(Op):
    """Zeros with gradients added where indices looked."""

    name = "index_backward"
    inputs = 2
    saves = (Slot("indices", 1, needed_for=(0,)),)

    def infer(self, grad: Any, indices: Any, shape: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, indices: Any, shape: tuple[int, ...], out: Any) -> None:
        k.gather_backward(grad, indices, out)

    def attrs(self, grad: Any, indices: Any, shape: tuple[int, ...]) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(gather, grads[0], saved[0]), None


class Split(Op):
    """Views of consecutive stretches of a dimension; their gradients are written into one buffer."""

    name = "split"
    fresh = True

    def __init__(self, count: int) -> None:
        super().__init__()
        self.outputs = count

    def __call__(self, x: Any, sizes: tuple[int, ...], dim: int) -> Any:
        recorded = current().grad_enabled
        array = x._array
        outs = [
            # Made again after a write, a part is a slice by itself.
            view_tensor(x, array[part], index, (part,), index.attrs(array, part), "multi" if recorded else unrecorded())
            for part in _parts(array.ndim, sizes, dim)
        ]
        if recorded and x._requires_grad:
            record(self, (True,), (x,), outs, (array.shape, sizes, dim), x._storage.pool.device)
        return tuple(outs)

    def run_arrays(self, device: Any, *args: Any) -> Any:
        x, sizes, dim = args
        return tuple(x[part] for part in _parts(x.ndim, sizes, dim))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, sizes, dim = node.op_attrs
        present = [grad for grad in grads if grad is not None]
        parts = [part for part, grad in zip(_parts(len(shape), sizes, dim), grads, strict=True) if grad is not None]
        return (do(SplitBackward(len(present)), *present, shape, tuple(parts), len(present) == len(grads)),)


class SplitBackward(Op):
    """The gradients of some parts in one array, with zeros in the place of the others."""

    name = "split_backward"
    fresh = False  # its own backward looks at parts of the gradient

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inputs = count

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        *grads, shape, _, _ = args
        return ((shape, grads[0].dtype),)

    def kernel(self, k: Any, *args: Any) -> None:
        *grads, _, parts, covered, out = args
        if not covered:
            k.fill(out, 0)
        for grad, part in zip(grads, parts, strict=True):
            k.copy(grad, out[part])

    def attrs(self, *args: Any) -> Any:
        return args[-2]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        pairs = zip(node.needs_grad, node.op_attrs, strict=True)
        return tuple([do(index, grads[0], part) if needed else None for needed, part in pairs])


def _parts(ndim: int, sizes: tuple[int, ...], dim: int) -> list[tuple[slice, ...]]:
    ends = itertools.accumulate(sizes)
    return [_along(dim, ndim, end - size, end) for size, end in zip(sizes, ends, strict=True)]


class ZerosOf(Op):
    """Zeros of another shape, of the dtype and on the device of a tensor."""

    name = "zeros_of"
    differentiable = False

    def infer(self, x: Any, shape: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((shape, x.dtype),)

    def kernel(self, k: Any, x: Any, shape: tuple[int, ...], out: Any) -> None:
        k.fill(out, 0)


def split(x: Any, sizes: list[int] | tuple[int, ...], dim: int) -> Any:
    """Views of stretches of the given sizes of a dimension."""
    return Split(len(sizes))(x, tuple(sizes), dim)


def unbind(x: Any, dim: int) -> Any:
    """Views of the elements along a dimension."""
    views = tuple(index(x, (*[slice(None)] * dim, number)) for number in range(x._array.shape[dim]))
    for view in views:
        info = view._meta.view
        if info.origin is None:
            info.origin = "multi"
    return views


def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors one after another along a dimension.

    Raises:
        ValueError: if there are none.
        TypeError: if one of them is no tensor.
        RuntimeError: if one has no dimension, or their shapes differ in another dimension.
    """
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("cat: expected a non-empty list of Tensors")
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Variable):
            raise TypeError(f"cat: expected a Tensor as element {number}, got {type(tensor).__name__}")
        if not tensor._array.ndim:
            raise RuntimeError(f"cat: zero-dimensional tensor (at position {number}) cannot be concatenated; use stack")
    dtype = functools.reduce(promote, (tensor._array.dtype for tensor in tensors))
    # PyTorch's exception: an empty vector fits everywhere.
    tensors = tuple(tensor for tensor in tensors if tensor._array.shape != (0,)) or tensors
    tensors = tuple(tensor if tensor._array.dtype == dtype else to_dtype(tensor, dtype) for tensor in tensors)
    return apply(_cat_of(len(tensors)), *tensors, dim)


@functools.lru_cache(maxsize=64)
def _cat_of(count: int) -> Cat:
    return Cat(count)


class Cat(Op):
    """A number of tensors of one dtype, one after another along a dimension."""

    name = "cat"
    fresh = False

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inputs = count

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        *arrays, dim = args
        first = arrays[0]
        dim = normalize_dim("cat", dim, first.ndim)
        for number, array in enumerate(arrays[1:], start=1):
            same = array.ndim == first.ndim and all(
                a == b for d, (a, b) in enumerate(zip(array.shape, first.shape, strict=True)) if d != dim
            )
            if not same:
                raise RuntimeError(
                    f"cat: Sizes of tensors must match except in dimension {dim}. Expected {list(first.shape)} but got"
                    f" {list(array.shape)} for tensor number {number}"
                )
        total = sum(array.shape[dim] for array in arrays)
        return (((*first.shape[:dim], total, *first.shape[dim + 1 :]), first.dtype),)

    def kernel(self, k: Any, *args: Any) -> None:
        *arrays, dim, out = args
        begin = 0
        for array in arrays:
            end = begin + array.shape[dim]
            k.copy(array, out[_along(dim % out.ndim, out.ndim, begin, end)])
            begin = end

    def attrs(self, *args: Any) -> Any:
        *arrays, dim = args
        return dim % arrays[0].ndim, tuple(array.shape[dim] for array in arrays)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        dim, parts = node.op_attrs
        (grad,) = grads
        begin = 0
        result = []
        for needed, size in zip(node.needs_grad, parts, strict=True):
            part = _along(dim, len(grad.shape), begin, begin + size)
            result.append(do(index, grad, part) if needed else None)
            begin += size
        return tuple(result)


def _along(dim: int, ndim: int, begin: int, end: int) -> tuple[slice, ...]:
    return tuple(slice(begin, end) if d == dim else slice(None) for d in range(ndim))


view = View()
reshape = Reshape()
permute = Permute()
transpose = Transpose()
index = Index()
index_backward = IndexBackward()
gather = Gather()
gather_backward = GatherBackward()
zeros_of = ZerosOf()

__all__ = ["cat", "expand", "gather", "index", "permute", "reshape", "transpose", "unbind", "view"]
