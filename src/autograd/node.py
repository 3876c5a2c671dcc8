"""`Node`: one step of the graph backward, and `AccumulateGrad`: where the gradient of a leaf ends.

Edges are pairs ``(node, output number)``; ``(None, 0)`` where an input needs no gradient. Numbers are process-wide and
ascend in the order of recording: the order in which saved values will be needed is that order backwards.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ..memory import Device
from ..saved_tensors.saved_variable import Edge, SavedVariable

next_number = itertools.count().__next__
_ACCUMULATE_NUMBER = 2**63 - 1

SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been"
    " freed). Saved values of the graph are freed by backward() and grad(). Specify retain_graph=True if you need to go"
    " through the graph or its saved values again."
)


class GradientEdge(NamedTuple):
    """A node and which of its outputs is meant: the gradient that arrives there."""

    node: Any
    output_nr: int


class Hooks:
    """Hooks of one node, by the output that they watch; registration order is call order."""

    __slots__ = ("retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, dict[int, Callable[[Any], Any]]] = {}
        self.retained: dict[int, weakref.ref[Any]] = {}


class Node:
    """What one op left for backward.

    Attributes:
        op: the record of the op.
        edges: where the gradients of its inputs go.
        needs: which inputs need a gradient.
        attrs: the op's attributes and the metadata of its inputs; never an array.
        saved: what it saved, or None once that was freed.
        device: where its gradients are computed.
        outputs: how many outputs it has.
        number: its place in the order of recording.
    """

    __slots__ = (
        "__weakref__",
        "attrs",
        "device",
        "edges",
        "hooks",
        "needs",
        "number",
        "op",
        "outputs",
        "saved",
    )

    op: Any
    edges: tuple[Edge, ...]
    needs: tuple[bool, ...]
    attrs: Any
    saved: tuple[SavedVariable | None, ...] | None
    device: Device
    outputs: int
    number: int
    hooks: Hooks | None
    # The leaf that an accumulating node adds to; no other node has one.
    leaf: Any = None

    def name(self) -> str:
        """The op's name and ``Backward0``, like PyTorch's."""
        return str(self.op.node_name)

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """One ``(node, output number)`` for each differentiable input; ``(None, 0)`` where no gradient is needed."""
        return self.edges

    def edge_of_output(self, number: int) -> Edge:
        """The edge that one of this node's outputs has."""
        return (self, number)

    def ensure_hooks(self) -> Hooks:
        """The hooks of this node, made on first use."""
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks

    def saved_values(self) -> tuple[SavedVariable | None, ...]:
        """What the node saved.

        Raises:
            RuntimeError: if it was freed.
        """
        if self.saved is None:
            raise RuntimeError(SECOND_TIME)
        return self.saved

    def release(self) -> None:
        """Free what the node saved; its edges stay, so that the graph can still be walked."""
        if self.saved:
            self.saved = None

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle or copy {self.name()}: a node belongs to the graph of this process")


class AccumulateGrad:
    """Adds what arrives to the ``grad`` of a leaf.

    Made when an op first uses the leaf, shared by all graphs that use it at the same time. It holds the leaf; the leaf
    holds it weakly.
    """

    __slots__ = ("__weakref__", "leaf")

    edges: tuple[Edge, ...] = ()
    next_functions: tuple[Edge, ...] = ()
    needs: tuple[bool, ...] = ()
    saved: tuple[SavedVariable | None, ...] = ()
    hooks: Hooks | None = None
    outputs = 1
    # Runs before everything else that is ready.
    number = _ACCUMULATE_NUMBER

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    @property
    def device(self) -> Device:
        return self.leaf._storage.device  # type: ignore[no-any-return]

    def name(self) -> str:
        """Always ``AccumulateGrad``."""
        return "AccumulateGrad"

    def edge_of_output(self, number: int) -> Edge:
        return (self, number)

    def release(self) -> None:
        """There is nothing to free."""

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {hex(id(self))}>"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle or copy AccumulateGrad: a node belongs to the graph of this process")


NO_EDGE: Edge = (None, 0)


def gradient_edge(tensor: Any) -> Edge:
    """The edge along which the gradient of a tensor arrives; makes a leaf's accumulator if there is none."""
    if tensor._grad_fn is not None:
        return (tensor._grad_fn, tensor._output_nr)
    if not tensor._requires_grad:
        return NO_EDGE
    meta = tensor._metadata()
    accumulator = meta.accumulator() if meta.accumulator is not None else None
    if accumulator is None:
        accumulator = AccumulateGrad(tensor)
        meta.accumulator = weakref.ref(accumulator)
    return (accumulator, 0)
