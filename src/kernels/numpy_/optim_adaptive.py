"""Steps of the optimizers that scale each element of the gradient by its own history; as in ``optim.py``."""

from __future__ import annotations

import math

import numpy as np

from ..executor import Array
from .optim_tiles import add_square, effective_gradient, lerp, update_tiles
from .tiling import BOOL

__all__ = [
    "adadelta_step",
    "adagrad_step",
    "adamax_step",
    "asgd_step",
    "nadam_step",
    "radam_step",
    "rmsprop_step",
    "rprop_step",
]


def adagrad_step(
    param: Array, grad: Array, state_sum: Array, *, lr: float, eps: float, weight_decay: float, maximize: bool = False
) -> None:
    """One step of Adagrad."""

    def tile(g: Array, p: Array, total: Array, t: Array, s: Array) -> None:
        g = effective_gradient(g, p, t, s, weight_decay, maximize)
        np.multiply(g, g, s)
        np.add(total, s, total)
        np.sqrt(total, s)
        np.add(s, eps, s)
        np.multiply(g, -lr, t)
        np.divide(t, s, s)
        np.add(p, s, p)

    update_tiles(tile, grad, [param, state_sum])


def adadelta_step(
    param: Array,
    grad: Array,
    square_avg: Array,
    acc_delta: Array,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool = False,
) -> None:
    """One step of Adadelta."""

    def tile(g: Array, p: Array, v: Array, moved: Array, t: Array, s: Array, delta: Array) -> None:
        g = effective_gradient(g, p, t, s, weight_decay, maximize)
        add_square(v, g, rho, 1 - rho, s)
        np.add(v, eps, s)
        np.sqrt(s, s)
        np.add(moved, eps, delta)
        np.sqrt(delta, delta)
        np.divide(delta, s, delta)
        np.multiply(delta, g, delta)
        add_square(moved, delta, rho, 1 - rho, s)
        np.multiply(delta, -lr, s)
        np.add(p, s, p)

    update_tiles(tile, grad, [param, square_avg, acc_delta], 3)


def adamax_step(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_inf: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    maximize: bool = False,
) -> None:
    """One step of Adamax; ``step`` counts from 1."""
    step_size = lr / (1 - beta1**step)

    def tile(g: Array, p: Array, m: Array, top: Array, t: Array, s: Array) -> None:
        g = effective_gradient(g, p, t, s, weight_decay, maximize)
        lerp(m, g, 1 - beta1, s)
        np.abs(g, s)
        np.add(s, eps, s)
        np.multiply(top, beta2, top)
        np.maximum(top, s, out=top)
        np.multiply(m, -step_size, t)
        np.divide(t, top, s)
        np.add(p, s, p)

    update_tiles(tile, grad, [param, exp_avg, exp_inf])


def nadam_step(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    grad_size: float,
    mean_size: float,
    maximize: bool = False,
    decoupled: bool = False,
) -> None:
    """One step of NAdam: as far along the gradient and along its mean as ``grad_size`` and ``mean_size`` say."""
    correction = 1 - beta2**step

    def tile(g: Array, p: Array, m: Array, v: Array, t: Array, s: Array) -> None:
        if weight_decay and decoupled:
            np.multiply(p, 1 - lr * weight_decay, p)
        g = effective_gradient(g, p, t, s, 0.0 if decoupled else weight_decay, maximize)
        lerp(m, g, 1 - beta1, s)
        add_square(v, g, beta2, 1 - beta2, s)
        np.divide(v, correction, s)
        np.sqrt(s, s)
        np.add(s, eps, s)
        np.multiply(g, -grad_size, t)
        np.divide(t, s, t)
        np.add(p, t, p)
        np.multiply(m, -mean_size, t)
        np.divide(t, s, t)
        np.add(p, t, p)

    update_tiles(tile, grad, [param, exp_avg, exp_avg_sq])


def radam_step(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    maximize: bool = False,
    decoupled: bool = False,
) -> None:
    """One step of RAdam: without the mean square as long as too few of them were seen; ``step`` counts from 1."""
    correction1, correction2 = 1 - beta1**step, 1 - beta2**step
    most = 2 / (1 - beta2) - 1
    seen = most - 2 * step * beta2**step / correction2
    scale = lr / correction1
    if seen > 5.0:
        scale *= math.sqrt((seen - 4) * (seen - 2) * most / ((most - 4) * (most - 2) * seen) * correction2)

    def tile(g: Array, p: Array, m: Array, v: Array, t: Array, s: Array) -> None:
        if weight_decay and decoupled:
            np.multiply(p, 1 - lr * weight_decay, p)
        g = effective_gradient(g, p, t, s, 0.0 if decoupled else weight_decay, maximize)
        lerp(m, g, 1 - beta1, s)
        add_square(v, g, beta2, 1 - beta2, s)
        np.multiply(m, -scale, t)
        if seen > 5.0:
            np.sqrt(v, s)
            np.add(s, eps, s)
            np.divide(t, s, t)
        np.add(p, t, p)

    update_tiles(tile, grad, [param, exp_avg, exp_avg_sq])


def rmsprop_step(
    param: Array,
    grad: Array,
    square_avg: Array,
    momentum_buf: Array | None = None,
    grad_avg: Array | None = None,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float = 0.0,
    maximize: bool = False,
) -> None:
    """One step of RMSprop; centered if ``grad_avg`` is given."""

    def tile(g: Array, p: Array, v: Array, *rest: Array) -> None:
        t, s = rest[-2:]
        g = effective_gradient(g, p, t, s, weight_decay, maximize)
        add_square(v, g, alpha, 1 - alpha, s)
        if grad_avg is not None:
            mean = rest[-3]
            lerp(mean, g, 1 - alpha, s)
            np.multiply(mean, mean, s)
            np.subtract(v, s, s)
            np.sqrt(s, s)
        else:
            np.sqrt(v, s)
        np.add(s, eps, s)
        if momentum_buf is not None:
            buf = rest[0]
            np.divide(g, s, s)
            np.multiply(buf, momentum, buf)
            np.add(buf, s, buf)
            np.multiply(buf, -lr, s)
        else:
            np.multiply(g, -lr, t)
            np.divide(t, s, s)
        np.add(p, s, p)

    update_tiles(tile, grad, [param, square_avg, *[x for x in (momentum_buf, grad_avg) if x is not None]])


def rprop_step(
    param: Array,
    grad: Array,
    prev: Array,
    step_size: Array,
    *,
    eta_minus: float,
    eta_plus: float,
    smallest: float,
    largest: float,
    maximize: bool = False,
) -> None:
    """One step of resilient propagation: ``prev`` is the last gradient, 0 where its sign changed."""

    def tile(g: Array, p: Array, before: Array, size: Array, t: Array, s: Array, mask: Array) -> None:
        g = effective_gradient(g, p, t, s, 0.0, maximize)
        np.multiply(g, before, s)
        np.copyto(before, g)
        np.sign(s, s)
        np.copyto(s, eta_plus, where=np.greater(s, 0, mask))
        np.less(s, 0, mask)
        np.copyto(before, 0, where=mask)
        np.copyto(s, eta_minus, where=mask)
        np.copyto(s, 1, where=np.equal(s, 0, mask))
        np.multiply(size, s, size)
        np.clip(size, smallest, largest, size)
        np.sign(before, s)
        np.multiply(s, size, s)
        np.subtract(p, s, p)

    update_tiles(tile, grad, [param, prev, step_size], extra=[BOOL])


def asgd_step(
    param: Array,
    grad: Array,
    average: Array,
    *,
    eta: float,
    lambd: float,
    mu: float,
    weight_decay: float,
    maximize: bool = False,
) -> None:
    """One step of averaged stochastic gradient descent."""

    def tile(g: Array, p: Array, mean: Array, t: Array, s: Array) -> None:
        g = effective_gradient(g, p, t, s, weight_decay, maximize)
        np.multiply(p, 1 - lambd * eta, p)
        np.multiply(g, -eta, s)
        np.add(p, s, p)
        if mu == 1:
            np.copyto(mean, p)
        else:
            np.subtract(p, mean, s)
            np.multiply(s, mu, s)
            np.add(mean, s, mean)

    update_tiles(tile, grad, [param, average])
