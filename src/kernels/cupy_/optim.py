"""Optimizer steps: parameter, gradient and state go through the whole step in one launch.

The order of operations is PyTorch's (single tensor, not capturable). All arrays of a step have one shape and dtype;
parameter and state are updated in place.
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = [
    "adamw_step",
    "sgd_step",
]

# Gradient g of a parameter p: its sign turned, weight decay added.
EFFECTIVE = "W p = (W)param, g = maximize ? -(W)grad : (W)grad; g += (W)added_decay * p;"
_ADAMW = """
    {effective}
    p *= (W)shrink;
    W m = (W)exp_avg, v = (W)exp_avg_sq;
    m = beta1 > 0.5 ? m + (W)(1 - beta1) * (g - m) : g - (W)beta1 * (g - m);
    v = (W)beta2 * v + (W)(1 - beta2) * g * g;
    exp_avg = (T)m;
    exp_avg_sq = (T)v;
    {most}
    param = (T)(p - (W)step_size * m / (sqrt(v) / (W)root2 + (W)eps));
"""
_ADAMW_PARAMETERS = (
    "T grad, float64 shrink, float64 added_decay, bool maximize, float64 beta1, float64 beta2, float64 eps,"
    " float64 step_size, float64 root2"
)
_ADAMW_STEP = cupy.ElementwiseKernel(
    _ADAMW_PARAMETERS,
    "T param, T exp_avg, T exp_avg_sq",
    _ADAMW.format(effective=EFFECTIVE, most=""),
    "stowgrad_adamw",
    preamble=WIDE,
)
_AMSGRAD_STEP = cupy.ElementwiseKernel(
    _ADAMW_PARAMETERS,
    "T param, T exp_avg, T exp_avg_sq, T max_exp_avg_sq",
    _ADAMW.format(
        effective=EFFECTIVE,
        most="if (!(v <= (W)max_exp_avg_sq)) max_exp_avg_sq = (T)v; v = (W)max_exp_avg_sq;",
    ),
    "stowgrad_amsgrad",
    preamble=WIDE,
)
_SGD_STEP = cupy.ElementwiseKernel(
    "T grad, float64 added_decay, bool maximize, float64 lr",
    "T param",
    f"{EFFECTIVE} param = (T)(p - (W)lr * g);",
    "stowgrad_sgd",
    preamble=WIDE,
)
_MOMENTUM_STEP = cupy.ElementwiseKernel(
    "T grad, float64 added_decay, bool maximize, float64 lr, float64 momentum, float64 dampening, bool nesterov,"
    " bool first",
    "T param, T buffer",
    f"""
    {EFFECTIVE}
    W b = first ? g : (W)momentum * (W)buffer + (W)(1 - dampening) * g;
    buffer = (T)b;
    param = (T)(p - (W)lr * (nesterov ? g + (W)momentum * b : b));
    """,
    "stowgrad_momentum",
    preamble=WIDE,
)


@kernel
def adamw_step(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    max_exp_avg_sq: Array | None = None,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    maximize: bool = False,
    decoupled: bool = True,
) -> None:
    """One step of AdamW, or of Adam if not ``decoupled``; AMSGrad if ``max_exp_avg_sq`` is given.

    ``step`` counts from 1.
    """
    shrink, added = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    sizes = lr / (1 - beta1**step), math.sqrt(1 - beta2**step)
    values = (grad, shrink, added, maximize, beta1, beta2, eps, *sizes, param, exp_avg, exp_avg_sq)
    if max_exp_avg_sq is None:
        _ADAMW_STEP(*values)
    else:
        _AMSGRAD_STEP(*values, max_exp_avg_sq)


@kernel
def sgd_step(
    param: Array,
    grad: Array,
    momentum_buf: Array | None,
    *,
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    first: bool = False,
    maximize: bool = False,
) -> None:
    """One step of stochastic gradient descent; ``first`` sets the momentum buffer to the gradient."""
    if momentum_buf is None:
        _SGD_STEP(grad, weight_decay, maximize, lr, param)
    else:
        _MOMENTUM_STEP(grad, weight_decay, maximize, lr, momentum, dampening, nesterov, first, param, momentum_buf)
