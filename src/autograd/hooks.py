"""Hooks of nodes and leaves: where they are kept, and what takes them away again."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

Hook: TypeAlias = Callable[..., Any]

_hook_numbers = itertools.count()


class HookTable(dict[int, Hook]):
    """Hooks by registration number, in call order."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Takes a hook away again: ``handle.remove()``, or leave it as a context.

    It does not keep the hooks of a `HookTable` alive: those end with the tensor or node that they watch.
    """

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks: Callable[[], dict[int, Any] | None] = (
            weakref.ref(hooks) if isinstance(hooks, HookTable) else lambda: hooks
        )
        self.id = next(_hook_numbers)
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; a second time has no effect."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class RemovableHandles:
    """Takes several hooks away at once."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take the hooks away; a second time has no effect."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> RemovableHandles:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class NodeHooks:
    """All that watches one node.

    Attributes:
        tensor: the hooks of each output that has some.
        retained: weak references to the tensors that retain their gradient, by the output that they are.
        pre, post: hooks of the node itself.
    """

    __slots__ = ("post", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, HookTable] = {}
        self.retained: dict[int, weakref.ref[Any]] = {}
        self.pre = HookTable()
        self.post = HookTable()


class Watched:
    """What nodes of all kinds offer to those who watch them."""

    __slots__ = ()

    node_hooks: NodeHooks | None
    _notes: dict[str, Any]

    def ensure_hooks(self) -> NodeHooks:
        """The hooks of this node, made on first use."""
        if self.node_hooks is None:
            self.node_hooks = NodeHooks()  # type: ignore[misc]  # a slot of each kind of node
        return self.node_hooks

    def register_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run in backward.

        Both are tuples of tensors (or None): what the node computed, for its ``next_functions``, and what it was given.
        A tuple that the hook returns takes the place of ``grad_inputs``. A node that accumulates has no grad_inputs.
        """
        return RemovableHandle(self.ensure_hooks().post, hook)

    def register_prehook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs in backward; a tuple that it returns takes their place."""
        return RemovableHandle(self.ensure_hooks().pre, hook)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for whoever wants to note something at this node; it lives as long as the node."""
        try:
            return self._notes
        except AttributeError:  # nodes are made by the million: nothing is spent on it before it is asked for
            self._notes = {}  # type: ignore[misc]  # likewise
            return self._notes
