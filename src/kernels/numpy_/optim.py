"""Optimizer steps: each tile of parameter, gradient and state goes through the whole step while it is in the cache.

The order of operations is PyTorch's (single tensor, not capturable). All arrays of a step have one shape and dtype;
parameter and state are updated in place. What is stored as float16 or bfloat16 is computed in float32.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ...memory import SMALL_BYTES
from ..executor import Array
from .optim_tiles import add_square, effective_gradient, lerp, update_tiles

__all__ = [
    "adamw_step",
    "sgd_step",
]


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
    root2 = math.sqrt(1 - beta2**step)
    step_size = lr / (1 - beta1**step)

    def tile(g: Array, p: Array, m: Array, v: Array, *rest: Array) -> None:
        t, s = rest[-2:]
        if weight_decay and decoupled:
            np.multiply(p, 1 - lr * weight_decay, p)
        g = effective_gradient(g, p, t, s, 0.0 if decoupled else weight_decay, maximize)
        lerp(m, g, 1 - beta1, s)
        add_square(v, g, beta2, 1 - beta2, s)
        if max_exp_avg_sq is not None:
            v = np.maximum(rest[0], v, out=rest[0])
        np.sqrt(v, s)
        np.divide(s, root2, s)
        np.add(s, eps, s)
        np.multiply(m, -step_size, t)
        np.divide(t, s, s)
        np.add(p, s, p)

    states = [exp_avg, exp_avg_sq] if max_exp_avg_sq is None else [exp_avg, exp_avg_sq, max_exp_avg_sq]
    update_tiles(tile, grad, [param, *states])


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
    if momentum_buf is None and not weight_decay and not maximize:
        if param.nbytes < SMALL_BYTES and param.dtype.itemsize > 2:
            np.add(param, np.multiply(grad, -lr), param)
        else:
            update_tiles(functools.partial(_descend, -lr), grad, [param], work=1)
        return

    def tile(g: Array, p: Array, *rest: Array) -> None:
        t, s = rest[-2:]
        g = effective_gradient(g, p, t, s, weight_decay, maximize)
        if momentum_buf is not None:
            buf = rest[0]
            if first:
                np.copyto(buf, g)
            else:
                np.multiply(buf, momentum, buf)
                np.multiply(g, 1 - dampening, s)
                np.add(buf, s, buf)
            if nesterov:
                np.multiply(buf, momentum, s)
                g = np.add(g, s, s)
            else:
                g = buf
        _descend(-lr, g, p, s)

    states = [] if momentum_buf is None else [momentum_buf]
    update_tiles(tile, grad, [param, *states])


def _descend(factor: float, grad: Array, param: Array, work: Array) -> None:
    np.multiply(grad, factor, work)
    np.add(param, work, param)
