"""Activation functions that PyTorch has at the top level."""

from __future__ import annotations

from typing import Any

from ..ops import activation as ops
from ..ops import reduce
from ..out import into

__all__ = ["erf", "log_softmax", "relu", "sigmoid", "softmax", "tanh"]


def tanh(input: Any, *, out: Any = None) -> Any:
    """The hyperbolic tangent."""
    return ops.tanh(input) if out is None else into(out, ops.tanh, input)


def sigmoid(input: Any, *, out: Any = None) -> Any:
    """``1 / (1 + exp(-input))``."""
    return ops.sigmoid(input) if out is None else into(out, ops.sigmoid, input)


def relu(input: Any) -> Any:
    """``max(input, 0)``."""
    return ops.relu(input)


def erf(input: Any, *, out: Any = None) -> Any:
    """The error function."""
    return ops.erf(input) if out is None else into(out, ops.erf, input)


def softmax(input: Any, dim: int) -> Any:
    """Soft-max along a dimension."""
    return reduce.softmax(input, dim)


def log_softmax(input: Any, dim: int) -> Any:
    """The logarithm of soft-max along a dimension."""
    return reduce.log_softmax(input, dim)
