"""`Size`: the sizes of a tensor's dimensions, as PyTorch has them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex


class Size(tuple[int, ...]):
    """A tuple of sizes that knows how many elements they make; slices and sums of it are sizes, too.

    `Tensor.size` returns it. `Tensor.shape` is a plain tuple, NumPy's own, which is equal to it: it is read in every
    layer, and making it a `Size` would double what that costs.

    Raises:
        TypeError: for what is no integer.

    >>> size = Size([2, 3, 4])
    >>> size.numel(), size[1:], (1,) + size
    (24, stowgrad.Size([3, 4]), stowgrad.Size([1, 2, 3, 4]))
    >>> size == (2, 3, 4)
    True
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        if type(sizes) is Size:
            return sizes
        found = []
        for number, size in enumerate(sizes):
            try:
                found.append(operator.index(size))
            except TypeError:
                raise TypeError(
                    f"stowgrad.Size() takes an iterable of 'int' (item {number} is '{type(size).__name__}')"
                ) from None
        return super().__new__(cls, found)

    def numel(self) -> int:
        """How many elements a tensor of these sizes has."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, int) else Size(found)

    def __add__(self, other: Any) -> Any:
        return Size(super().__add__(other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(super().__mul__(count))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"stowgrad.Size({list(self)})"

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)
