"""Second derivatives of fused ops: differentiate the same function written with plain ops.

A fused backward is not recorded. Under ``create_graph`` the op is composed again from differentiable ops on its saved
inputs, and that is differentiated in their place. This costs the memory that the fused op saves, and only then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..node import gradient_edge
from .shape import view

# Set by the module that has `grad`, which stands above the ops.
_grad: Callable[..., tuple[Any, ...]] | None = None


def use_grad(function: Callable[..., tuple[Any, ...]]) -> None:
    """Tell the ops how to differentiate: `stowgrad.autograd.grad`."""
    global _grad
    _grad = function


def differentiated(
    compose: Callable[..., Any], inputs: tuple[Any, ...], needs: tuple[bool, ...], grad: Any
) -> tuple[Any, ...]:
    """The gradients of ``compose(*inputs)`` where they are needed, recorded; None elsewhere."""
    assert _grad is not None, "stowgrad.autograd sets this when it is imported"
    inputs = _apart(inputs, needs)
    wanted = [tensor for tensor, needed in zip(inputs, needs, strict=True) if needed]
    found = iter(_grad(compose(*inputs), wanted, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if needed else None for needed in needs)


def _apart(inputs: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
    """The inputs, with views for those that come twice: each would get the gradients of all of its places."""
    edges = [gradient_edge(tensor) if needed else None for tensor, needed in zip(inputs, needs, strict=True)]
    return tuple(
        view(tensor, tensor.shape) if edge is not None and edges.count(edge) > 1 else tensor
        for tensor, edge in zip(inputs, edges, strict=True)
    )
