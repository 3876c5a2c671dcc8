"""Other looks at the same memory, taken in place, as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from .. import inplace_views
from ..functions import shape as functions
from ..ops import shape as shape_ops
from ..ops import view as view_ops
from ..ops.strided import storage_offset
from ..record import normalize_dim


class InPlaceViewMethods:
    """Forms of views that change the tensor itself: shape and strides, not what lies in memory."""

    __slots__ = ()

    _array: Any

    def transpose_(self, dim0: int, dim1: int) -> Self:
        """Swap two dimensions of this tensor.

        Raises:
            RuntimeError: for a leaf that requires grad, or a view of one, while gradients are recorded.

        >>> import stowgrad
        >>> x = stowgrad.zeros(2, 3)
        >>> x.transpose_(0, 1) is x, x.shape
        (True, (3, 2))
        """
        step = shape_ops.transpose, (dim0, dim1)
        return inplace_views.look("transpose_", self, step, step)  # type: ignore[no-any-return]

    def swapaxes_(self, axis0: int, axis1: int) -> Self:
        """`transpose_`, by NumPy's name."""
        return self.transpose_(axis0, axis1)

    def swapdims_(self, dim0: int, dim1: int) -> Self:
        """`transpose_`, by another name."""
        return self.transpose_(dim0, dim1)

    def t_(self) -> Self:
        """Transpose this matrix; a vector stays as it is."""
        if self._array.ndim > 2:
            raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D")
        return self.transpose_(0, 1 if self._array.ndim == 2 else 0)

    def unsqueeze_(self, dim: int) -> Self:
        """Give this tensor a new dimension of size 1."""
        place = normalize_dim("unsqueeze_", dim, self._array.ndim + 1)
        step, back = (view_ops.unsqueeze, (place,)), (view_ops.squeeze, ((place,),))
        return inplace_views.look("unsqueeze_", self, step, back)  # type: ignore[no-any-return]

    def squeeze_(self, dim: int | Sequence[int] | None = None) -> Self:
        """Leave out a dimension of size 1 of this tensor, several, or all of them."""
        sizes = self._array.shape
        step = view_ops.squeeze, (functions.squeezed_dims(sizes, dim),)
        return inplace_views.look("squeeze_", self, step, (shape_ops.view, (sizes,)))  # type: ignore[no-any-return]

    def as_strided_(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Self:
        """Look at the memory through other sizes and strides: see `as_strided`."""
        return inplace_views.as_strided_(self, tuple(size), tuple(stride), storage_offset)  # type: ignore[no-any-return]

    def resize_(self, *sizes: Any, memory_format: Any = None) -> Self:
        """Give this tensor another size, in C order from its first element on; what is new is not initialised.

        It stays in its memory where that is large enough, and moves to larger memory otherwise; its views stay behind
        then. ``memory_format`` is accepted for PyTorch's sake.

        Raises:
            RuntimeError: for a tensor that requires grad, and for memory of the user's that is too small.

        >>> import stowgrad
        >>> stowgrad.arange(6).resize_(2, 2)
        tensor([[0, 1],
                [2, 3]])
        """
        if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
            (sizes,) = sizes
        return inplace_views.resize_(self, tuple(int(size) for size in sizes))  # type: ignore[no-any-return]

    def resize_as_(self, the_template: Any, *, memory_format: Any = None) -> Self:
        """`resize_` to the size of another tensor."""
        return self.resize_(the_template._array.shape, memory_format=memory_format)

    def storage_offset(self) -> int:
        """How many elements behind the begin of its storage the tensor begins."""
        return storage_offset(self)
