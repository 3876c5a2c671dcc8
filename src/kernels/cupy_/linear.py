"""The linear layer and its gradients."""

from __future__ import annotations

import cupy

from .launch import Array, kernel
from .reduce import sum as sum_over

__all__ = [
    "linear",
    "linear_backward",
]


@kernel
def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """``out = x @ weight.T + bias`` for a matrix ``x``."""
    cupy.matmul(x, weight.T, out=out)
    if bias is not None:
        cupy.add(out, bias, out=out)


@kernel
def linear_backward(
    grad: Array, x: Array | None, weight: Array | None, grad_x: Array | None, grad_w: Array | None, grad_b: Array | None
) -> None:
    """The gradients of `linear` that are asked for: those that are not None.

    Args:
        grad: (rows, out_features).
        x: (rows, in_features), read for ``grad_w``.
        weight: (out_features, in_features), read for ``grad_x``.
        grad_x, grad_w, grad_b: outs, of the shapes of input, weight and bias.
    """
    if grad_x is not None:
        cupy.matmul(grad, weight, out=grad_x)
    if grad_w is not None:
        cupy.matmul(grad.T, x, out=grad_w)
    if grad_b is not None:
        sum_over(grad, grad_b, axes=(0,))
