"""The graph and its hooks under PyTorch's path, ``stowgrad.autograd.graph``."""

from __future__ import annotations

from typing import Any

from ..offload import save_on_cpu
from ..saved_tensors import allow_mutation_on_saved_tensors, disable_saved_tensors_hooks, saved_tensors_hooks
from .engine import current_graph_task_execution_order, current_graph_task_id, queue_callback
from .multi_hooks import register_multi_grad_hook
from .node import GradientEdge, Node, gradient_edge
from .variable import Variable

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "current_graph_task_execution_order",
    "current_graph_task_id",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of a tensor arrives: for `grad` in place of the tensor, which need not be kept then.

    Raises:
        RuntimeError: if the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    spec = tensor._array.shape, tensor._array.dtype, tensor._storage.device
    return GradientEdge(*gradient_edge(tensor), spec)


def increment_version(tensors: Any) -> None:
    """Say that tensors were changed in place where autograd could not see it: values saved before are stale then.

    Args:
        tensors: one tensor or several.
    """
    for tensor in (tensors,) if isinstance(tensors, Variable) else tuple(tensors):
        tensor._storage.version += 1
