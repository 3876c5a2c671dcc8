"""Smooth activation functions, gates, and activations of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowgrad.autograd.ops import activation_curves as curves
from stowgrad.autograd.ops import gated

from .case import Case, apart, rand, unary_cases


def wide(*sizes: int) -> Any:
    """Numbers from -6 to 6, none near 0 or 3."""
    return apart(*sizes) * 0.97 if sizes != (40, 17) else rand(40, 17, low=-2.9, high=-0.1)


SMOOTH = ("gelu", "gelu_tanh", "mish", "sigmoid", "silu", "tanh")


def _gated(activation: str) -> Callable[..., Any]:
    return lambda x, gate: gated.gated(x, gate, activation)


def _biased(activation: str) -> Callable[..., Any]:
    return lambda x, bias: gated.bias_activation(x, bias, activation)


CASES = [
    *unary_cases("elu", lambda x: curves.elu(x, 1.3, 1.1, 0.7), wide),
    *unary_cases("elu", lambda x: curves.elu(x, 1.0, 1.0, 1.0), wide),
    *unary_cases("softplus", lambda x: curves.softplus(x, 2.0, 20.0), rand),
    *unary_cases("softplus", lambda x: curves.softplus(x, 1.0, 20.0), rand),
    Case("softplus", lambda x: curves.softplus(x, 2.0, 0.93), (apart(3, 4),), "threshold"),
    *unary_cases("log_sigmoid", curves.log_sigmoid, rand),
    *unary_cases("mish", curves.mish, rand),
    *unary_cases("softsign", curves.softsign, apart),
    *unary_cases("hardswish", curves.hardswish, wide),
    Case("prelu", curves.prelu, (apart(2, 3, 4), rand(3))),
    Case("prelu", curves.prelu, (apart(2, 3, 4), rand(1)), "one weight"),
    Case("prelu", curves.prelu, (apart(2, 3), rand(3)), "no places"),
    Case("prelu", curves.prelu, (apart(5), rand(1)), "a vector"),
    Case("prelu", curves.prelu, (apart(1).reshape(()), rand(1).reshape(())), "0-dim"),
    Case("prelu", curves.prelu, (apart(40, 3, 33) * 0.01, rand(3)), "large"),
    Case("prelu", lambda x, w: curves.prelu(x.transpose(0, 2), w), (apart(2, 3, 4), rand(3)), "transposed"),
    *(Case("gated", _gated(name), (rand(3, 4), rand(3, 4)), name) for name in SMOOTH),
    *(Case("gated", _gated(name), (wide(3, 4), rand(3, 4)), name) for name in ("relu", "hardswish")),
    Case("gated", _gated("silu"), (rand(40, 17), rand(40, 17)), "large"),
    Case("glu", lambda x: gated.glu(x, -1), (rand(3, 8),)),
    Case("glu", lambda x: gated.glu(x, 0), (rand(4, 3, 2),), "first"),
    Case("glu", lambda x: gated.glu(x.t(), 1), (rand(4, 3),), "transposed"),
    *(Case("bias_activation", _biased(name), (rand(3, 4), rand(4)), name) for name in ("gelu", "gelu_tanh", "mish")),
    Case("bias_activation", _biased("silu"), (rand(2, 3, 4), rand(3, 1)), "channels"),
    Case("bias_activation", _biased("hardswish"), (wide(3, 4), rand(4, low=-0.02, high=0.02)), "hardswish"),
    Case("bias_activation", _biased("gelu"), (rand(40, 17), rand(17)), "large"),
    Case("bias_relu", _biased("relu"), (apart(3, 4), rand(4, low=-0.02, high=0.02))),
    Case("bias_result", _biased("tanh"), (rand(3, 4), rand(4)), "tanh"),
    Case("bias_result", _biased("sigmoid"), (rand(3, 4), rand(3, 4)), "sigmoid"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {
    "bias_activation_backward",
    "elu_backward",
    "gated_backward",
    "glu_backward",
    "hardswish_backward",
    "log_sigmoid_backward",
    "mish_backward",
    "prelu_backward",
    "softplus_backward",
    "softsign_backward",
}
