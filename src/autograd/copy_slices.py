"""`CopySlices`: the history of a tensor of which a part was written through a view."""

from __future__ import annotations

from typing import Any

from ..memory import Device
from ..saved_tensors.saved_variable import Edge, SavedVariable
from .dispatch import Op
from .flat import with_history
from .node import Node, gradient_edge, next_number
from .record import Do, Record, Spec
from .variable import Variable, ViewInfo


class PutPart(Op):
    """A copy of a tensor in which the part that a view looks at is replaced (by zeros, if None is given).

    Args:
        view: the view.

    The copy's dimensions lie in memory in the order of the base's: what could be viewed there can be viewed here.
    """

    name = "put_part"
    inputs = 2
    fresh = False

    def __init__(self, view: ViewInfo) -> None:
        super().__init__()
        strides = [abs(stride) for stride in view.base._array.strides]
        self._order = tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))
        self._back = tuple(self._order.index(dim) for dim in range(len(strides)))
        self.steps = tuple((step.op, step.args, step.attrs) for step in view.steps())

    def take(self, do: Do, whole: Any) -> Any:
        """The part."""
        for op, args, _ in self.steps:
            whole = op.take(do, whole, *args)
        return whole

    def infer(self, whole: Any, part: Any) -> tuple[Spec, ...]:
        return ((tuple(whole.shape[dim] for dim in self._order), whole.dtype),)

    def arranged(self, arrays: list[Any]) -> list[Any]:
        return [array.transpose(self._back) for array in arrays]

    def kernel(self, k: Any, whole: Any, part: Any, out: Any) -> None:
        k.copy(whole, out)
        target = out
        for op, args, _ in self.steps:
            target = op.view(target, *args)
        if part is None:
            k.fill(target, 0)
        else:
            k.copy(part, target)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        need_whole, need_part = node.needs_grad
        return do(self, grads[0], None) if need_whole else None, self.take(do, grads[0]) if need_part else None


class CopySlices(Node):
    """The node of a base, part of which was written.

    Attributes:
        inner: the node of the op that wrote, as if its target had not been a view.
        position: which of the inner node's inputs is the target.
        put: takes the part out of a gradient and puts it back.

    Its inputs are the base as it was before, then the other inputs of the inner node. What the inner node saved is
    freed together with this node.
    """

    __slots__ = ("inner", "position", "put")

    inner: Node
    position: int
    put: PutPart

    def __init__(self, inner: Node, position: int, view: ViewInfo) -> None:
        base = gradient_edge(view.base)
        self.inner = inner
        self.position = position
        self.put = PutPart(view)
        self.record = copy_slices
        self.op_attrs = None
        self.run_device = inner.run_device
        self.num_outputs = 1
        self.node_hooks = None
        self.next_edges = (base, *_without(inner.next_edges, position))
        self.needs_grad = (base[0] is not None, *_without(inner.needs_grad, position))
        self.sequence_nr = next_number()

    @property
    def saved_variables(self) -> tuple[SavedVariable | None, ...] | None:
        """What the inner node saved."""
        return self.inner.saved_variables

    @saved_variables.setter
    def saved_variables(self, values: tuple[SavedVariable | None, ...] | None) -> None:
        self.inner.saved_variables = values

    def edge_of_view(self) -> Edge:
        """The edge of the view as it was after the write."""
        edge: Edge = (self, 0)
        for op, _, attrs in self.put.steps:
            edge = (step_node(op, attrs, edge, self.run_device), 0)
        return edge

    def release(self) -> None:
        self.inner.release()


def _without(values: tuple[Any, ...], position: int) -> tuple[Any, ...]:
    return values[:position] + values[position + 1 :]


class _CopySlicesRecord(Record):
    """Runs the inner node's derivative on the part of the gradient that the view looks at."""

    name = "copy_slices"
    fresh = False
    # The inner node's are read here.
    reads_saved = False

    def __init__(self) -> None:
        super().__init__()
        self.node_name = "CopySlices"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        inner = node.inner
        values: Any = ()
        if inner.record.reads_saved:
            values = [None if value is None else value.array(inner) for value in inner.saved_values()]
        return _through(do, node, inner.record.backward, values, grads[0])

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        inner, cls, reader = node.inner, Variable._tensor_class, _Reader(node)
        values: Any = ()
        if inner.record.reads_saved:
            values = tuple([None if value is None else value.tensor(reader, cls) for value in inner.saved_values()])
        results = _through(do, node, inner.record.formula, values, grads[0])
        return with_history(node, results) if inner.record.flat else results


class _Reader:
    """Who reads the saved values of an inner node: a saved output comes from the view, so from `CopySlices`.

    It could come from the inner node as well; but that would run by itself then, and free what `CopySlices` needs.
    """

    def __init__(self, outer: CopySlices) -> None:
        self._outer = outer

    def name(self) -> str:
        """The name of the op."""
        return self._outer.inner.name()

    def edge_of_output(self, number: int) -> Edge:
        """The edge of a saved output."""
        return self._outer.edge_of_view()


def _through(do: Do, node: CopySlices, formula: Any, values: Any, grad: Any) -> tuple[Any, ...]:
    part = node.put.take(do, grad)
    results = formula(do, node.inner, values, part)
    base = results[node.position] if node.needs_grad[0] else None
    if node.needs_grad[0]:
        # An op that adds hands the part on as it got it: put back, it makes the gradient that there was.
        base = grad if base is part else do(node.put, grad, base)
    return base, *_without(tuple(results), node.position)


def step_node(record: Any, attrs: Any, edge: Edge, device: Device) -> Node:
    """A node of an op on one input that saves nothing."""
    node = Node()
    node.record = record
    node.needs_grad = (True,)
    node.op_attrs = attrs
    node.run_device = device
    node.num_outputs = 1
    node.node_hooks = None
    node.next_edges = (edge,)
    node.saved_variables = ()
    node.sequence_nr = next_number()
    return node


copy_slices = _CopySlicesRecord()
