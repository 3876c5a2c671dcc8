"""`Variable`: what a tensor is made of: an array, the storage that holds it, and its place in the graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..memory import Storage, storage_for_user
from ..saved_tensors.saved_variable import Edge


class Metadata:
    """What only some tensors have, made on first use.

    Attributes:
        grad: the accumulated gradient of a leaf (or of a tensor that retains its gradient).
        accumulator: weak reference to the node that accumulates into this leaf.
        hooks: tensor hooks of a leaf, by registration number.
        retains_grad: whether a non-leaf keeps its gradient.
        base: the tensor of which this one is a view.
        name: a name for people.
    """

    __slots__ = ("accumulator", "base", "grad", "hooks", "name", "retains_grad")

    def __init__(self) -> None:
        self.grad: Variable | None = None
        self.accumulator: Callable[[], Any] | None = None
        self.hooks: dict[int, Callable[[Any], Any]] | None = None
        self.retains_grad = False
        self.base: Variable | None = None
        self.name: str | None = None


class Variable:
    """Data and graph position of a tensor; `Tensor` adds the methods.

    Attributes:
        _array: the NumPy or CuPy array.
        _storage: the storage that holds it; views, ``detach()`` and ``.data`` share it and its version.
        _grad_fn, _output_nr: the node that made it and which of its outputs it is; None for a leaf.
        _requires_grad: whether gradients flow to it.
        _meta: the rest, or None while nothing needs it.
    """

    __slots__ = ("__weakref__", "_array", "_grad_fn", "_meta", "_output_nr", "_requires_grad", "_storage")

    _array: Any
    _storage: Storage
    _grad_fn: Any
    _output_nr: int
    _requires_grad: bool
    _meta: Metadata | None

    @classmethod
    def _wrap(cls, array: Any, storage: Storage) -> Any:
        """A leaf that doesn't require grad, over an array in a storage."""
        tensor = object.__new__(cls)
        tensor._array = array
        tensor._storage = storage
        tensor._grad_fn = None
        tensor._output_nr = 0
        tensor._requires_grad = False
        tensor._meta = None
        return tensor

    @classmethod
    def _rebuild(cls, array: Any, storage: Storage | None, edge: Edge | None) -> Any:
        """A tensor over an array with the history that ``edge`` names: where that is a leaf's own array, the leaf."""
        tensor = cls._wrap(array, storage if storage is not None else storage_for_user(array))
        if edge is None:
            return tensor
        leaf = edge[0].accumulates_into
        tensor._requires_grad = True
        if leaf is None:
            tensor._grad_fn, tensor._output_nr = edge
        elif leaf._array is array:
            return leaf
        else:
            tensor._metadata().accumulator = weakref.ref(edge[0])
        return tensor

    def _alias(self) -> Any:
        """A detached tensor over the same array and storage."""
        return Variable._tensor_class._wrap(self._array, self._storage)

    def _metadata(self) -> Metadata:
        meta = self._meta
        if meta is None:
            meta = self._meta = Metadata()
        return meta

    # The class that ops wrap their results in: `Tensor`, once its module is loaded.
    _tensor_class: Any = None
