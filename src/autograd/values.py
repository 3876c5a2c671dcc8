"""What the engine sends through a graph: arrays, or tensors where the pass itself is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import META, SMALL_BYTES, Storage, events, storage_of
from ..saved_tensors.state import call_outside, current, set_state
from .arrays import do_on, do_on_tensors, known, overlaps_itself
from .flat import with_history
from .node import SECOND_TIME, Node
from .ops.cast import clone
from .ops.elementwise import add
from .placed import Placed
from .variable import Variable

# In place of saved variables: a user's backward may let go of them early.
_HELD_BY_THE_NODE = (None,)
ndarray, add_ufunc = np.ndarray, np.add


class OnArrays:
    """Gradients are arrays; nothing is recorded."""

    recorded = False

    def of(self, tensor: Any) -> Any:
        """The gradient that a tensor stands for."""
        return tensor._array

    def tensor(self, gradient: Any) -> Any:
        """A tensor that stands for a gradient."""
        storage = storage_of(gradient)
        assert storage is not None, "gradients always lie in a pool"
        return Variable._tensor_class._wrap(gradient, storage)

    def call(self, hook: Any, *args: Any) -> Any:
        """Call a hook of the user's: it sees the saved-tensor hooks that the pass hides from its nodes."""
        return call_outside(hook, *args)

    def run(self, node: Any, gradients: list[Any], keep: bool) -> tuple[Any, ...]:
        """The gradients of a node's inputs; what it saved is freed then, unless ``keep`` says otherwise."""
        op = node.record
        variables = node.saved_variables
        do = known.get(node.run_device) or do_on(node.run_device)
        results: tuple[Any, ...]
        if gradients[0] is None and not any(g is not None for g in gradients) and not op.runs_without_gradients:
            results = (None,) * len(node.next_edges)
        elif not op.reads_saved:
            variables = variables and _HELD_BY_THE_NODE
            results = op.backward(do, node, (), *gradients)
        else:
            saved: Any = []
            if variables is None:
                raise RuntimeError(SECOND_TIME)
            for value in variables:
                if value is None:
                    saved.append(None)
                elif value.plain is not None and value.storage.version == value.version:
                    saved.append(value.plain)
                else:
                    saved = _unpacked(variables, node)
                    break
            if op.consumes_saved and not keep and not _has_packed(variables):
                variables = None
                node.release()  # first: what a failure leaves half done is not read again
                return op.backward_once(do, node, saved, *gradients)  # type: ignore[no-any-return]
            if node.num_outputs == 1:  # without a detour that the interpreter takes for ``*``
                results = op.backward(do, node, saved, gradients[0])
            else:
                results = op.backward(do, node, saved, *gradients)
        if variables and not keep:
            if variables[0] is None:
                node.release()
            else:  # the same without a call
                taken, node.saved_variables = node.saved_variables, None
                if taken is None:
                    raise RuntimeError(SECOND_TIME)
        return results

    def add(self, x: Any, y: Any) -> Any:
        """The sum, in memory of its own."""
        storage = storage_of(x)
        assert storage is not None, "gradients always lie in a pool"
        return do_on(storage.device)(add, x, y)

    def add_into(self, buffer: list[Any], number: int, gradient: Any) -> None:
        """Add to the sum in a buffer, in place."""
        total = buffer[number]
        if type(total) is ndarray and total.nbytes < SMALL_BYTES:
            add_ufunc(total, gradient, total)
        else:
            _add_in_place(total, gradient)

    def placed(self, total: Any, owned: bool, placed: Placed) -> Any:
        """A sum of gradients (or None) with the gradient of a part added: in place if it is owned, in a copy if not."""
        if total is None:
            return placed.whole()
        if not owned:
            storage = storage_of(total)
            assert storage is not None, "gradients always lie in a pool"
            total = do_on(storage.device)(clone, total)
        placed.added_to(total)
        return total

    def kept(self, gradient: Any, owned: bool, category: str = "gradient") -> Any:
        """A gradient as a tensor to keep: the array itself if nobody else has it, a copy otherwise."""
        storage = storage_of(gradient)
        assert storage is not None, "gradients always lie in a pool"
        # What a kernel made lies in C order; an array of the meta device can't show that it does.
        in_order = gradient.flags.c_contiguous or storage.device is META
        if owned and in_order and gradient.nbytes == storage.nbytes and storage.version == 0:
            storage.pool.relabel(storage, category)
            return _leaf_gradient(gradient, storage)
        copy, storage = storage.pool.lease(gradient.shape, gradient.dtype, category)
        if storage.device is not META:
            backend(storage.device.type).copy(gradient, copy)
        return _leaf_gradient(copy, storage)

    def accumulated(self, grad: Any, gradient: Any) -> Any:
        """A leaf's gradient with more added to it: in place, it stays the same tensor."""
        if grad._requires_grad:
            return add(grad, self.tensor(gradient))
        if overlaps_itself(grad._array) and grad._storage.device is not META:  # a user's expanded tensor
            return self.kept(self.add(grad._array, gradient), owned=True)
        _add_in_place(grad._array, gradient)
        grad._storage.version += 1
        return grad


def _leaf_gradient(array: Any, storage: Storage) -> Any:
    """A gradient as a tensor, an inference tensor in that mode."""
    if current().inference:
        storage.mark_inference()
    return Variable._tensor_class._wrap(array, storage)


def _unpacked(variables: tuple[Any, ...], node: Any) -> list[Any]:
    """What a node saved, as arrays; what unpack hooks leave of the state that they run under does not stay.

    No comprehensions: the frame of one, which an error keeps, would hold the node and what it saved.
    """
    state = current()
    found: list[Any] = []
    for value in variables:
        if value is None:
            found.append(None)
        elif value.plain is not None or events.observers:
            found.append(value.array(node))
        else:
            found.append(value.load_array(node))
    if current() is not state:
        set_state(state)
    return found


def _has_packed(variables: tuple[Any, ...]) -> bool:
    """Whether hooks have any of the saved values: what they give back may be theirs."""
    return any(value is not None and value.plain is None for value in variables)


class OnTensors:
    """Gradients are tensors, and the pass is recorded."""

    recorded = True

    def of(self, tensor: Any) -> Any:
        """The gradient that a tensor stands for."""
        return tensor

    def tensor(self, gradient: Any) -> Any:
        """A tensor that stands for a gradient."""
        return gradient

    def call(self, hook: Any, *args: Any) -> Any:
        """Call a hook of the user's."""
        return hook(*args)

    def run(self, node: Any, gradients: list[Any], keep: bool) -> tuple[Any, ...]:
        """The gradients of a node's inputs, with a history of their own; as in `OnArrays`."""
        op = node.record
        variables = node.saved_variables
        results: tuple[Any, ...]
        if not any(g is not None for g in gradients) and not op.runs_without_gradients:
            results = (None,) * len(node.next_edges)
        else:
            saved: tuple[Any, ...] = ()
            if op.reads_saved:
                cls = Variable._tensor_class
                values = node.saved_values()
                saved = tuple([None if value is None else value.tensor(node, cls) for value in values])
            else:
                variables = variables and _HELD_BY_THE_NODE
            results = op.formula(do_on_tensors, node, saved, *gradients)
            if op.flat:
                results = with_history(node, results)
        if variables and not keep:
            node.release()
        return results

    def add(self, x: Any, y: Any) -> Any:
        """The sum."""
        return add(x, y)

    def placed(self, total: Any, owned: bool, placed: Any) -> Any:
        """Never asked for: formulas on tensors fill in the zeros."""
        raise AssertionError("a formula on tensors returned a Placed gradient")

    def add_into(self, buffer: list[Any], number: int, gradient: Any) -> None:
        """Replace the sum in a buffer."""
        buffer[number] = add(buffer[number], gradient)

    def kept(self, gradient: Any, owned: bool, category: str = "gradient") -> Any:
        """A gradient as a tensor to keep: a copy that has the gradient's history."""
        return clone(gradient)

    def accumulated(self, grad: Any, gradient: Any) -> Any:
        """The sum, as a new tensor."""
        return add(grad, gradient)


def whole(results: Any) -> tuple[Any, ...]:
    """Gradients as they are, those of parts with the zeros around them."""
    return tuple([result.whole() if type(result) is Placed else result for result in results])


def _run_alone(node: Any, gradients: tuple[Any, ...]) -> Any:
    """What calling a node does; recorded if grad mode is on."""
    state = current()
    values = OnTensors() if state.grad_enabled else OnArrays()
    given = [None if gradient is None else values.of(gradient) for gradient in gradients]
    try:
        if not state.grad_enabled:
            set_state(state.for_pass())
        results = whole(values.run(node, given, True))
    finally:
        set_state(state)
    tensors = tuple([None if result is None else values.tensor(result) for result in results])
    return tensors[0] if len(tensors) == 1 else tensors


Node.runner = staticmethod(_run_alone)


def _add_in_place(total: Any, gradient: Any) -> None:
    if type(total) is ndarray and total.nbytes < SMALL_BYTES:
        add_ufunc(total, gradient, total)
        return
    storage = storage_of(total)
    assert storage is not None, "gradients always lie in a pool"
    if storage.device is not META:
        backend(storage.device.type).accumulate_(gradient, total)
