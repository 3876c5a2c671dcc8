"""An activation times a gate, and an activation of a sum with a bias, each in one launch.

Nothing is kept in between: backward computes the activation again from the operands.
"""

from __future__ import annotations

import cupy

from .activation import CONSTANTS
from .launch import WIDE, Array, kernel

__all__ = ["bias_activation", "bias_activation_backward", "gated", "gated_backward"]

# For each activation, what computes its value `r` and its derivative `d` at `v`.
_SOURCES = {
    "gelu": (
        "r = (W)0.5 * v * erfc(-v * ROOT_HALF);",
        "W p = exp(-(W)0.5 * v * v) * PEAK; d = (W)0.5 * erfc(-v * ROOT_HALF); if (p > (W)0) d += v * p;",
    ),
    "gelu_tanh": (
        "r = (W)0.5 * v * ((W)1 + tanh(SLOPE * v * ((W)1 + CUBIC * v * v)));",
        """
        W t = tanh(SLOPE * v * ((W)1 + CUBIC * v * v));
        d = (W)0.5 * ((W)1 + t);
        if (t * t < (W)1) d += (W)0.5 * ((W)1 - t * t) * v * SLOPE * ((W)1 + (W)3 * CUBIC * v * v);
        """,
    ),
    "hardswish": (
        "r = v * (v <= (W)-3 ? (W)0 : v >= (W)3 ? (W)1 : (v + (W)3) / (W)6);",
        "d = v <= (W)-3 ? (W)0 : v >= (W)3 ? (W)1 : v / (W)3 + (W)0.5;",
    ),
    "mish": (
        "W e = exp(v > (W)20 ? (W)20 : v); W n = e * (e + (W)2); r = v * (n / (n + (W)2));",
        """
        W f = v > (W)20 ? (W)20 : v; W e = exp(f); W n = e * (e + (W)2);
        d = (n + (W)4 * f * e * ((W)1 + e) / (n + (W)2)) / (n + (W)2);
        """,
    ),
    "relu": ("r = v < (W)0 ? (W)0 : v;", "d = v <= (W)0 ? (W)0 : (W)1;"),
    "sigmoid": ("r = (W)1 / ((W)1 + exp(-v));", "W s = (W)1 / ((W)1 + exp(-v)); d = s * ((W)1 - s);"),
    "silu": ("r = v / ((W)1 + exp(-v));", "W s = (W)1 / ((W)1 + exp(-v)); d = s * ((W)1 + v * ((W)1 - s));"),
    "tanh": ("r = tanh(v);", "W t = tanh(v); d = (W)1 - t * t;"),
}


def _made(name: str, parameters: str, argument: str, part: int, result: str) -> dict[str, cupy.ElementwiseKernel]:
    """A kernel an activation: value or derivative (``part``) at ``argument``, and the result made of it."""
    return {
        activation: cupy.ElementwiseKernel(
            parameters,
            "T y",
            f"W v = {argument}; W {'rd'[part]}; {sources[part]} y = (T)({result});",
            f"stowgrad_{name}_{activation}",
            preamble=WIDE + CONSTANTS,
        )
        for activation, sources in _SOURCES.items()
    }


_GATED = _made("gated", "T x, T gate", "(W)x", 0, "r * (W)gate")
_GATED_BY_X = _made("gated_by_x", "T grad, T x, T gate", "(W)x", 1, "(W)grad * d * (W)gate")
_BIASED = _made("bias", "T x, T bias", "(W)x + (W)bias", 0, "r")
_BIASED_BY_X = _made("bias_backward", "T grad, T x, T bias", "(W)x + (W)bias", 1, "(W)grad * d")


@kernel
def gated(x: Array, gate: Array, out: Array, *, activation: str) -> None:
    """``out = activation(x) * gate``; ``out`` may be neither of them."""
    _GATED[activation](x, gate, out)


@kernel
def gated_backward(
    grad: Array, x: Array, gate: Array, grad_x: Array | None, grad_gate: Array | None, *, activation: str
) -> None:
    """The gradients of `gated` that are asked for: those that are not None."""
    if grad_x is not None:
        _GATED_BY_X[activation](grad, x, gate, grad_x)
    if grad_gate is not None:
        _GATED[activation](x, grad, grad_gate)


@kernel
def bias_activation(x: Array, bias: Array, out: Array, *, activation: str) -> None:
    """``out = activation(x + bias)``; the bias broadcasts, ``out`` may be ``x``."""
    _BIASED[activation](x, bias, out)


@kernel
def bias_activation_backward(grad: Array, x: Array, bias: Array, grad_x: Array, *, activation: str) -> None:
    """The gradient of `bias_activation` at ``x``; that of the bias is its sum. ``grad_x`` may be ``x``."""
    _BIASED_BY_X[activation](grad, x, bias, grad_x)
