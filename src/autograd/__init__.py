"""The graph: tensors, nodes, the engine and the ops."""

from __future__ import annotations

from . import graph
from .backward import backward, grad
from .engine import current_graph_task_id
from .function import Function
from .grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .node import GradientEdge, Node
from .ops.recompose import use_grad
from .tensor import Tensor

use_grad(grad)

__all__ = [
    "Function",
    "GradientEdge",
    "Node",
    "Tensor",
    "backward",
    "current_graph_task_id",
    "enable_grad",
    "grad",
    "graph",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
