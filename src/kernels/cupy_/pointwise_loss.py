"""Losses of input and target, element by element, and their gradients: one launch each.

The note in the twin on NumPy says what kinds and parameters there are. Half precision is computed in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import cupy
import numpy as np

from .launch import WIDE, Array, kernel

__all__ = ["pointwise_loss", "pointwise_loss_backward"]

_HELP = """
__device__ inline W least(W a, W b) { return a < b ? a : b; }
__device__ inline W most(W a, W b) { return a > b ? a : b; }
__device__ inline W log_sigmoid(W x) { return least(x, (W)0) - log1p(exp(x < (W)0 ? x : -x)); }
__device__ inline W log_of_target(W t) { return t == (W)0 ? (W)0 : log(t); }
"""


class _Kind(NamedTuple):
    """C expressions of the input ``x``, the target ``t``, ``positive`` and the parameter ``a``; ``d`` is ``x - t``."""

    value: str
    slope: str
    target_slope: str


_HUBER = "least(d < 0 ? -d : d, a) * ((d < 0 ? -d : d) - least(d < 0 ? -d : d, a) / 2)"
_CLIPPED = "least(most(d, -a), a)"
_SIGMOID = "((W)1 / ((W)1 + exp(-x)))"
_KINDS = {
    "mse": _Kind("d * d", "2 * d", "-2 * d"),
    "l1": _Kind("d < 0 ? -d : d", "(W)((d > 0) - (d < 0))", "(W)((d < 0) - (d > 0))"),
    "smooth_l1": _Kind(f"{_HUBER} / a", f"{_CLIPPED} / a", f"-{_CLIPPED} / a"),
    "huber": _Kind(_HUBER, _CLIPPED, f"-{_CLIPPED}"),
    "bce": _Kind(
        "(t - 1) * most(log1p(-x), (W)-100) - t * most(log(x), (W)-100)",
        "d / most((1 - x) * x, (W)1e-12)",
        "most(log1p(-x), (W)-100) - most(log(x), (W)-100)",
    ),
    "bce_logits": _Kind(
        "(1 - t) * x - (1 + (positive - 1) * t) * log_sigmoid(x)",
        f"{_SIGMOID} * (positive * t + 1 - t) - positive * t",
        "(1 - positive) * log_sigmoid(x) - x",
    ),
    "kl_div": _Kind(
        "a != 0 ? exp(t) * (t - x) : t * log_of_target(t) - x * t",
        "a != 0 ? -exp(t) : -t",
        "a != 0 ? exp(t) * (t - x + 1) : log_of_target(t) + 1 - x",
    ),
}
_TENSORS = "T input, T target, T weight, T pos_weight"


def _function(expression: str) -> str:
    """A preamble with ``loss(x, t, positive, a)``."""
    head = "__device__ inline W loss(W x, W t, W positive, W a)"
    return f"{WIDE}{_HELP}{head} {{ W d = x - t; return {expression}; }}\n"


_CALL = "loss((W)input, (W)target, (W)pos_weight, (W)parameter) * (W)weight"
_ELEMENTS = {
    kind: cupy.ElementwiseKernel(
        f"{_TENSORS}, float64 parameter",
        "T y",
        f"y = (T)({_CALL})",
        f"stowgrad_{kind}_loss",
        preamble=_function(expressions.value),
    )
    for kind, expressions in _KINDS.items()
}
_SUMS = {
    kind: cupy.ReductionKernel(
        f"{_TENSORS}, float64 parameter, float64 scale",
        "T y",
        f"{_CALL} * (W)scale",
        "a + b",
        "y = (T)a",
        "0",
        f"stowgrad_sum_of_{kind}_losses",
        reduce_type="W",
        preamble=_function(expressions.value),
    )
    for kind, expressions in _KINDS.items()
}
_SLOPES = {
    (kind, by_target): cupy.ElementwiseKernel(
        f"T grad, {_TENSORS}, float64 parameter, float64 scale",
        "T y",
        f"y = (T)((W)grad * (W)scale * {_CALL})",
        f"stowgrad_{kind}_loss_backward{'_target' if by_target else ''}",
        preamble=_function(expressions.target_slope if by_target else expressions.slope),
    )
    for kind, expressions in _KINDS.items()
    for by_target in (False, True)
}


@kernel
def pointwise_loss(
    x: Array,
    target: Array,
    weight: Array | None,
    pos_weight: Array | None,
    out: Array,
    *,
    kind: str,
    parameter: float = 0.0,
    reduction: str = "mean",
) -> None:
    """``out`` = the loss of each element (``reduction="none"``), their ``"sum"`` or their ``"mean"``.

    Args:
        x, target: of one shape, any strides.
        weight, pos_weight: they broadcast to the input; None stands for 1.
        out: of the shape of ``x``, or of one element.
        kind: one of ``"mse"``, ``"l1"``, ``"smooth_l1"``, ``"huber"``, ``"bce"``, ``"bce_logits"``, ``"kl_div"``.

    Raises:
        RuntimeError: for ``"bce"`` if an element of ``x`` is not between 0 and 1.
    """
    if kind == "bce" and not bool(((x >= 0) & (x <= 1)).all()):
        raise RuntimeError("binary_cross_entropy: all elements of input should be between 0 and 1")
    tensors = (x, target, *(_ones(x) if w is None else w for w in (weight, pos_weight)))
    if reduction == "none":
        if x.size:
            _ELEMENTS[kind](*tensors, parameter, out)
    elif x.size == 0:
        out.fill(np.nan if reduction == "mean" else 0)
    else:
        scale = 1 / x.size if reduction == "mean" else 1.0
        rows = [tensor if x.ndim else tensor.reshape(1) for tensor in tensors]
        _SUMS[kind](*rows, parameter, scale, out.reshape(()))


@kernel
def pointwise_loss_backward(
    grad: Array,
    x: Array,
    target: Array,
    weight: Array | None,
    pos_weight: Array | None,
    grad_x: Array | None,
    grad_target: Array | None,
    *,
    kind: str,
    parameter: float = 0.0,
    scale: float = 1.0,
) -> None:
    """The gradients of `pointwise_loss` that are asked for (not None): ``grad * scale`` times the slopes.

    ``grad`` has the shape of ``x``, or none if the losses were reduced.
    """
    if x.size == 0:
        return
    tensors = (x, target, *(_ones(x) if w is None else w for w in (weight, pos_weight)))
    for by_target, out in enumerate((grad_x, grad_target)):
        if out is not None:
            _SLOPES[kind, bool(by_target)](grad, *tensors, parameter, scale, out)


def _ones(x: Array) -> Array:
    """One element, to broadcast."""
    return cupy.full((), 1, x.dtype)
