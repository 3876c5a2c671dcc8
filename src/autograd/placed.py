"""`Placed`: the gradient of a slice, which is zero outside of it, without the zeros."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..kernels import backend
from ..memory import META, storage_of


class Placed(NamedTuple):
    """A gradient that belongs into a part of a larger one.

    The engine adds it to the sum that is there already: a full-size array is made once, not for each slice.

    Attributes:
        gradient: an array.
        index: where it belongs: integers, slices, ``...`` and None.
        shape: of the whole.
    """

    gradient: Any
    index: Any
    shape: tuple[int, ...]

    def whole(self) -> Any:
        """The full-size gradient: zeros, with this one in its place."""
        storage = storage_of(self.gradient)
        assert storage is not None, "gradients always lie in a pool"
        array, _ = storage.pool.lease(self.shape, self.gradient.dtype, "temporary")
        if storage.device is not META:
            k = backend(storage.device.type)
            k.fill(array, 0)
            k.copy(self.gradient, self._part(array))
        return array

    def added_to(self, total: Any) -> None:
        """Add it in place."""
        storage = storage_of(total)
        assert storage is not None, "gradients always lie in a pool"
        if storage.device is not META:
            backend(storage.device.type).accumulate_(self.gradient, self._part(total))

    def _part(self, array: Any) -> Any:
        """A view even where an integer for every dimension would give a number."""
        return array[self.index if Ellipsis in self.index else (*self.index, ...)]
