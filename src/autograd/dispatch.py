"""The one path of every op: check, infer, lease, compute, wrap, record.

NOTE [ The path of an op ]
1. Devices must agree; dtypes are promoted by the op itself before it gets here.
2. ``infer`` says what comes out; the pool leases it (the limit acts here); the kernel fills it.
3. Only then the result is wrapped and, if anything requires grad, recorded: values are saved after the kernel has
   written them, and if saving fails, the result is dropped and nothing has changed.
4. An error leaves operands, results, what was cast and what was saved behind: the entry that it leaves the library by
   clears the frames that held them (NOTE [ Entries ]).
5. Small element-wise work on the CPU takes a shorter way through the same steps: NumPy allocates the result, which the
   pool adopts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import CPU, META, SMALL_BYTES, Device, MemoryPool, Storage, events, pool
from ..saved_tensors.hooks import saved_tensors_hooks
from ..saved_tensors.saved_variable import NO_HOOKS, Edge, SavedVariable, packed_by_a_pair
from ..saved_tensors.state import State, current, set_state
from .node import NO_EDGE, Node, gradient_edge, next_number
from .record import Record
from .variable import Variable

SCALARS = (bool, int, float, complex)
# Casts an op's inputs, as soon as some code has run under autocast: set by autocast_mode.py, which stands above.
cast_arguments: Callable[[Record, tuple[Any, ...]], tuple[Any, ...]] | None = None


class Op(Record):
    """A record that can be called on tensors.

    Attributes:
        small: what computes the op on small arrays of the CPU and returns a new array: NumPy's ufunc, or (for what
            only backward uses) a few of them; None where small arrays go the long way too. Of several arrays it may
            return None: the result is not small.
        small_marked: the same of an op with several results or auxiliary ones: returns all of them (`whole.FewOp`).
    """

    small: Any = None
    small_marked: Any = None

    def run_arrays(self, device: Device, *args: Any) -> Any:
        """Compute on arrays of a device, recording nothing: what formulas of other ops call in backward."""
        if not events.observers:
            results = execute(self, device, list(args), "temporary")
        else:
            with events.span("op", self.name, self):
                results = execute(self, device, list(args), "temporary")
        return results[0][0] if self.outputs == 1 else tuple([array for array, _ in results[: self.outputs]])

    def __call__(self, *args: Any) -> Any:
        return apply(self, *args)


def apply(op: Record, *args: Any) -> Any:
    """Run an op on tensors (first) and attributes (after them), and record it if a gradient may be asked for."""
    if cast_arguments is not None:
        args = cast_arguments(op, args)
    if not events.observers:
        return _applied(op, args)
    with events.span("op", op.name, op):
        return _applied(op, args)


def _applied(op: Record, args: tuple[Any, ...]) -> Any:
    tensors = args[: op.inputs]
    device = common_device(op.name, tensors)
    tensor_class = Variable._tensor_class
    given = [value._array if isinstance(value, tensor_class) else value for value in tensors]
    given += args[op.inputs :]
    state = current()
    if state.followers:
        results = _followed(op, device, given, tensors, state.followers)
    else:
        results = execute(op, device, given, "activation")
    wrap = tensor_class._wrap
    outs = [wrap(array, storage) for array, storage in results]
    if state.inference:
        for out in outs:
            out._storage.mark_inference()
    elif op.differentiable and state.grad_enabled:
        needs = tuple([isinstance(tensor, tensor_class) and tensor._requires_grad for tensor in tensors])
        if True in needs:
            record(op, needs, tensors, outs, op.attrs(*given), device)
    return outs[0] if op.outputs == 1 else tuple(outs[: op.outputs])


def _followed(
    op: Record, device: Device, args: list[Any], tensors: tuple[Any, ...], followers: tuple[Any, ...]
) -> list[tuple[Any, Storage]]:
    """`execute`, unless one of those who follow ops has the results; all of them are told."""
    results = None
    for follower in followers:
        given = follower.before_op(op.name, tensors)
        results = results if given is None else given
    if results is None:
        results = execute(op, device, args, "activation")
    for follower in followers:
        follower.after_op(op.name, tensors, results)
    return results


def execute(op: Record, device: Device, args: list[Any], category: str) -> list[tuple[Any, Storage]]:
    """Compute an op on arrays: its results, auxiliary ones included, each with its storage."""
    source = pool(device)
    take = source.lease if device is not CPU or events.observers else source.lease_or_adopt
    results = [take(shape, dtype, category) for shape, dtype in op.infer(*args)]
    outs = [array for array, _ in results]
    if op.rearranges:
        outs = op.arranged(outs)
        results = [(array, storage) for array, (_, storage) in zip(outs, results)]
    if device is META:
        return results
    workspace = op.workspace(*args) if op.has_workspace else 0
    if workspace:
        with source.charge(workspace):
            op.kernel(backend(device.type), *args, *outs)
    else:
        op.kernel(backend(device.type), *args, *outs)
    return results


def record(
    op: Record, needs: tuple[bool, ...], tensors: tuple[Any, ...], outs: list[Any], attrs: Any, device: Device
) -> Node:
    """Give results a history: a node with edges to the inputs, and what the derivative will read.

    Raises:
        Exception: whatever a pack hook raises; the results have no history then.
        NotImplementedError: for an op that saves complex numbers.
    """
    node = Node()
    node.record = op
    node.needs_grad = needs
    node.op_attrs = attrs
    node.run_device = device
    node.num_outputs = op.outputs
    node.node_hooks = None
    node.next_edges = tuple(
        [gradient_edge(tensor) if needed else NO_EDGE for tensor, needed in zip(tensors, needs, strict=True)]
    )
    node.saved_variables = _saved_for(node, op, needs, tensors, outs) if op.saves else ()
    node.sequence_nr = next_number()
    for number, out in enumerate(outs[: op.outputs] if op.auxiliary else outs):
        dtype = out._array.dtype
        if dtype is FLOAT32 or dtype.kind in "fcV":
            out._grad_fn = node
            out._output_nr = number
            out._requires_grad = True
    for observer in events.observers:
        observer.recorded(node)
    return node


def _saved_for(
    node: Node, op: Record, needs: tuple[bool, ...], tensors: tuple[Any, ...], outs: list[Any]
) -> tuple[SavedVariable | None, ...]:
    """What a node keeps, slot by slot; of complex values it notes that they are."""
    saved: list[SavedVariable | None] = []
    edges = node.next_edges
    packs = current().hooks or events.observers
    for slot in op.plan(needs):
        value = None if slot is None else (outs if slot.output else tensors)[slot.position]
        if slot is None or not isinstance(value, Variable):
            saved.append(None)
            continue
        dtype = value._array.dtype
        if dtype is not FLOAT32 and dtype.kind == "c":
            node.record = op.for_complex()
        edge = None
        if slot.output:
            differentiable = slot.position < op.outputs and dtype.kind in "fcV"  # indices have no history
            number = slot.position if differentiable else -1
        else:
            number, edge = -1, edges[slot.position]
            if edge[0] is None:
                edge = None
        saved.append(save(op, slot.name, value, edge, number) if packs else _kept(op, value, edge, number))
    return tuple(saved)


def save(op: Record, slot: str, value: Any, edge: Any, number: int) -> SavedVariable:
    """Keep one value for a node, in the hands of the hooks that are active."""
    saved = _kept(op, value, edge, number)
    if current().hooks or events.observers:
        saved.pack(value, op.name, slot)
    return saved


def _kept(op: Record, value: Any, edge: Any, number: int) -> SavedVariable:
    if op.complex_saved is None and value._array.dtype.kind == "c":  # an error, not a wrong gradient
        raise NotImplementedError(
            f"{op.name}: gradients of complex tensors are not implemented for this operation; use detach() or no_grad()"
            " where no gradient is needed"
        )
    return SavedVariable(value, edge, number)


def common_device(name: str, tensors: tuple[Any, ...]) -> Device:
    """The device of the operands.

    Raises:
        RuntimeError: if they are on different ones.
        TypeError: if one of them is no tensor.
    """
    found: Device | None = None
    for tensor in tensors:
        if not isinstance(tensor, Variable):
            if tensor is None or isinstance(tensor, SCALARS):
                continue
            raise TypeError(f"{name}: expected a Tensor, got {type(tensor).__name__}")
        device = tensor._storage.pool.device
        if found is None:
            found = device
        elif device is not found:
            raise RuntimeError(
                f"{name}: Expected all tensors to be on the same device, but found at least two devices, {found} and"
                f" {device}; move one of them with .to()"
            )
    return found if found is not None else CPU


# -- small element-wise work on the CPU ------------------------------------------------------------------------------

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# Which operands need gradients, at hand: what is made for each op anew, the collector looks at anew.
_FIRST, _SECOND, _BOTH = (True, False), (False, True), (True, True)
_cpu: MemoryPool | None = None
_new = object.__new__


def cpu_pool() -> MemoryPool:
    """The CPU's pool, kept at hand."""
    global _cpu
    if _cpu is None:
        _cpu = pool(CPU)
    return _cpu


def small_unary(op: Op, x: Any) -> Any:
    """The short way (note, rule 5) of an op on one operand; None where it does not apply."""
    a = x._array
    dtype = a.dtype
    if a.nbytes >= SMALL_BYTES or (dtype is not FLOAT32 and dtype is not FLOAT64) or not a.ndim:
        return None
    source, state = x._storage.pool, current()
    if source is not (_cpu or cpu_pool()) or events.observers or state.followers:
        return None
    out = _adopted(source, op.small(a, order="C"))
    if x._requires_grad and state.grad_enabled:
        node = x._grad_fn
        edge = (node, x._output_nr) if node is not None else gradient_edge(x)
        _record_small(op, (True,), (edge,), (x,), out, state)
    elif state.inference:
        out._storage.mark_inference()
    return out


def small_binary(op: Op, x: Any, y: Any) -> Any:
    """The short way (note, rule 5) of an op on two operands; None where it does not apply."""
    a, b = x._array, y._array
    dtype, ndim = a.dtype, a.ndim
    if a.nbytes >= SMALL_BYTES or a.shape != b.shape or dtype is not b.dtype:
        return None
    if (dtype is not FLOAT32 and dtype is not FLOAT64) or not ndim or events.observers:
        return None
    source, state = x._storage.pool, current()
    if source is not y._storage.pool or source is not (_cpu or cpu_pool()) or state.followers:
        return None
    out = _adopted(source, op.small(a, b) if ndim == 1 else op.small(a, b, order="C"))
    needs_x, needs_y = x._requires_grad, y._requires_grad
    if (needs_x or needs_y) and state.grad_enabled and op.differentiable:
        edge_x = edge_y = NO_EDGE
        if needs_x:
            node = x._grad_fn
            edge_x = (node, x._output_nr) if node is not None else gradient_edge(x)
        if needs_y:
            node = y._grad_fn
            edge_y = (node, y._output_nr) if node is not None else gradient_edge(y)
        needs = (_BOTH if needs_y else _FIRST) if needs_x else _SECOND
        _record_small(op, needs, (edge_x, edge_y), (x, y), out, state)
    elif state.inference:
        out._storage.mark_inference()
    return out


def _adopted(source: MemoryPool, array: Any) -> Any:
    out = _new(Variable._tensor_class)
    out._array = array
    out._storage = source.adopt_small(array, "activation")
    out._grad_fn = None
    out._output_nr = 0
    out._requires_grad = False
    out._meta = None
    return out


def _record_small(
    op: Op, needs: tuple[bool, ...], edges: tuple[Edge, ...], inputs: tuple[Any, ...], out: Any, state: State
) -> None:
    """`record` without what small element-wise work does not have: other outputs, attributes, devices, observers."""
    node = Node()
    node.record = op
    node.needs_grad = needs
    node.op_attrs = None
    node.run_device = CPU
    node.num_outputs = 1
    node.node_hooks = None
    node.next_edges = edges
    if not op.saves:
        node.saved_variables = ()
    elif state.hooks:
        node.saved_variables = _packed_small(op, needs, edges, inputs, out, state)
    else:
        saves: list[SavedVariable | None] = []
        for slot in op.plan(needs):
            if slot is None:
                saves.append(None)
            elif slot.output:
                saves.append(SavedVariable(out, None, 0))
            else:
                edge = edges[slot.position]
                saves.append(SavedVariable(inputs[slot.position], edge if edge[0] is not None else None, -1))
        node.saved_variables = tuple(saves)
    node.sequence_nr = next_number()
    out._grad_fn, out._requires_grad = node, True


def _packed_small(
    op: Op, needs: tuple[bool, ...], edges: tuple[Edge, ...], inputs: tuple[Any, ...], out: Any, state: State
) -> tuple[SavedVariable | None, ...]:
    """What the active hooks make of the values that a node keeps; a raw pair alone is called without detours."""
    plan, hooks = op.plan(needs), state.hooks
    if len(hooks) == 1 and type(hooks[0]) is saved_tensors_hooks:
        try:
            set_state(NO_HOOKS)
            return packed_by_a_pair(hooks[0], plan, inputs, edges, out, op.name)
        finally:
            set_state(state)
    saves: list[SavedVariable | None] = []
    for slot in plan:
        if slot is None:
            saves.append(None)
            continue
        edge = NO_EDGE if slot.output else edges[slot.position]
        value, number = (out, 0) if slot.output else (inputs[slot.position], -1)
        saved = SavedVariable(value, edge if edge[0] is not None else None, number)
        saved.pack(value, op.name, slot.name)
        saves.append(saved)
    return tuple(saves)
