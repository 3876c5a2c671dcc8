"""Gradients that do not change with the input they belong to, but for kinks: those of ``relu``, ``abs``, a maximum.

A formula makes such a gradient of marks, and so without a history. PyTorch's have one, which gives zeros: whoever asks
for the second derivative gets them, and no error. `with_history` adds the edge that this takes; nothing is saved.
"""

from __future__ import annotations

from typing import Any

from ..saved_tensors.saved_variable import Edge
from ..saved_tensors.state import current
from .dispatch import Op, record
from .ops.pointwise import zeros_like
from .record import Do
from .variable import Variable


class FlatGradient(Op):
    """A gradient, from itself and the input that it is of."""

    name = "flat_gradient"
    inputs = 2

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return None, do(zeros_like, grads[0])


flat_gradient = FlatGradient()


def with_history(node: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of a node's inputs, those without a history with an edge to their input."""
    if not current().grad_enabled:
        return results
    pairs = zip(results, node.next_edges, strict=True)
    return tuple([result if edge[0] is None or _has_one(result) else _attached(result, edge) for result, edge in pairs])


def _has_one(gradient: Any) -> bool:
    return gradient is None or gradient._requires_grad


def _attached(gradient: Any, edge: Edge) -> Any:
    array, storage = gradient._array, gradient._storage
    in_place_of_the_input = Variable._rebuild(array, storage, edge)
    out = gradient._alias()
    record(flat_gradient, (False, True), (gradient, in_place_of_the_input), [out], None, storage.device)
    return out
