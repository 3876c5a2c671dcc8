"""`Node`: one step of the graph backward, and `AccumulateGrad`: where the gradient of a leaf ends.

Edges are pairs ``(node, output number)``; ``(None, 0)`` where an input needs no gradient. Numbers are process-wide and
ascend in the order of recording: the order in which saved values will be needed is that order backwards.
"""

from __future__ import annotations

import itertools
import weakref
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..memory import Device
from ..saved_tensors.saved_variable import Edge, SavedVariable
from .entries import leaves_no_tensors
from .hooks import Watched
from .saved_slots import SavedSlots

next_number = itertools.count().__next__
_ACCUMULATE_NUMBER = 2**63 - 1

SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been"
    " freed). Saved values of the graph are freed by backward() and grad(). Specify retain_graph=True if you need to go"
    " through the graph or its saved values again."
)


class GradientEdge(NamedTuple):
    """A node and which of its outputs is meant: the gradient that arrives there.

    Attributes:
        node, output_nr: which gradient.
        spec: shape, dtype and device of that output, where they are known (`graph.get_gradient_edge` knows them): for
            gradients that are not given.
    """

    node: Any
    output_nr: int
    spec: tuple[tuple[int, ...], np.dtype[Any], Device] | None = None


class Node(Watched, SavedSlots, metaclass=ABCMeta):
    """What one op left for backward; what it saved is in ``_saved_<slot>`` and ``_raw_saved_<slot>``.

    Attributes:
        record: the record of the op.
        next_edges: where the gradients of its inputs go.
        needs_grad: which inputs need a gradient.
        op_attrs: the op's attributes and the metadata of its inputs; never an array.
        saved_variables: what it saved, or None once that was freed.
        run_device: where its gradients are computed.
        num_outputs: how many outputs it has.
        sequence_nr: its place in the order of recording.
    """

    __slots__ = (
        "__weakref__",
        "_notes",
        "needs_grad",
        "next_edges",
        "node_hooks",
        "num_outputs",
        "op_attrs",
        "record",
        "run_device",
        "saved_variables",
        "sequence_nr",
    )

    record: Any
    next_edges: tuple[Edge, ...]
    needs_grad: tuple[bool, ...]
    op_attrs: Any
    saved_variables: tuple[SavedVariable | None, ...] | None
    run_device: Device
    num_outputs: int
    sequence_nr: int
    # The leaf that an accumulating node adds to; no other node has one.
    accumulates_into: Any = None
    # Runs a node on tensors; set by the module that can.
    runner: Callable[[Any, tuple[Any, ...]], Any]

    def name(self) -> str:
        """The op's name and ``Backward0``, like PyTorch's."""
        return str(self.record.node_name)

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """One ``(node, output number)`` for each differentiable input; ``(None, 0)`` where no gradient is needed."""
        return self.next_edges

    def edge_of_output(self, number: int) -> Edge:
        """The edge that one of this node's outputs has."""
        return (self, number)

    def saved_values(self) -> tuple[SavedVariable | None, ...]:
        """What the node saved.

        Raises:
            RuntimeError: if it was freed.
        """
        if self.saved_variables is None:
            raise RuntimeError(SECOND_TIME)
        return self.saved_variables

    def release(self) -> None:
        """Free what the node saved; its edges stay, so that the graph can still be walked.

        Raises:
            RuntimeError: if a pass on another thread has freed it in the meantime: one of them must lose.
        """
        for value in self.saved_variables or ():
            if value is not None:
                break
        else:
            if self.saved_variables is None:
                raise RuntimeError(SECOND_TIME)
            return
        # No other thread gets between the reading and the writing: the interpreter switches at calls and jumps back.
        taken, self.saved_variables = self.saved_variables, None
        if taken is None:
            raise RuntimeError(SECOND_TIME)

    @leaves_no_tensors
    def __call__(self, *gradients: Any) -> Any:
        """Run this node alone: the gradients of its inputs, from those of its outputs.

        Raises:
            RuntimeError: if what it saved was freed.
        """
        return Node.runner(self, gradients)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle or copy {self.name()}: a node belongs to the graph of this process")


@Node.register
class AccumulateGrad(Watched):
    """Adds what arrives to the ``grad`` of a leaf.

    Made when an op first uses the leaf, shared by all graphs that use it at the same time. It holds the leaf; the leaf
    holds it weakly.
    """

    __slots__ = ("__weakref__", "_notes", "accumulates_into", "node_hooks")

    next_edges: tuple[Edge, ...] = ()
    next_functions: tuple[Edge, ...] = ()
    needs_grad: tuple[bool, ...] = ()
    saved_variables: tuple[SavedVariable | None, ...] = ()
    num_outputs = 1
    # Runs before everything else that is ready.
    sequence_nr = _ACCUMULATE_NUMBER

    def __init__(self, leaf: Any) -> None:
        self.accumulates_into = leaf
        self.node_hooks = None

    @property
    def variable(self) -> Any:
        """The leaf."""
        return self.accumulates_into

    @property
    def run_device(self) -> Device:
        return self.accumulates_into._storage.device  # type: ignore[no-any-return]

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
    node = tensor._grad_fn
    if node is not None:
        return (node, tensor._output_nr)
    if not tensor._requires_grad:
        return NO_EDGE
    meta = tensor._meta
    if meta is not None and meta.accumulator is not None:
        accumulator = meta.accumulator()
        if accumulator is not None:
            return (accumulator, 0)
    accumulator = AccumulateGrad(tensor)
    tensor._metadata().accumulator = weakref.ref(accumulator)
    return (accumulator, 0)
