"""Views of another shape, as functions: ``stowgrad.reshape(x, (2, 3))``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops import shape as ops
from ..ops import view as view_ops
from ..ops.cast import clone as _clone
from ..ops.complex import conj as _conj
from ..ops.sum_to import expand as _expand
from ..record import broadcast_shapes as _broadcast_shapes
from ..record import normalize_dim

__all__ = [
    "adjoint",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "clone",
    "flatten",
    "moveaxis",
    "movedim",
    "permute",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unflatten",
    "unsqueeze",
]


def clone(input: Any) -> Any:
    """A copy; gradients flow through it."""
    return _clone(input)


def reshape(input: Any, shape: Sequence[int]) -> Any:
    """The same elements in another shape: a view where strides allow it, a copy where not; one size may be -1."""
    return ops.reshape(input, tuple(shape))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from one to another as one."""
    sizes = input._array.shape
    if not sizes:
        return ops.reshape(input, (1,))
    start = normalize_dim("flatten", start_dim, len(sizes))
    end = normalize_dim("flatten", end_dim, len(sizes))
    if start == end:
        return input
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return ops.reshape(input, (*sizes[:start], math.prod(sizes[start : end + 1]), *sizes[end + 1 :]))


def ravel(input: Any) -> Any:
    """All elements in one dimension: a view where strides allow it, a copy where not."""
    return ops.reshape(input, (-1,)) if input._array.size else ops.reshape(input, (0,))


def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """A dimension as several, one size of which may be -1: a view.

    >>> import stowgrad
    >>> stowgrad.zeros(2, 6).unflatten(1, (3, -1)).shape
    (2, 3, 2)
    """
    shape = input._array.shape
    dim = normalize_dim("unflatten", dim, len(shape))
    if not len(sizes):
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = math.prod(size for size in sizes if size != -1)
    if sum(size == -1 for size in sizes) == 1 and known and shape[dim] % known == 0:
        sizes = [shape[dim] // known if size == -1 else size for size in sizes]
    if math.prod(sizes) != shape[dim] or min(sizes) < 0:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({shape[dim]})"
        )
    return ops.view(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))


def permute(input: Any, dims: Sequence[int]) -> Any:
    """The dimensions in another order: a view."""
    return ops.permute(input, tuple(dims))


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions swapped: a view."""
    return ops.transpose(input, dim0, dim1)


def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """`transpose`, by NumPy's name."""
    return ops.transpose(input, axis0, axis1)


def swapdims(input: Any, dim0: int, dim1: int) -> Any:
    """`transpose`, by another name."""
    return ops.transpose(input, dim0, dim1)


def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Some dimensions moved to other places, the others in their order around them: a view."""
    ndim = input._array.ndim
    given = [(part,) if isinstance(part, int) else tuple(part) for part in (source, destination)]
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source and destination must have the same number of elements,"
            f" got {list(given[0])} and {list(given[1])}"
        )
    origin, place = ([normalize_dim("movedim", dim, ndim) for dim in part] for part in given)
    if len(set(origin)) != len(origin) or len(set(place)) != len(place):
        raise RuntimeError(f"movedim: repeated dim in source or destination ({source}, {destination})")
    if not ndim:
        return ops.view(input, ())
    rest = iter([dim for dim in range(ndim) if dim not in origin])
    moved = dict(zip(place, origin, strict=True))
    return ops.permute(input, tuple(moved[dim] if dim in moved else next(rest) for dim in range(ndim)))


def moveaxis(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """`movedim`, by NumPy's name."""
    return movedim(input, source, destination)


def t(input: Any) -> Any:
    """The transpose of a matrix (or a vector as it is): a view."""
    if input._array.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input._array.ndim}D")
    return ops.transpose(input, 0, 1) if input._array.ndim == 2 else ops.view(input, input._array.shape)


def adjoint(input: Any) -> Any:
    """The last two dimensions swapped, and complex numbers conjugated."""
    if input._array.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return _conj(ops.transpose(input, -2, -1) if input._array.ndim else ops.view(input, ()))


def unsqueeze(input: Any, dim: int) -> Any:
    """A new dimension of size 1: a view."""
    return view_ops.unsqueeze(input, normalize_dim("unsqueeze", dim, input._array.ndim + 1))


def squeeze(input: Any, dim: int | Sequence[int] | None = None) -> Any:
    """A dimension of size 1, several, or all of them left out: a view. Dimensions of another size stay."""
    return view_ops.squeeze(input, squeezed_dims(input._array.shape, dim))


def squeezed_dims(sizes: tuple[int, ...], dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions of size 1 among those that are named.

    Raises:
        IndexError: for one that does not exist.
        RuntimeError: for one that is named twice.
    """
    if dim is None:
        named = list(range(len(sizes)))
    else:
        given = (dim,) if isinstance(dim, int) else dim
        named = [normalize_dim("squeeze", part, len(sizes)) for part in given]
        if len(set(named)) != len(named):
            raise RuntimeError(f"squeeze: dim {dim} appears multiple times in the list of dims")
    return tuple(part for part, size in enumerate(sizes) if size == 1 and part in named)


def broadcast_to(input: Any, shape: Sequence[int]) -> Any:
    """A view in which dimensions of size 1 are repeated to reach a shape."""
    return _expand(input, tuple(shape))


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape to which shapes broadcast."""
    return _broadcast_shapes(
        "broadcast_shapes", (), *[(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    )


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Views of tensors, all of the shape to which they broadcast."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    shape = _broadcast_shapes("broadcast_tensors", *[tensor._array.shape for tensor in tensors])
    return tuple(_expand(tensor, shape) for tensor in tensors)


def _each(function: Any, tensors: tuple[Any, ...]) -> Any:
    """A function of one tensor, for one or several."""
    if len(tensors) == 1 and not isinstance(tensors[0], tuple | list):
        return function(tensors[0])
    return tuple(function(tensor) for tensor in (tensors[0] if len(tensors) == 1 else tensors))


def atleast_1d(*tensors: Any) -> Any:
    """Tensors (one, or a tuple) with at least one dimension."""
    return _each(lambda x: x if x._array.ndim else view_ops.unsqueeze(x, 0), tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors (one, or a tuple) with at least two dimensions: a vector becomes a row."""
    return _each(lambda x: x if x._array.ndim > 1 else ops.view(x, (1, -1) if x._array.size else (1, 0)), tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors (one, or a tuple) with at least three dimensions: a vector becomes (1, n, 1), a matrix (m, n, 1)."""

    def raised(x: Any) -> Any:
        sizes = x._array.shape
        return x if len(sizes) > 2 else ops.view(x, ((1, 1, 1), (1, *sizes, 1), (*sizes, 1))[len(sizes)])

    return _each(raised, tensors)
