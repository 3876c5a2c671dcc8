"""What a tensor is, as methods."""

from __future__ import annotations

from typing import Any, Self

from .. import queries
from ..creation.options import Layout, strided


class QueryMethods:
    """Questions with a short answer."""

    __slots__ = ()

    _array: Any
    _storage: Any

    get_device = queries.get_device
    is_conj = queries.is_conj
    is_neg = queries.is_neg
    is_nonzero = queries.is_nonzero
    is_same_size = queries.is_same_size
    is_signed = queries.is_signed

    def ndimension(self) -> int:
        """The number of dimensions."""
        return int(self._array.ndim)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self._array.itemsize)

    @property
    def layout(self) -> Layout:
        """How elements lie in memory: with strides."""
        return strided

    @property
    def is_cpu(self) -> bool:
        """Whether the memory is the host's."""
        return bool(self._storage.device.type == "cpu")

    @property
    def is_meta(self) -> bool:
        """Whether there are only a shape and a dtype."""
        return bool(self._storage.device.type == "meta")

    @property
    def is_sparse(self) -> bool:
        """Whether only some elements are stored: never."""
        return False

    @property
    def is_quantized(self) -> bool:
        """Whether elements stand for others: never."""
        return False

    def is_pinned(self) -> bool:
        """Whether the memory can't be swapped out: never, as far as a tensor knows."""
        return False

    def pin_memory(self) -> Self:
        """The tensor itself: `stowgrad.offload` pins what it moves."""
        return self

    def data_ptr(self) -> int:
        """The address of the first element; whoever keeps it is not seen by the pool.

        Raises:
            RuntimeError: on the meta device.
        """
        if self.is_meta:
            raise RuntimeError("data_ptr(): a tensor on the meta device has no data")
        array = self._array
        return int(array.ctypes.data if hasattr(array, "ctypes") else array.data.ptr)

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any().item())

    def __reversed__(self) -> Any:
        return self.flip(0) if self._array.ndim else self  # type: ignore[attr-defined]
