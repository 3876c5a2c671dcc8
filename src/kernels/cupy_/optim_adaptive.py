"""Steps of the optimizers that scale each element of the gradient by its own history; as in ``optim.py``."""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel
from .optim import EFFECTIVE

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

_GRADIENT = "T grad, float64 added_decay, bool maximize"
_MEAN = """
    W m = (W)exp_avg;
    m = beta1 > 0.5 ? m + (W)(1 - beta1) * (g - m) : g - (W)beta1 * (g - m);
    exp_avg = (T)m;
"""
_SQUARES = """
    W v = (W)beta2 * (W)exp_avg_sq + (W)(1 - beta2) * g * g;
    exp_avg_sq = (T)v;
"""
_ADAGRAD_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 lr, float64 eps",
    "T param, T state_sum",
    f"""
    {EFFECTIVE}
    W total = (W)state_sum + g * g;
    state_sum = (T)total;
    param = (T)(p - (W)lr * g / (sqrt(total) + (W)eps));
    """,
    "stowgrad_adagrad",
    preamble=WIDE,
)
_ADADELTA_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 lr, float64 rho, float64 eps",
    "T param, T square_avg, T acc_delta",
    f"""
    {EFFECTIVE}
    W v = (W)rho * (W)square_avg + (W)(1 - rho) * g * g, moved = (W)acc_delta;
    W delta = sqrt(moved + (W)eps) / sqrt(v + (W)eps) * g;
    square_avg = (T)v;
    acc_delta = (T)((W)rho * moved + (W)(1 - rho) * delta * delta);
    param = (T)(p - (W)lr * delta);
    """,
    "stowgrad_adadelta",
    preamble=WIDE,
)
_ADAMAX_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 beta1, float64 beta2, float64 eps, float64 step_size",
    "T param, T exp_avg, T exp_inf",
    f"""
    {EFFECTIVE} {_MEAN}
    W size = (g < 0 ? -g : g) + (W)eps, top = (W)beta2 * (W)exp_inf;
    top = top >= size || top != top ? top : size;
    exp_inf = (T)top;
    param = (T)(p - (W)step_size * m / top);
    """,
    "stowgrad_adamax",
    preamble=WIDE,
)
_NADAM_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 shrink, float64 beta1, float64 beta2, float64 eps, float64 correction, float64 grad_size,"
    " float64 mean_size",
    "T param, T exp_avg, T exp_avg_sq",
    f"""
    {EFFECTIVE} p *= (W)shrink; {_MEAN} {_SQUARES}
    W root = sqrt(v / (W)correction) + (W)eps;
    p -= (W)grad_size * g / root;
    param = (T)(p - (W)mean_size * m / root);
    """,
    "stowgrad_nadam",
    preamble=WIDE,
)
_RADAM_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 shrink, float64 beta1, float64 beta2, float64 eps, float64 scale, bool rectified",
    "T param, T exp_avg, T exp_avg_sq",
    f"""
    {EFFECTIVE} p *= (W)shrink; {_MEAN} {_SQUARES}
    param = (T)(p - (W)scale * m / (rectified ? sqrt(v) + (W)eps : (W)1));
    """,
    "stowgrad_radam",
    preamble=WIDE,
)
_RMSPROP = """
    {effective}
    W v = (W)alpha * (W)square_avg + (W)(1 - alpha) * g * g, root = v;
    square_avg = (T)v;
    {centered}
    g /= sqrt(root) + (W)eps;
    {momentum}
    param = (T)(p - (W)lr * g);
"""
_CENTERED = """
    W mean = (W)grad_avg;
    mean = alpha > 0.5 ? mean + (W)(1 - alpha) * (g - mean) : g - (W)alpha * (g - mean);
    grad_avg = (T)mean;
    root -= mean * mean;
"""
_MOMENTUM = "g += (W)momentum * (W)momentum_buf; momentum_buf = (T)g;"
# By whether there is a momentum, and whether the mean gradient is taken away.
_RMSPROP_STEPS = {
    (with_momentum, centered): cupy.ElementwiseKernel(
        f"{_GRADIENT}, float64 lr, float64 alpha, float64 eps, float64 momentum",
        "T param, T square_avg" + ", T momentum_buf" * with_momentum + ", T grad_avg" * centered,
        _RMSPROP.format(effective=EFFECTIVE, centered=_CENTERED * centered, momentum=_MOMENTUM * with_momentum),
        f"stowgrad_rmsprop_{int(with_momentum)}{int(centered)}",
        preamble=WIDE,
    )
    for with_momentum in (False, True)
    for centered in (False, True)
}
_RPROP_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 eta_minus, float64 eta_plus, float64 smallest, float64 largest",
    "T param, T prev, T step_size",
    f"""
    {EFFECTIVE}
    W agreement = g * (W)prev;
    W size = (W)step_size;
    size *= agreement > 0 ? (W)eta_plus : agreement < 0 ? (W)eta_minus : agreement == 0 ? (W)1 : agreement;
    size = size < (W)smallest ? (W)smallest : size > (W)largest ? (W)largest : size;
    if (agreement < 0) g = 0;
    prev = (T)g;
    step_size = (T)size;
    param = (T)(p - (g > 0 ? size : g < 0 ? -size : g * size));
    """,
    "stowgrad_rprop",
    preamble=WIDE,
)
_ASGD_STEP = cupy.ElementwiseKernel(
    f"{_GRADIENT}, float64 eta, float64 shrink, float64 mu",
    "T param, T average",
    f"""
    {EFFECTIVE}
    p = p * (W)shrink - (W)eta * g;
    param = (T)p;
    average = (T)(mu == 1 ? p : (W)average + (W)mu * (p - (W)average));
    """,
    "stowgrad_asgd",
    preamble=WIDE,
)


@kernel
def adagrad_step(
    param: Array, grad: Array, state_sum: Array, *, lr: float, eps: float, weight_decay: float, maximize: bool = False
) -> None:
    """One step of Adagrad."""
    _ADAGRAD_STEP(grad, weight_decay, maximize, lr, eps, param, state_sum)


@kernel
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
    _ADADELTA_STEP(grad, weight_decay, maximize, lr, rho, eps, param, square_avg, acc_delta)


@kernel
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
    _ADAMAX_STEP(grad, weight_decay, maximize, beta1, beta2, eps, step_size, param, exp_avg, exp_inf)


@kernel
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
    shrink, added = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    sizes = (1 - beta2**step, grad_size, mean_size)
    _NADAM_STEP(grad, added, maximize, shrink, beta1, beta2, eps, *sizes, param, exp_avg, exp_avg_sq)


@kernel
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
    shrink, added = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    correction2 = 1 - beta2**step
    most = 2 / (1 - beta2) - 1
    seen = most - 2 * step * beta2**step / correction2
    scale = lr / (1 - beta1**step)
    if seen > 5.0:
        scale *= math.sqrt((seen - 4) * (seen - 2) * most / ((most - 4) * (most - 2) * seen) * correction2)
    _RADAM_STEP(grad, added, maximize, shrink, beta1, beta2, eps, scale, seen > 5.0, param, exp_avg, exp_avg_sq)


@kernel
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
    step = _RMSPROP_STEPS[momentum_buf is not None, grad_avg is not None]
    more = [array for array in (momentum_buf, grad_avg) if array is not None]
    step(grad, weight_decay, maximize, lr, alpha, eps, momentum, param, square_avg, *more)


@kernel
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
    _RPROP_STEP(grad, 0.0, maximize, eta_minus, eta_plus, smallest, largest, param, prev, step_size)


@kernel
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
    _ASGD_STEP(grad, weight_decay, maximize, eta, 1 - lambd * eta, mu, param, average)
