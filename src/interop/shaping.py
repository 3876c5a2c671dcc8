"""NumPy's functions that arrange elements anew: shapes, axes, joining, splitting, repeating."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd import Tensor
from ..autograd import functions as F
from ..autograd.creation import zeros
from .convert import axis_of, met, owned, plain, promoted, tensor_of, tensors_of
from .dispatching import implements

__all__ = ["gathered"]


def gathered(function: Callable[..., Any], *sources: Any) -> Any:
    """The elements of several arrays, arranged as a function of NumPy arranges arrays of their numbers."""
    tensors = promoted(*sources)
    numbers, count = [], 0
    for tensor in tensors:
        numbers.append(np.arange(count, count + tensor._array.size).reshape(tensor.shape))
        count += tensor._array.size
    flat = F.cat([tensor.reshape(-1) for tensor in tensors]) if len(tensors) > 1 else tensors[0]
    return F.take(flat, owned(np.array(function(*numbers)), flat))


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape) if isinstance(shape, Sequence) else (int(shape),)


# -- shapes ----------------------------------------------------------------------------------------------------------


@implements(np.reshape)
def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    x = tensor_of(a)
    if order == "F" or (order == "A" and np.isfortran(x._array)):
        sizes = _shape(shape)
        turned = _turned(x).reshape(tuple(reversed(sizes)))
        return _turned(turned)
    found = x.reshape(_shape(shape))
    return found.clone() if copy else found


def _turned(x: Any) -> Any:
    return F.permute(x, tuple(reversed(range(x.ndim))))


@implements(np.ravel)
def _ravel(a: Any, order: str = "C") -> Any:
    x = tensor_of(a)
    return F.ravel(_turned(x) if order == "F" else x)


@implements(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    x = tensor_of(a)
    if axis is None:
        return x.squeeze()
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if any(x.shape[dim] != 1 for dim in axes):
        raise ValueError(f"np.squeeze: axis {axis} of shape {tuple(x.shape)} has a size other than one")
    return x.squeeze(axes)


@implements(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    x = tensor_of(a)
    return x.reshape(np.expand_dims(np.empty(x.shape, np.int8), axis).shape)


@implements(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Any:
    x = tensor_of(a)
    return _turned(x) if axes is None else F.permute(x, tuple(int(axis) for axis in axes))


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Any:
    return tensor_of(x).swapaxes(-1, -2)


@implements(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return F.transpose(tensor_of(a), axis1, axis2)


@implements(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return F.movedim(tensor_of(a), source, destination)


@implements(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    x = tensor_of(a)
    axis %= x.ndim
    start = start + x.ndim if start < 0 else start
    return F.movedim(x, axis, start - 1 if axis < start else start)


def _at_least(function: Any) -> Callable[..., Any]:
    def raised(*arys: Any) -> Any:
        found = [function(tensor_of(array)) for array in arys]
        return found[0] if len(found) == 1 else tuple(found)

    return raised


implements(np.atleast_1d)(_at_least(F.atleast_1d))
implements(np.atleast_2d)(_at_least(F.atleast_2d))
implements(np.atleast_3d)(_at_least(F.atleast_3d))


@implements(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    return F.broadcast_to(tensor_of(array), _shape(shape))


@implements(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    return tuple(F.broadcast_tensors(*tensors_of(args)))


@implements(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    grids = []
    for number, x in enumerate(tensors_of(xi)):
        place = 1 - number if indexing == "xy" and number < 2 <= len(xi) else number
        grids.append(x.reshape([-1 if dim == place else 1 for dim in range(len(xi))]))
    if sparse:
        return tuple(grids)
    shape = np.broadcast_shapes(*[tuple(grid.shape) for grid in grids])
    return tuple(F.broadcast_to(grid, shape) for grid in grids)


# -- joining and splitting -------------------------------------------------------------------------------------------


@implements(np.concatenate)
def _concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    tensors = met(*tensors_of(arrays))
    if axis is None:
        tensors, axis = [x.reshape(-1) for x in tensors], 0
    elif any(x.ndim == 0 for x in tensors):
        raise ValueError("np.concatenate: zero-dimensional arrays cannot be concatenated")
    joined = F.cat(tensors, axis)
    return joined if dtype is None else joined.to(np.dtype(dtype))


@implements(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    stacked = F.stack(met(*tensors_of(arrays)), axis)
    return stacked if dtype is None else stacked.to(np.dtype(dtype))


def _joins(function: Any) -> Callable[..., Any]:
    def join(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
        joined = function(met(*tensors_of(tup)))
        return joined if dtype is None else joined.to(np.dtype(dtype))

    return join


implements(np.hstack)(_joins(F.hstack))
implements(np.vstack)(_joins(F.vstack))
implements(np.dstack)(_joins(F.dstack))
implements(np.column_stack)(_joins(F.column_stack))


@implements(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return _concatenate([arr, values], axis=axis)


@implements(np.block)
def _block(arrays: Any) -> Any:
    leaves: list[Any] = []
    template = _numbered(arrays, leaves)

    def arrange(*parts: Any) -> Any:
        return np.block(_filled(template, parts))

    return gathered(arrange, *leaves)


def _numbered(part: Any, leaves: list[Any]) -> Any:
    """Nested lists with the number of each leaf in its place; the leaves are added to the list."""
    if isinstance(part, list):
        return [_numbered(inner, leaves) for inner in part]
    leaves.append(part)
    return len(leaves) - 1


def _filled(template: Any, parts: tuple[Any, ...]) -> Any:
    """What `_numbered` took apart, of other parts."""
    return [_filled(inner, parts) for inner in template] if isinstance(template, list) else parts[template]


def _split(function: Any) -> Callable[..., Any]:
    """The parts that NumPy's function makes, found by splitting the numbers along the axis."""

    def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        x = tensor_of(ary)
        edges, start = [], 0
        for part in function(np.arange(x.shape[axis]), plain(indices_or_sections)):
            edges.append((int(part[0]) if part.size else start, part.size))
            start = edges[-1][0] + part.size
        return [F.narrow(x, axis, first, size) for first, size in edges]

    return split


implements(np.split)(_split(np.split))
implements(np.array_split)(_split(np.array_split))


@implements(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    x = tensor_of(ary)
    return _split(np.split)(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Any:
    return _split(np.split)(ary, indices_or_sections, 0)


@implements(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Any:
    return _split(np.split)(ary, indices_or_sections, 2)


@implements(getattr(np, "unstack", None))  # NumPy 2.1
def _unstack(x: Any, /, *, axis: int = 0) -> Any:
    return F.unbind(tensor_of(x), axis)


# -- turning and repeating -------------------------------------------------------------------------------------------


@implements(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    x = tensor_of(m)
    return F.flip(x, tuple(range(x.ndim)) if axis is None else axis)


@implements(np.fliplr)
def _fliplr(m: Any) -> Any:
    return F.fliplr(tensor_of(m))


@implements(np.flipud)
def _flipud(m: Any) -> Any:
    return F.flipud(tensor_of(m))


@implements(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return F.rot90(tensor_of(m), k, tuple(axes))


@implements(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    x = tensor_of(a)
    if axis is not None and isinstance(axis, tuple | list) != isinstance(shift, tuple | list):
        count = len(axis) if isinstance(axis, tuple | list) else len(shift)
        shift = tuple(shift) if isinstance(shift, tuple | list) else (int(shift),) * count
        axis = tuple(axis) if isinstance(axis, tuple | list) else (axis,) * count
    if isinstance(shift, tuple | list):
        return F.roll(x, tuple(int(s) for s in shift), axis)
    return F.roll(x, int(shift), axis)


@implements(np.tile)
def _tile(A: Any, reps: Any) -> Any:  # NumPy's name
    return F.tile(tensor_of(A), _shape(reps))


@implements(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    counts = plain(repeats)
    x = tensor_of(a)
    if np.ndim(counts) == 0 or np.size(counts) == 1:
        return F.repeat_interleave(x, int(np.reshape(counts, ())), axis)
    return F.repeat_interleave(x, owned(np.array(counts, np.int64), x), axis)


@implements(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    tensor = tensor_of(x)
    sizes = _shape(window_shape)
    axes = range(tensor.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    for dim, size in zip(axes, sizes, strict=True):
        tensor = tensor.unfold(dim if dim >= 0 else dim + tensor_of(x).ndim, size, 1)
    return tensor


@implements(np.resize)
def _resize(a: Any, new_shape: Any) -> Any:
    x, shape = tensor_of(a), _shape(new_shape)
    if x._array.size == 0:
        return zeros(shape, dtype=x.dtype, device=x.device)
    return gathered(lambda numbers: np.resize(numbers, shape), x)


@implements(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = tensor_of(array)
    if mode in ("edge", "wrap") or (mode in ("reflect", "symmetric") and kwargs.get("reflect_type", "even") == "even"):
        return gathered(lambda numbers: np.pad(numbers, pad_width, mode), x)
    if mode == "empty":
        mode, kwargs = "constant", {}
    if mode != "constant":
        raise NotImplementedError(
            f"np.pad: mode {mode!r} is not supported for tensors; use 'constant', 'edge', 'reflect', 'symmetric',"
            " 'wrap' or 'empty', or pad tensor.detach().numpy()"
        )
    values = tensor_of(kwargs.get("constant_values", 0)).to(x.dtype)
    if values.ndim == 0:
        widths = np.broadcast_to(np.asarray(plain(pad_width)), (x.ndim, 2)) if not isinstance(pad_width, dict) else None
        if widths is not None and not values.requires_grad:
            return F.constant_pad_nd(x, [int(w) for pair in widths[::-1] for w in pair], values.item())
    return gathered(lambda numbers, fill: np.pad(numbers, pad_width, constant_values=fill), x, values)


# -- copies and others -----------------------------------------------------------------------------------------------


@implements(np.copy)
def _copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    return tensor_of(a).clone()


@implements(getattr(np, "astype", None))  # NumPy 2.1
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    tensor = tensor_of(x)
    found = tensor.to(np.dtype(dtype))
    return tensor.clone() if found is tensor and copy else found


@implements(np.delete)
def _delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    return gathered(lambda numbers: np.delete(numbers, plain(obj), axis), arr)


@implements(np.insert)
def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    x = tensor_of(arr)
    return gathered(
        lambda numbers, given: np.insert(numbers, plain(obj), given, axis), x, tensor_of(values).to(x.dtype)
    )


@implements(np.trim_zeros)
def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    x = tensor_of(filt)
    values = np.ones(x.shape) * (plain(x) != 0)
    kept = []
    for dim in range(x.ndim):
        other = tuple(d for d in range(x.ndim) if d != dim)
        used = np.flatnonzero(values.any(axis=other))
        chosen = axis is None or dim in (axis if isinstance(axis, tuple) else (axis,))
        size = x.shape[dim]
        first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (size, size)
        kept.append(
            slice(first if chosen and "f" in trim.lower() else 0, last if chosen and "b" in trim.lower() else size)
        )
    return x[tuple(kept)]


@implements(np.ix_)
def _ix(*args: Any) -> Any:
    return tuple(owned(part) for part in np.ix_(*plain(args)))


def size_of(a: Any, axis: Any = None) -> int:
    """How many elements there are, or along an axis or several."""
    shape = tensor_of(a).shape
    if axis is None:
        return math.prod(shape)
    return math.prod(shape[axis_of(part) or 0] for part in (axis if isinstance(axis, tuple) else (axis,)))


implements(np.size)(size_of)


@implements(np.shape)
def _shape_of(a: Any) -> tuple[int, ...]:
    return tuple(tensor_of(a).shape)


@implements(np.ndim)
def _ndim(a: Any) -> int:
    return int(tensor_of(a).ndim)


@implements(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return bool(tensor_of(x).dtype.kind == "c")


@implements(np.isrealobj)
def _isrealobj(x: Any) -> bool:
    return bool(tensor_of(x).dtype.kind != "c")


@implements(np.result_type)
def _result_type(*arrays_and_dtypes: Any) -> Any:
    from_tensors = [_empty_like(x) if isinstance(x, Tensor) else x for x in arrays_and_dtypes]
    return np.result_type(*from_tensors)


def _empty_like(x: Any) -> Any:
    return np.empty((1,) * x.ndim, x.dtype)


@implements(np.may_share_memory)
def _may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    return np.may_share_memory(plain(a), plain(b), max_work)


@implements(np.shares_memory)
def _shares_memory(a: Any, b: Any, /, max_work: Any = -1) -> bool:
    return np.shares_memory(plain(a), plain(b), max_work)
