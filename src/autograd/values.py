"""What the engine sends through a graph: arrays, or tensors where the pass itself is recorded."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import META, storage_of
from ..saved_tensors.state import Under, current
from .arrays import do_on, do_on_tensors, known, overlaps_itself
from .node import Node
from .ops.cast import clone
from .ops.elementwise import add
from .variable import Variable


class OnArrays:
    """Gradients are arrays; nothing is recorded.

    Args:
        keep_graph: whether saved values stay for another pass.
    """

    def __init__(self, keep_graph: bool) -> None:
        self._keep_graph = keep_graph

    def modes(self) -> AbstractContextManager[None]:
        """What the pass runs under."""
        return Under(grad_enabled=False)

    def of(self, tensor: Any) -> Any:
        """The gradient that a tensor stands for."""
        return tensor._array

    def tensor(self, gradient: Any) -> Any:
        """A tensor that stands for a gradient."""
        storage = storage_of(gradient)
        assert storage is not None, "gradients always lie in a pool"
        return Variable._tensor_class._wrap(gradient, storage)

    def run(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """The gradients of a node's inputs."""
        op = node.record
        if gradients[0] is None and not any(g is not None for g in gradients) and not op.runs_without_gradients:
            return (None,) * len(node.next_edges)
        saved: Any = ()
        if op.reads_saved and node.saved_variables != ():
            saved = []
            for value in node.saved_values():
                if value is None:
                    saved.append(None)
                elif value.storage.version == value.version and value.plain is not None:
                    saved.append(value.plain)
                else:
                    saved.append(value.array(node))
        do = known.get(node.run_device) or do_on(node.run_device)
        if (
            op.consumes_saved
            and not self._keep_graph
            and not any(v is not None and v.data for v in node.saved_values())
        ):
            node.release()  # first: what a failure leaves half done is not read again
            return op.backward_once(do, node, saved, *gradients)  # type: ignore[no-any-return]
        return op.backward(do, node, saved, *gradients)  # type: ignore[no-any-return]

    def add(self, x: Any, y: Any) -> Any:
        """The sum, in memory of its own."""
        storage = storage_of(x)
        assert storage is not None, "gradients always lie in a pool"
        return do_on(storage.device)(add, x, y)

    def add_into(self, buffer: list[Any], number: int, gradient: Any) -> None:
        """Add to the sum in a buffer, in place."""
        _add_in_place(buffer[number], gradient)

    def call_hook(self, hook: Any, gradient: Any, node: Any) -> Any:
        """What a tensor hook makes of a gradient."""
        given = None if gradient is None else self.tensor(gradient)
        changed = checked_hook_result(hook(given), given, node)
        return gradient if changed is None else changed._array

    def kept(self, gradient: Any, owned: bool, category: str = "gradient") -> Any:
        """A gradient as a tensor to keep: the array itself if nobody else has it, a copy otherwise."""
        storage = storage_of(gradient)
        assert storage is not None, "gradients always lie in a pool"
        # What a kernel made lies in C order; an array of the meta device can't show that it does.
        in_order = gradient.flags.c_contiguous or storage.device is META
        if owned and in_order and gradient.nbytes == storage.nbytes and storage.version == 0:
            storage.pool.relabel(storage, category)
            return Variable._tensor_class._wrap(gradient, storage)
        copy, storage = storage.pool.lease(gradient.shape, gradient.dtype, category)
        if storage.device is not META:
            backend(storage.device.type).copy(gradient, copy)
        return Variable._tensor_class._wrap(copy, storage)

    def accumulated(self, grad: Any, gradient: Any) -> Any:
        """A leaf's gradient with more added to it: in place, it stays the same tensor."""
        if grad._requires_grad:
            return add(grad, self.tensor(gradient))
        if overlaps_itself(grad._array) and grad._storage.device is not META:  # a user's expanded tensor
            return self.kept(self.add(grad._array, gradient), owned=True)
        _add_in_place(grad._array, gradient)
        grad._storage.version += 1
        return grad


def _has_packed(node: Any) -> bool:
    """Whether hooks have any of the node's saved values: what they give back may be theirs."""
    return any(value is not None and value.plain is None for value in node.saved_values())


class OnTensors:
    """Gradients are tensors, and the pass is recorded."""

    def modes(self) -> AbstractContextManager[None]:
        """What the pass runs under."""
        return Under(grad_enabled=True)

    def of(self, tensor: Any) -> Any:
        """The gradient that a tensor stands for."""
        return tensor

    def tensor(self, gradient: Any) -> Any:
        """A tensor that stands for a gradient."""
        return gradient

    def run(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """The gradients of a node's inputs, with a history of their own."""
        op = node.record
        if not any(g is not None for g in gradients) and not op.runs_without_gradients:
            return (None,) * len(node.next_edges)
        if op.reads_saved:
            values = node.saved_values()
            saved = tuple([None if value is None else value.tensor(node, Variable._tensor_class) for value in values])
        else:
            saved = ()
        return op.formula(do_on_tensors, node, saved, *gradients)  # type: ignore[no-any-return]

    def add(self, x: Any, y: Any) -> Any:
        """The sum."""
        return add(x, y)

    def add_into(self, buffer: list[Any], number: int, gradient: Any) -> None:
        """Replace the sum in a buffer."""
        buffer[number] = add(buffer[number], gradient)

    def call_hook(self, hook: Any, gradient: Any, node: Any) -> Any:
        """What a tensor hook makes of a gradient."""
        changed = checked_hook_result(hook(gradient), gradient, node)
        return gradient if changed is None else changed

    def kept(self, gradient: Any, owned: bool, category: str = "gradient") -> Any:
        """A gradient as a tensor to keep: a copy that has the gradient's history."""
        return clone(gradient)

    def accumulated(self, grad: Any, gradient: Any) -> Any:
        """The sum, as a new tensor."""
        return add(grad, gradient)


def _run_alone(node: Any, gradients: tuple[Any, ...]) -> Any:
    """What calling a node does; recorded if grad mode is on."""
    values = OnTensors() if current().grad_enabled else OnArrays(keep_graph=True)
    given = [None if gradient is None else values.of(gradient) for gradient in gradients]
    results = values.run(node, given)
    tensors = tuple([None if result is None else values.tensor(result) for result in results])
    return tensors[0] if len(tensors) == 1 else tensors


Node.runner = staticmethod(_run_alone)


def _add_in_place(total: Any, gradient: Any) -> None:
    if isinstance(total, np.ndarray) and total.nbytes < 4096:
        np.add(total, gradient, out=total)
        return
    storage = storage_of(total)
    assert storage is not None, "gradients always lie in a pool"
    if storage.device is not META:
        backend(storage.device.type).accumulate_(gradient, total)


def checked_hook_result(result: Any, given: Any, node: Any) -> Any:
    """What a tensor hook returned, if it is None or a tensor like the one that it got.

    Raises:
        TypeError: if it is neither.
        RuntimeError: if its shape or device differs.
    """
    if result is None:
        return None
    if not isinstance(result, Variable):
        raise TypeError(f"a tensor hook on {node.name()} must return a Tensor or None, got {type(result).__name__}")
    if given is not None and result._array.shape != given._array.shape:
        raise RuntimeError(
            f"a tensor hook on {node.name()} has changed the size of the gradient:"
            f" expected {list(given._array.shape)}, got {list(result._array.shape)}"
        )
    if given is not None and result._storage.device is not given._storage.device:
        raise RuntimeError(
            f"a tensor hook on {node.name()} has moved the gradient from {given._storage.device} to"
            f" {result._storage.device}"
        )
    return result
