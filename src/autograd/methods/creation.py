"""New tensors like a tensor, as methods."""

from __future__ import annotations

from typing import Any

from ..creation import empty, empty_strided, full, tensor
from ..creation.data import values_of
from ..creation.filled import filled
from ..creation.options import Options, as_dtype, python_number, sizes


class CreationMethods:
    """Makers whose dtype and device are the tensor's, unless others are named."""

    __slots__ = ()

    _array: Any
    _storage: Any

    def _new_options(self, options: Options) -> Options:
        given = {key: value for key, value in options.items() if value is not None}
        return {"dtype": self._array.dtype, "device": self._storage.device} | given

    def new_empty(self, *size: Any, **options: Any) -> Any:
        """An uninitialised tensor."""
        return empty(*size, **self._new_options(options))

    def new_empty_strided(self, size: Any, stride: Any, **options: Any) -> Any:
        """An uninitialised tensor of given strides, in elements."""
        return empty_strided(size, stride, **self._new_options(options))

    def new_zeros(self, *size: Any, **options: Any) -> Any:
        """A tensor of zeros."""
        return filled("new_zeros", sizes("new_zeros", size, options), 0, None, self._new_options(options))

    def new_ones(self, *size: Any, **options: Any) -> Any:
        """A tensor of ones."""
        return filled("new_ones", sizes("new_ones", size, options), 1, None, self._new_options(options))

    def new_full(self, size: Any, fill_value: Any, **options: Any) -> Any:
        """A tensor filled with a number."""
        return full(size, python_number("new_full", fill_value), **self._new_options(options))

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Any:
        """A tensor with a copy of ``data``: numbers, sequences, arrays or a tensor."""
        kind = self._array.dtype if dtype is None else as_dtype("new_tensor", dtype)
        place = self._storage.device if device is None else device
        return tensor(values_of(data, kind), dtype=kind, device=place, requires_grad=requires_grad)
