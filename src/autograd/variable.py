"""`Variable`: what a tensor is made of: an array, the storage that holds it, and its place in the graph."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from ..memory import Storage, storage_for_user
from ..saved_tensors.saved_variable import Edge
from .hooks import HookTable

# Reentrant: the collector may run anything in between.
_forgetting = threading.RLock()


class ViewInfo:
    """How a tensor looks at the memory of another.

    Attributes:
        base: the tensor at the root, itself no view.
        parent: how the tensor looked from which this view was made, or None if that was the base.
        op, args: the view op and what it was called with besides the tensor: numbers and shapes.
        attrs: what a node of the op needs for its derivative.
        origin: how it came about, if that forbids writing through it while gradients are recorded: ``"no_grad"``,
            ``"inference"`` (mode), ``"multi"`` (one of several views that an op returned), ``"function"`` (a user's
            Function).
    """

    __slots__ = ("args", "attrs", "base", "op", "origin", "parent")

    def __init__(
        self, base: Variable, parent: ViewInfo | None, op: Any, args: tuple[Any, ...], attrs: Any, origin: str | None
    ) -> None:
        self.base = base
        self.parent = parent
        self.op = op
        self.args = args
        self.attrs = attrs
        self.origin = origin

    def steps(self) -> list[ViewInfo]:
        """The view ops from the base to this view."""
        found = []
        step: ViewInfo | None = self
        while step is not None:
            found.append(step)
            step = step.parent
        return found[::-1]


class LiveViews:
    """The views of one tensor, held weakly: `Tensor.__eq__` compares elements, so that they can be in no set."""

    __slots__ = ("_limit", "_references")

    def __init__(self) -> None:
        self._references: list[weakref.ref[Variable]] = []
        self._limit = 8

    def add(self, view: Variable) -> None:
        """Take a view in; the dead ones go when their number has doubled."""
        self._references.append(weakref.ref(view))
        if len(self._references) > self._limit:
            self._forget_dead()

    def _forget_dead(self) -> None:
        """Drop the dead views, while other threads may add more at the end."""
        references = self._references
        with _forgetting:
            for number in range(len(references) - 1, -1, -1):
                if references[number]() is None:
                    del references[number]
            self._limit = 2 * len(references) + 8

    def alive(self) -> list[Variable]:
        """The views that still exist, the oldest first."""
        found = [reference() for reference in self._references.copy()]
        return [view for view in found if view is not None]


class Metadata:
    """What only some tensors have, made on first use.

    Attributes:
        grad: the accumulated gradient of a leaf (or of a tensor that retains its gradient).
        accumulator: weak reference to the node that accumulates into this leaf.
        hooks: tensor hooks of a leaf, by registration number.
        post_hooks: what waits for a leaf's gradient to be accumulated, likewise.
        retains_grad: whether a non-leaf keeps its gradient.
        view: of which tensor this one is a view, and how.
        views: the views of this tensor that are alive.
        name: a name for people.
    """

    __slots__ = ("accumulator", "grad", "hooks", "name", "post_hooks", "retains_grad", "view", "views")

    def __init__(self) -> None:
        self.grad: Variable | None = None
        self.accumulator: Callable[[], Any] | None = None
        self.hooks: HookTable | None = None
        self.post_hooks: HookTable | None = None
        self.retains_grad = False
        self.view: ViewInfo | None = None
        self.views: LiveViews | None = None
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
        alias = object.__new__(Variable._tensor_class)
        alias._array = self._array
        alias._storage = self._storage
        alias._grad_fn = None
        alias._output_nr = 0
        alias._requires_grad = False
        alias._meta = None
        return alias

    def _metadata(self) -> Metadata:
        meta = self._meta
        if meta is None:
            meta = self._meta = Metadata()
        return meta

    # The class that ops wrap their results in: `Tensor`, once its module is loaded.
    _tensor_class: Any = None
