"""Views and copies of another shape, as methods."""

from __future__ import annotations

from typing import Any

from ..functions import shape as functions
from ..ops import shape as ops
from ..ops.cast import clone
from ..ops.sum_to import expand


def sizes_of(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return tuple(int(size) for size in sizes)


class ShapeMethods:
    """Views and copies of another shape."""

    __slots__ = ()

    _array: Any

    chunk = functions.chunk
    clone = functions.clone
    flatten = functions.flatten
    narrow = functions.narrow
    split = functions.split
    squeeze = functions.squeeze
    t = functions.t
    transpose = functions.transpose
    unbind = functions.unbind
    unsqueeze = functions.unsqueeze

    def view(self, *sizes: Any) -> Any:
        """The same elements in another shape, without a copy; one size may be -1."""
        return ops.view(self, sizes_of(sizes))

    def reshape(self, *sizes: Any) -> Any:
        """The same elements in another shape: a view where strides allow it, a copy where not."""
        return ops.reshape(self, sizes_of(sizes))

    def permute(self, *dims: Any) -> Any:
        """The dimensions in another order: a view."""
        return ops.permute(self, sizes_of(dims))

    def expand(self, *sizes: Any) -> Any:
        """A view in which dimensions of size 1 are repeated; -1 keeps a size."""
        return expand(self, sizes_of(sizes))

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

    def contiguous(self) -> Any:
        """The tensor itself if its elements lie in C order, a copy otherwise."""
        return self if self._array.flags.c_contiguous else clone(self)
