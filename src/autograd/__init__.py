"""The graph: tensors, nodes, the engine and the ops."""

from __future__ import annotations

from . import graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .backward import backward, grad
from .engine import current_graph_task_id
from .function import Function
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .gradcheck import gradcheck, gradgradcheck
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
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
