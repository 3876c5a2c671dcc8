"""How tensors are copied and pickled: `copy.copy`, `copy.deepcopy`, `pickle`."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..memory import CPU, META, Device, pool
from .ops.cast import clone, copy_array_to
from .variable import Variable

_LASTING = ("parameter", "buffer")


class CopyMethods:
    """The protocols of `copy` and `pickle`.

    Copies lie in C order in memory of their own, also those of views of one memory.
    """

    __slots__ = ()

    _array: Any
    _storage: Any
    _meta: Any
    _grad_fn: Any
    _requires_grad: bool

    def __copy__(self) -> Self:
        """A leaf of the same class over the same memory, without the gradient."""
        twin = type(self)._wrap(self._array, self._storage)  # type: ignore[attr-defined]
        twin._requires_grad = self._requires_grad
        if hasattr(self, "__dict__"):
            vars(twin).update(vars(self))
        return twin  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._grad_fn is not None:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the"
                " moment; use detach() first"
            )
        if id(self) in memo:
            return memo[id(self)]
        wrap = type(self)._wrap  # type: ignore[attr-defined]
        copy = wrap(*copy_array_to(self._array, self._storage.device, _category(self._storage)))
        copy._requires_grad = self._requires_grad
        memo[id(self)] = copy
        if self._meta is not None and self._meta.grad is not None:
            copy._metadata().grad = clone(self._meta.grad)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Class, values, device, ``requires_grad``, and what attributes a subclass has; no history or gradient."""
        device = self._storage.device
        if device is META:
            values: Any = (self._array.shape, self._array.dtype)
        elif device is CPU:
            values = np.ascontiguousarray(self._array) if self._array.ndim else np.array(self._array)
        else:
            values = copy_array_to(self._array, CPU, "temporary")[0]
        attributes = dict(getattr(self, "__dict__", {}))
        return _rebuilt, (type(self), values, device, _category(self._storage), self._requires_grad, attributes)


def _category(storage: Any) -> str:
    return storage.category if storage.category in _LASTING else "activation"


def _rebuilt(
    cls: type[Variable], values: Any, device: Device, category: str, requires_grad: bool, attributes: dict[str, Any]
) -> Any:
    """The tensor that was pickled, in new memory."""
    if device is META:
        shape, dtype = values
        made: Any = pool(META).lease(shape, dtype, category)
    else:
        made = copy_array_to(values, device, category)
    tensor = cls._wrap(*made)
    tensor._requires_grad = requires_grad
    if attributes:
        vars(tensor).update(attributes)
    return tensor
