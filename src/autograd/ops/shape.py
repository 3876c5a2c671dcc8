"""Views of shape and index, and the copies that go with them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...kernels.index_range import all_in_range
from ...saved_tensors.state import current
from ..dispatch import Op, record
from ..placed import Placed
from ..plain import apply_plain, small_result
from ..record import Do, Slot, Spec, normalize_dim
from ..variable import Variable
from ..view_op import ViewOp, unrecorded, view_tensor
from ..whole import FewOp, apply_together
from .cast import clone, to_dtype
from .few_rows import or_none, rows_at, sums_of_rows
from .promotion import promote
from .sum_to import expand


class View(ViewOp):
    """The same elements in another shape, without a copy."""

    name = "view"

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        shape = full_shape("view", shape, x.size)
        found = _viewed(x, shape)
        if found is None:
            raise RuntimeError(
                f"view size {list(shape)} is not compatible with the input tensor's size {list(x.shape)} and stride:"
                " at least one dimension spans two of them; use .reshape(...) instead"
            )
        return found

    def take(self, do: Do, x: Any, *args: Any) -> Any:
        return do(reshape, x, *args)

    def attrs(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(reshape, grads[0], node.op_attrs),)


def _viewed(x: Any, shape: tuple[int, ...]) -> Any:
    """An array in another shape that holds as many elements; None where its strides don't allow a view."""
    try:
        if isinstance(x, np.ndarray):
            return x.reshape(shape, copy=False)
        found = x.view()
        found.shape = shape
    except (ValueError, AttributeError):  # NumPy's, and CuPy's
        return None
    return found


def full_shape(name: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """A shape with its -1 filled in.

    Raises:
        RuntimeError: if it does not hold ``size`` elements.
    """
    if math.prod(shape) == size and min(shape, default=0) >= 0:
        return shape
    known = math.prod(part for part in shape if part != -1)
    unknown = sum(part == -1 for part in shape)
    if unknown == 1 and known and size % known == 0:
        return tuple(size // known if part == -1 else part for part in shape)
    raise RuntimeError(f"{name}: shape '{list(shape)}' is invalid for input of size {size}")


class Reshape:
    """A view where strides allow it, a copy in C order where not."""

    inputs = 1
    small = None

    def __call__(self, x: Any, shape: tuple[int, ...]) -> Any:
        array = x._array
        shape = full_shape("reshape", shape, array.size)
        if array.flags.c_contiguous or _viewed(array, shape) is not None:
            return view(x, shape)
        copy = clone(x)  # nobody else has it: the result need not be known as a view of it
        out = copy._wrap(_viewed(copy._array, shape), copy._storage)
        if copy._requires_grad:
            record(view, (True,), (copy,), [out], copy._array.shape, copy._storage.device)
        return out

    def run_arrays(self, device: Any, x: Any, shape: tuple[int, ...]) -> Any:
        """The same on arrays."""
        shape = full_shape("reshape", shape, x.size)
        found = _viewed(x, shape)
        return _viewed(clone.run_arrays(device, x), shape) if found is None else found


class Permute(ViewOp):
    """The dimensions in another order."""

    name = "permute"

    def view(self, x: Any, dims: tuple[int, ...]) -> Any:
        try:
            return x.transpose(dims)
        except ValueError:
            for dim in dims:
                normalize_dim("permute", dim, x.ndim)
            raise RuntimeError(f"permute: {list(dims)} is no order of the {x.ndim} dimensions of the tensor") from None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (dims,) = node.op_attrs
        back = [0] * len(dims)
        for place, dim in enumerate(dims):
            back[dim] = place
        return (do(permute, grads[0], tuple(back)),)


class Transpose(ViewOp):
    """Two dimensions swapped."""

    name = "transpose"

    def view(self, x: Any, dim0: int, dim1: int) -> Any:
        return (
            x.swapaxes(normalize_dim("transpose", dim0, x.ndim), normalize_dim("transpose", dim1, x.ndim))
            if x.ndim
            else x
        )

    def run_arrays(self, device: Any, *args: Any) -> Any:
        x, dim0, dim1 = args
        return x.swapaxes(dim0, dim1) if x.ndim else x  # the dimensions are known to exist

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
        return found if isinstance(found, type(x)) else x[(*index, ...)]

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


class Gather(FewOp):
    """Advanced indexing by one integer or bool array along the first dimensions: a copy."""

    name = "index"
    inputs = 2
    saves = (Slot("indices", 1, needed_for=(0,)),)

    def __call__(self, *args: Any) -> Any:
        return apply_together(self, *args)

    def small_marked(self, x: Any, indices: Any) -> tuple[Any, ...] | None:
        return or_none(np.ascontiguousarray(x[indices]) if indices.dtype == bool else rows_at(x, indices, 0))

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


class GatherBackward(FewOp):
    """Zeros with gradients added where indices looked."""

    name = "index_backward"
    inputs = 2
    saves = (Slot("indices", 1, needed_for=(0,)),)

    def small_marked(self, grad: Any, indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
        if indices.dtype != bool:
            return or_none(sums_of_rows(grad, indices, shape))
        out = small_result((shape, grad.dtype))
        if out is not None:
            out.fill(0)
            out[indices] = grad
        return or_none(out)

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
            for part in _parts(sizes, dim)
        ]
        if recorded and x._requires_grad:
            record(self, (True,), (x,), outs, (array.shape, sizes, dim), x._storage.pool.device)
        return tuple(outs)

    def run_arrays(self, device: Any, *args: Any) -> Any:
        x, sizes, dim = args
        return tuple(x[part] for part in _parts(sizes, dim))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, sizes, dim = node.op_attrs
        present = [grad for grad in grads if grad is not None]
        parts = [part for part, grad in zip(_parts(sizes, dim), grads, strict=True) if grad is not None]
        return (do(_split_backward_of(len(present)), *present, shape, tuple(parts), len(present) == len(grads)),)


class SplitBackward(Op):
    """The gradients of some parts in one array, with zeros in the place of the others."""

    name = "split_backward"
    fresh = False  # its own backward looks at parts of the gradient

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inputs = count

    def small(self, *args: Any) -> Any:
        *grads, _, parts, covered = args
        whole = small_result(*self.infer(*args))
        if whole is None:
            return None
        if not covered:
            whole.fill(0)
        for grad, part in zip(grads, parts, strict=True):
            whole[part] = grad
        return whole

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


def _parts(sizes: tuple[int, ...], dim: int) -> list[tuple[slice, ...]]:
    """Indices of consecutive stretches of a dimension."""
    lead, end, parts = (slice(None),) * dim, 0, []
    for size in sizes:
        begin, end = end, end + size
        parts.append((*lead, slice(begin, end)))
    return parts


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
    return _split_into(len(sizes))(x, tuple(sizes), dim)


_split_into = functools.lru_cache(maxsize=64)(Split)
_split_backward_of = functools.lru_cache(maxsize=64)(SplitBackward)


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
    dtype = functools.reduce(promote, [tensor._array.dtype for tensor in tensors])
    # PyTorch's exception: an empty vector fits everywhere.
    tensors = tuple([tensor for tensor in tensors if tensor._array.shape != (0,)]) or tensors
    tensors = tuple([tensor if tensor._array.dtype == dtype else to_dtype(tensor, dtype) for tensor in tensors])
    return apply_plain(_cat_of(len(tensors)), tensors, dim)


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
        before, behind = first.shape[:dim], first.shape[dim + 1 :]
        for number, array in enumerate(arrays[1:], start=1):
            shape = array.shape
            if len(shape) != first.ndim or shape[:dim] != before or shape[dim + 1 :] != behind:
                raise RuntimeError(
                    f"cat: Sizes of tensors must match except in dimension {dim}. Expected {list(first.shape)} but got"
                    f" {list(array.shape)} for tensor number {number}"
                )
        total = sum([array.shape[dim] for array in arrays])
        return (((*before, total, *behind), first.dtype),)

    def small(self, *args: Any) -> Any:
        *arrays, dim = args
        out = small_result(*self.infer(*args))
        return None if out is None else np.concatenate(arrays, dim, out)

    def kernel(self, k: Any, *args: Any) -> None:
        *arrays, dim, out = args
        sizes = tuple([array.shape[dim] for array in arrays])
        for array, part in zip(arrays, _parts(sizes, dim % out.ndim), strict=True):
            k.copy(array, out[part])

    def attrs(self, *args: Any) -> Any:
        *arrays, dim = args
        return dim % arrays[0].ndim, tuple([array.shape[dim] for array in arrays])

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        dim, sizes = node.op_attrs
        pairs = zip(node.needs_grad, _parts(sizes, dim), strict=True)
        return tuple([do(index, grads[0], part) if needed else None for needed, part in pairs])


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
