"""Views and copies of another shape, as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .. import inplace
from ..functions import arrange as arrange_functions
from ..functions import join as join_functions
from ..functions import shape as functions
from ..functions import views as view_functions
from ..ops import arrange as arrange_ops
from ..ops import shape as ops
from ..ops import view as view_ops
from ..ops.cast import clone
from ..ops.complex import conj
from ..ops.sum_to import expand


def sizes_of(sizes: tuple[Any, ...], named: Sequence[int] | None = None) -> tuple[int, ...]:
    """Sizes given one by one, as one sequence, or by name."""
    if named is not None:
        sizes = tuple(named)
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return tuple(int(size) for size in sizes)


class ShapeMethods:
    """Views and copies of another shape."""

    __slots__ = ()

    _array: Any
    _storage: Any

    adjoint = functions.adjoint
    as_strided = view_functions.as_strided
    as_strided_scatter = view_functions.as_strided_scatter
    broadcast_to = functions.broadcast_to
    chunk = join_functions.chunk
    clone = functions.clone
    diag = view_functions.diag
    diag_embed = view_functions.diag_embed
    diagflat = view_functions.diagflat
    diagonal = view_functions.diagonal
    diagonal_scatter = view_functions.diagonal_scatter
    dsplit = join_functions.dsplit
    flatten = functions.flatten
    fliplr = arrange_functions.fliplr
    flipud = arrange_functions.flipud
    hsplit = join_functions.hsplit
    moveaxis = functions.moveaxis
    movedim = functions.movedim
    narrow = join_functions.narrow
    ravel = functions.ravel
    repeat_interleave = arrange_functions.repeat_interleave
    roll = arrange_functions.roll
    rot90 = arrange_functions.rot90
    select = join_functions.select
    select_scatter = view_functions.select_scatter
    slice_scatter = view_functions.slice_scatter
    split = join_functions.split
    split_with_sizes = join_functions.split_with_sizes
    squeeze = functions.squeeze
    swapaxes = functions.swapaxes
    swapdims = functions.swapdims
    t = functions.t
    tensor_split = join_functions.tensor_split
    transpose = functions.transpose
    tril = arrange_functions.tril
    triu = arrange_functions.triu
    unbind = join_functions.unbind
    unsafe_chunk = join_functions.unsafe_chunk
    unsafe_split = join_functions.unsafe_split
    unsafe_split_with_sizes = join_functions.unsafe_split_with_sizes
    unsqueeze = functions.unsqueeze
    vsplit = join_functions.vsplit

    def view(self, *sizes: Any, dtype: Any = None, size: Sequence[int] | None = None) -> Any:
        """The same elements in another shape, without a copy; one size may be -1. Or the same bytes in another dtype.

        A view of another dtype has no gradient.
        """
        if dtype is None and len(sizes) == 1 and isinstance(sizes[0], np.dtype | type):
            (dtype,) = sizes
        if dtype is not None:
            return view_ops.view_dtype(self, np.dtype(dtype))
        return ops.view(self, sizes_of(sizes, size))

    def view_as(self, other: Any) -> Any:
        """The same elements in another tensor's shape, without a copy."""
        return ops.view(self, other._array.shape)

    def reshape(self, *sizes: Any, shape: Sequence[int] | None = None) -> Any:
        """The same elements in another shape: a view where strides allow it, a copy where not."""
        return ops.reshape(self, sizes_of(sizes, shape))

    def reshape_as(self, other: Any) -> Any:
        """The same elements in another tensor's shape: a view where strides allow it, a copy where not."""
        return ops.reshape(self, other._array.shape)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Any:
        """A dimension as several, one size of which may be -1: a view."""
        return functions.unflatten(self, dim, sizes)

    def permute(self, *order: Any, dims: Sequence[int] | None = None) -> Any:
        """The dimensions in another order: a view."""
        return ops.permute(self, sizes_of(order, dims))

    def expand(self, *sizes: Any, size: Sequence[int] | None = None) -> Any:
        """A view in which dimensions of size 1 are repeated; -1 keeps a size."""
        return expand(self, sizes_of(sizes, size))

    def expand_as(self, other: Any) -> Any:
        """A view in which dimensions of size 1 are repeated to reach another tensor's shape."""
        return expand(self, other._array.shape)

    def unfold(self, dimension: int, size: int, step: int) -> Any:
        """Windows of a dimension, each as a last dimension: a view, whose elements overlap if ``step < size``.

        >>> import stowgrad
        >>> stowgrad.arange(4).unfold(0, 2, 1).tolist()
        [[0, 1], [1, 2], [2, 3]]
        """
        return view_ops.unfold(self, dimension, size, step)

    def narrow_copy(self, dim: int, start: int, length: int) -> Any:
        """A stretch of one dimension: a copy."""
        return clone(join_functions.narrow(self, dim, start, length))

    def flip(self, *counts: Any, dims: Sequence[int] | None = None) -> Any:
        """A copy with some dimensions in reverse order."""
        return arrange_functions.flip(self, sizes_of(counts, dims))

    def repeat(self, *counts: Any, repeats: Sequence[int] | None = None) -> Any:
        """The whole repeated along each dimension; more numbers than there are dimensions make new ones in front."""
        return arrange_functions.repeated(self, sizes_of(counts, repeats))

    def tile(self, *counts: Any, dims: Sequence[int] | None = None) -> Any:
        """The whole repeated along dimensions, counted from the last one."""
        return arrange_functions.tile(self, sizes_of(counts, dims))

    def tril_(self, diagonal: int = 0) -> Self:
        """Set the elements above a diagonal to 0."""
        return inplace.op_(arrange_ops.tril, 0, self, diagonal)  # type: ignore[no-any-return]

    def triu_(self, diagonal: int = 0) -> Self:
        """Set the elements below a diagonal to 0."""
        return inplace.op_(arrange_ops.triu, 0, self, diagonal)  # type: ignore[no-any-return]

    def fill_diagonal_(self, fill_value: float, wrap: bool = False) -> Self:
        """Set the elements of the main diagonal, those with the same number along all dimensions.

        Args:
            wrap: whether, of a matrix with more rows, the diagonal begins anew below its end, a row left out between.

        Raises:
            RuntimeError: for a vector, and for more than two dimensions that are not of one size.
        """
        view_functions.fill_diagonal(self, fill_value, wrap)
        return self

    @property
    def T(self) -> Any:  # PyTorch's name
        """The dimensions in reverse order: a view."""
        return ops.permute(self, tuple(reversed(range(self._array.ndim))))

    @property
    def mT(self) -> Any:  # PyTorch's name
        """The last two dimensions swapped: a view."""
        if self._array.ndim == 1:
            raise RuntimeError("mT is only supported on matrices or batches of matrices, got a vector")
        return ops.transpose(self, -2, -1) if self._array.ndim else self

    @property
    def H(self) -> Any:  # PyTorch's name
        """The matrix transposed, and complex numbers conjugated."""
        if self._array.ndim not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {self._array.ndim}-D tensor."
            )
        return conj(ops.transpose(self, 0, 1) if self._array.ndim else self)

    @property
    def mH(self) -> Any:  # PyTorch's name
        """The last two dimensions swapped, and complex numbers conjugated."""
        return functions.adjoint(self)

    def contiguous(self) -> Any:
        """The tensor itself if its elements lie in C order, a copy otherwise."""
        return self if self._array.flags.c_contiguous else clone(self)
