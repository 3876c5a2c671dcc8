"""The graph and its hooks under PyTorch's path, ``stowgrad.autograd.graph``."""

from __future__ import annotations

from typing import Any

from ..offload import save_on_cpu
from ..saved_tensors import saved_tensors_hooks
from .node import GradientEdge, Node, gradient_edge

__all__ = ["GradientEdge", "Node", "get_gradient_edge", "save_on_cpu", "saved_tensors_hooks"]


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of a tensor arrives: for `grad` in place of the tensor, which need not be kept then.

    Raises:
        RuntimeError: if the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*gradient_edge(tensor))
