"""Activation functions, soft-max and dropout."""

from __future__ import annotations

from typing import Any

from stowgrad.autograd.ops import activation, dropout
from stowgrad.autograd.random import Generator

from .case import Case, apart, rand, unary_cases

UNARY = {
    "erf": (activation.erf, rand),
    "tanh": (activation.tanh, rand),
    "sigmoid": (activation.sigmoid, rand),
    "silu": (activation.silu, rand),
    "relu": (activation.relu, apart),
}


def _dropout(x: Any, p: float = 0.3) -> Any:
    return dropout.dropout(x, p, Generator().manual_seed(3))


CASES = [
    *(case for name, (op, draw) in UNARY.items() for case in unary_cases(name, op, draw)),
    *unary_cases("gelu", lambda x: activation.gelu(x, "tanh"), rand),
    *unary_cases("gelu", lambda x: activation.gelu(x, "none"), rand),
    Case("native_dropout", _dropout, (rand(5, 7),)),
    Case("native_dropout", lambda x: _dropout(x, 0.0), (rand(5, 7),), "p = 0"),
    Case("native_dropout", lambda x: _dropout(x, 1.0), (rand(5, 7),), "p = 1"),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"mask_of_bits"}
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {
    "tanh_backward",
    "sigmoid_backward",
    "silu_backward",
    "relu_backward",
    "gelu_backward",
    "erf_backward",
    "native_dropout_backward",
}
