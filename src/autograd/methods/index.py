"""Choosing elements by indices and masks, as methods; ``x[...]`` itself is in `stowgrad.autograd.indexing`."""

from __future__ import annotations

from typing import Any, Self

from ..functions import index as functions
from ..functions import scattering as scatter_functions
from ..functions.scattering import in_place
from ..ops import masked as masked_ops
from ..ops.sum_to import expand
from ..put import put_


class IndexMethods:
    """Choosing elements, and scattering into them."""

    __slots__ = ()

    _array: Any

    argwhere = functions.argwhere
    gather = functions.gather
    index_add = scatter_functions.index_add
    index_copy = scatter_functions.index_copy
    index_fill = scatter_functions.index_fill
    index_put = scatter_functions.index_put
    index_reduce = scatter_functions.index_reduce
    index_select = functions.index_select
    masked_scatter = functions.masked_scatter
    masked_select = functions.masked_select
    nonzero = functions.nonzero
    nonzero_static = functions.nonzero_static
    put = scatter_functions.put
    scatter = scatter_functions.scatter
    scatter_add = scatter_functions.scatter_add
    scatter_reduce = scatter_functions.scatter_reduce
    take = functions.take
    take_along_dim = functions.take_along_dim

    def scatter_(self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Self:
        """Replace elements by number, as `scatter` does; returns the tensor."""
        src = value if src is None else src
        return scatter_functions.scatter_by(in_place, self, dim, index, src, reduce)  # type: ignore[no-any-return]

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:
        """Add elements by number, as `scatter_add` does; returns the tensor."""
        return scatter_functions.scatter_add_by(in_place, self, dim, index, src)  # type: ignore[no-any-return]

    def scatter_reduce_(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Self:
        """Fold elements in by number, as `scatter_reduce` does; returns the tensor."""
        return scatter_functions.reduce_by(in_place, self, dim, index, src, reduce, include_self)  # type: ignore[no-any-return]

    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Self:
        """Add rows by number, as `index_add` does; returns the tensor."""
        return scatter_functions.index_add_by(in_place, self, dim, index, source, alpha)  # type: ignore[no-any-return]

    def index_copy_(self, dim: int, index: Any, source: Any) -> Self:
        """Replace rows by number, as `index_copy` does; returns the tensor."""
        return scatter_functions.index_copy_by(in_place, self, dim, index, source)  # type: ignore[no-any-return]

    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        """Fill rows by number, as `index_fill` does; returns the tensor."""
        return scatter_functions.index_fill_by(in_place, self, dim, index, value)  # type: ignore[no-any-return]

    def index_reduce_(self, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Self:
        """Fold rows in by number, as `index_reduce` does; returns the tensor."""
        return scatter_functions.index_reduce_by(in_place, self, dim, index, source, reduce, include_self)  # type: ignore[no-any-return]

    def masked_scatter_(self, mask: Any, source: Any) -> Self:
        """Replace the elements where a mask is true by the first ones of ``source``; returns the tensor."""
        functions.check_masked(self, mask, source)
        mask = mask if mask._array.shape == self._array.shape else expand(mask, self._array.shape)
        return put_(masked_ops.masked_scatter, self, mask, source)  # type: ignore[no-any-return]

    def index_put_(self, indices: Any, values: Any, accumulate: bool = False) -> Self:
        """``self[indices] = values`` or ``+=``, as `index_put` does; returns the tensor."""
        return scatter_functions.index_put_into(self, indices, values, accumulate)  # type: ignore[no-any-return]

    def put_(self, index: Any, source: Any, accumulate: bool = False) -> Self:
        """Replace (or add) elements by number as if the tensor were one row; returns the tensor."""
        return scatter_functions.put_into(self, index, source, accumulate)  # type: ignore[no-any-return]
