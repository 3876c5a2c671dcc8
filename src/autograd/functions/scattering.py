"""Copies with elements written, added or folded in by number, as functions; the in-place forms beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..indexing import put_at as _put_at
from ..ops import scatter as ops
from ..ops import shape as shape_ops
from ..ops.cast import clone as _clone
from ..ops.cast import to_dtype as _to_dtype
from ..ops.elementwise import div as _div
from ..ops.promotion import category as _category
from ..ops.sum_to import expand as _expand
from ..out import into
from ..put import put_ as _put_
from ..variable import Variable as _Variable
from .index import check_flat, checked_index, checked_rows, elements, lined

__all__ = [
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
]

# Calls an op's copying form or its in-place form: with the op, the tensor and the other arguments.
Form = Callable[..., Any]


def copied(op: Any, x: Any, *args: Any) -> Any:
    """The form that leaves its input alone."""
    found = op(lined(x), *args)
    return found if x._array.ndim else shape_ops.view(found, ())


def in_place(op: Any, x: Any, *args: Any) -> Any:
    """The form that writes into its input."""
    _put_(op, lined(x), *args)
    return x


# -- a number for each element -----------------------------------------------------------------------------------------


def scatter_by(form: Form, x: Any, dim: int, index: Any, src: Any, reduce: str | None = None) -> Any:
    """`scatter`, or its in-place form."""
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        dim = checked_index("scatter", x, dim, index, src)
        if not isinstance(src, _Variable):
            src = _expand(_number_like(x, src), index._array.shape)
        return reduce_by(form, x, dim, index, src, "sum" if reduce == "add" else "prod", True)
    dim = checked_index("scatter", x, dim, index, src)
    if isinstance(src, _Variable):
        _check_dtypes("scatter", x, src)
        src = lined(elements(src, index._array.shape)) if index._array.size else src
    if not index._array.size:
        return _untouched(form, x)
    return form(ops.scatter, x, lined(index), src, dim)


def _number_like(x: Any, number: Any) -> Any:
    """A number as a tensor without dimensions, of another's dtype and device."""
    return shape_ops.zeros_of(x, ()) + number


def _check_dtypes(name: str, x: Any, src: Any) -> None:
    if x._array.dtype != src._array.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {x._array.dtype} and {src._array.dtype}"
        )


def _untouched(form: Form, x: Any) -> Any:
    """The result where no number is given."""
    return _clone(x) if form is copied else x


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None, out: Any = None
) -> Any:
    """A copy with elements replaced by number: ``out[i, index[i, j]] = src[i, j]`` for dimension 1.

    Args:
        index: integers; it is what the node keeps. Where a number comes twice, one of the elements is taken, but the
            gradient of each is that of the place.
        src: a tensor at least as large as ``index``, or a number.
        value: a number, in place of ``src``.
        reduce: ``"add"`` or ``"multiply"`` to do that in place of replacing.
    """
    src = value if src is None else src
    if out is not None:
        return into(out, scatter, input, dim, index, src, reduce=reduce)
    return scatter_by(copied, input, dim, index, src, reduce)


def scatter_add_by(form: Form, x: Any, dim: int, index: Any, src: Any) -> Any:
    """`scatter_add`, or its in-place form."""
    dim = checked_index("scatter_add", x, dim, index, src)
    _check_dtypes("scatter_add", x, src)
    if not index._array.size:
        return _untouched(form, x)
    return form(ops.scatter_add, x, lined(index), lined(elements(src, index._array.shape)), dim)


def scatter_add(input: Any, dim: int, index: Any, src: Any, *, out: Any = None) -> Any:
    """A copy with elements added by number: ``out[i, index[i, j]] += src[i, j]`` for dimension 1.

    The node keeps the index alone. The order of the sums depends on nothing but the shapes.
    """
    if out is not None:
        return into(out, scatter_add, input, dim, index, src)
    return scatter_add_by(copied, input, dim, index, src)


def reduce_by(form: Form, x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """`scatter_reduce`, or its in-place form."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    dim = checked_index("scatter_reduce", x, dim, index, src)
    _check_dtypes("scatter_reduce", x, src)
    if not index._array.size:
        return _untouched(form, x)
    index, src = lined(index), lined(elements(src, index._array.shape))
    if reduce in ("sum", "mean"):
        return _sum_by(form, x, dim, index, src, reduce == "mean", include_self)
    return form(ops.scatter_reduce, x, index, src, dim, reduce, include_self)


def _sum_by(form: Form, x: Any, dim: int, index: Any, src: Any, mean: bool, include_self: bool) -> Any:
    if not include_self:
        x = form(ops.scatter, x, index, 0, dim)
    total = form(ops.scatter_add, x, index, src, dim)
    if not mean:
        return total
    counted = shape_ops.zeros_of(lined(x).detach(), lined(x)._array.shape)
    ones = shape_ops.zeros_of(src.detach(), src._array.shape) + 1
    counted = ops.scatter_add(counted + 1 if include_self else counted, index, ones, dim)
    counted = counted if include_self else counted.clamp(min=1)
    counted = counted if x._array.ndim else shape_ops.view(counted, ())
    whole = _category(total._array.dtype) < 2
    if form is in_place:
        return total.floor_divide_(counted) if whole else total.div_(counted)
    return total.floor_divide(counted) if whole else _div(total, counted)


def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True, out: Any = None
) -> Any:
    """A copy into which elements are folded by number.

    Args:
        index, src: as for `scatter_add`.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``; extremes that are equal share the gradient.
        include_self: whether the elements of ``input`` in those places take part.

    Sums and means keep the index, means the counts as well; the others keep ``input``, ``src`` and the result, too.
    """
    if out is not None:
        return into(out, scatter_reduce, input, dim, index, src, reduce, include_self=include_self)
    return reduce_by(copied, input, dim, index, src, reduce, include_self)


# -- a number for each row ---------------------------------------------------------------------------------------------


def _rows(name: str, x: Any, dim: int, index: Any, source: Any, error: type[Exception]) -> int:
    """The dimension, if a source has a row for each number and the tensor's other sizes."""
    dim = checked_rows(name, x, dim, index, error)
    if source._array.dtype != x._array.dtype:
        raise RuntimeError(
            f"{name}_(): self ({x._array.dtype}) and source ({source._array.dtype}) must have the same scalar type"
        )
    sizes, count = list(lined(source)._array.shape), lined(index)._array.shape[0]
    expected = list(lined(x)._array.shape)
    if not source._array.ndim and len(expected) == 1 and count == 1:
        return dim
    if len(sizes) != len(expected):
        raise error(f"{name}_(): source has {len(sizes)} dimensions, and self has {len(expected)}")
    if sizes[dim] != count:
        raise error(
            f"{name}_(): Number of indices ({count}) should be equal to source.size(dim): ({sizes[dim]}), for dim:"
            f" {dim}"
        )
    expected[dim] = count
    if sizes != expected:
        raise error(f"{name}_(): source has sizes {sizes}, expected {expected}")
    return dim


def index_add_by(form: Form, x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    """`index_add`, or its in-place form."""
    dim = _rows("index_add", x, dim, index, source, RuntimeError)
    return form(ops.index_add, x, lined(index), lined(source), dim, alpha)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1, out: Any = None) -> Any:
    """A copy with a multiple of a tensor's rows added by number: ``out[i, index[j]] += alpha * source[i, j]``.

    The node keeps the index alone.
    """
    if out is not None:
        return into(out, index_add, input, dim, index, source, alpha=alpha)
    return index_add_by(copied, input, dim, index, source, alpha)


def index_copy_by(form: Form, x: Any, dim: int, index: Any, source: Any) -> Any:
    """`index_copy`, or its in-place form."""
    dim = _rows("index_copy", x, dim, index, source, IndexError)
    return form(ops.index_copy, x, lined(index), lined(source), dim)


def index_copy(input: Any, dim: int, index: Any, source: Any, *, out: Any = None) -> Any:
    """A copy with rows replaced by number: ``out[i, index[j]] = source[i, j]``. The node keeps the index alone."""
    if out is not None:
        return into(out, index_copy, input, dim, index, source)
    return index_copy_by(copied, input, dim, index, source)


def index_fill_by(form: Form, x: Any, dim: int, index: Any, value: Any) -> Any:
    """`index_fill`, or its in-place form."""
    size = lined(x)._array.shape[dim]
    if index._array.ndim < 2 and index._array.size and index._storage.device.type != "meta" and size:
        least = int(index._array.min())
        if -size <= least < 0:
            index = index.remainder(size) if int(index._array.max()) < size else index
    if index._array.ndim > 1:
        raise RuntimeError("index_fill_(): Index has to be a vector/scalar")
    dim = checked_rows("index_fill", x, dim, index)
    if isinstance(value, _Variable):
        if value._array.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with"
                f" {value._array.ndim} dimension(s)."
            )
        if value._array.dtype != x._array.dtype:
            value = _to_dtype(value, x._array.dtype)
    return form(ops.index_fill, x, lined(index), value, dim)


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with rows filled, by number, with one number or a tensor without dimensions."""
    return index_fill_by(copied, input, dim, index, value)


def index_reduce_by(
    form: Form, x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    """`index_reduce`, or its in-place form."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    dim = _rows("index_reduce", x, dim, index, source, IndexError)
    source = lined(source)
    lead = [1] * source._array.ndim
    lead[dim] = -1
    numbers = shape_ops.reshape(lined(index), tuple(lead))
    return reduce_by(form, x, dim, _expand(numbers, source._array.shape), source, reduce, include_self)


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, out: Any = None
) -> Any:
    """A copy into which rows of a tensor are folded by number: `scatter_reduce` for whole rows, without sums."""
    if out is not None:
        return into(out, index_reduce, input, dim, index, source, reduce, include_self=include_self)
    return index_reduce_by(copied, input, dim, index, source, reduce, include_self)


# -- where a key looks -------------------------------------------------------------------------------------------------


def index_put_into(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """`index_put` in place; returns the tensor."""
    if not isinstance(indices, tuple | list):
        raise TypeError(f"index_put_(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    keys = tuple(slice(None) if part is None else part for part in indices)
    if not isinstance(values, _Variable):
        raise TypeError(f"index_put_(): argument 'values' must be Tensor, not {type(values).__name__}")
    if values._array.dtype != x._array.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got"
            f" {x._array.dtype} for the destination and {values._array.dtype} for the source."
        )
    _put_at(x, keys, values, accumulate)
    return x


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with ``copy[indices] = values``, or ``+=``, where a place that is named twice gets both values.

    Args:
        indices: a tuple of tensors of integers or bools, or None for whole dimensions.
        values: broadcast to what they select.
    """
    return index_put_into(_clone(input), indices, values, accumulate)


def put_into(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`put` in place; returns the tensor."""
    if index._array.dtype != "int64":
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index._array.dtype}")
    if source._array.dtype != x._array.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype ="
            f" {x._array.dtype} and source.dtype = {source._array.dtype}"
        )
    if source._array.size != index._array.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() ="
            f" {source._array.size}, index.numel() = {index._array.size}"
        )
    check_flat(index, x._array.size)
    values, count = shape_ops.reshape(source, (source._array.size,)), x._array.size
    if x._array.flags.c_contiguous:
        _put_at(shape_ops.view(x, (count,)), (shape_ops.reshape(index, (index._array.size,)),), values, accumulate)
        return x
    copy = shape_ops.reshape(x, (count,))  # no view: elements lie in memory in another order
    _put_at(copy, (shape_ops.reshape(index, (index._array.size,)),), values, accumulate)
    return x.copy_(shape_ops.view(copy, x._array.shape))


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with elements replaced (or added) by number as if the tensor were one row."""
    return put_into(_clone(input), index, source, accumulate)
