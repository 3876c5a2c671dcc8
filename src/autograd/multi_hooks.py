"""Hooks on the gradients of several tensors at once."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .engine import GraphTask, current_task
from .hooks import RemovableHandles
from .node import gradient_edge
from .variable import Variable


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[[Any], object], *, mode: str = "all"
) -> RemovableHandles:
    """Call ``fn`` once in each pass backward that computes gradients of these tensors.

    Args:
        tensors: whose gradients; all of them require grad.
        fn: with mode "all", called with the list of all their gradients when the last one of this pass is there, None
            for those that the pass does not compute; with "any", called with the first one.
        mode: "all" or "any".

    Raises:
        ValueError: for another mode.
        RuntimeError: if a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode!r}")
    watch: _First | _All
    if mode == "any":
        watch = _First(fn)
        return RemovableHandles([tensor.register_hook(watch) for tensor in tensors])
    for tensor in tensors:
        if not tensor.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    watch = _All(fn, [weakref.ref(tensor if tensor.is_leaf else tensor.grad_fn) for tensor in tensors])
    return RemovableHandles([tensor.register_hook(watch.at(number)) for number, tensor in enumerate(tensors)])


def _task() -> GraphTask:
    task = current_task()
    if task is None:
        raise RuntimeError("a multi-grad hook was called outside of a backward pass")
    return task


class _First:
    """Passes on the first gradient of each pass."""

    def __init__(self, function: Callable[[Any], object]) -> None:
        self._function = function
        self._seen: set[int] = set()

    def __call__(self, gradient: Any) -> None:
        task = _task()
        if task.id not in self._seen:
            self._seen.add(task.id)
            task.cleanups.append(functools.partial(self._seen.discard, task.id))
            self._function(gradient)


class _All:
    """Collects the gradients of each pass until all are there that it computes.

    Args:
        function: called with them.
        sources: weak references to the leaves, and to the nodes of the other tensors: those hold their hooks, so it may
            not hold them.
    """

    def __init__(self, function: Callable[[Any], object], sources: list[weakref.ref[Any]]) -> None:
        self._function = function
        self._sources = sources
        self._lock = threading.Lock()
        # For each pass: how many gradients are still to come, and those that are there.
        self._passes: dict[int, tuple[int, list[Any]]] = {}

    def at(self, number: int) -> Callable[[Any], None]:
        """The hook of one of the tensors."""
        return lambda gradient: self._arrived(number, gradient)

    def _arrived(self, number: int, gradient: Any) -> None:
        task = _task()
        with self._lock:
            found = self._passes.get(task.id)
            if found is None:
                found = sum(task.reaches(_node(source())) for source in self._sources), [None] * len(self._sources)
                task.cleanups.append(functools.partial(self._forget, task.id))
            missing, gradients = found
            gradients[number] = gradient
            self._passes[task.id] = missing - 1, gradients
        if missing == 1:
            self._forget(task.id)
            self._function(gradients)

    def _forget(self, task_id: int) -> None:
        self._passes.pop(task_id, None)


def _node(source: Any) -> Any:
    return gradient_edge(source)[0] if isinstance(source, Variable) else source
