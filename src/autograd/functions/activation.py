"""Activation functions that PyTorch has at the top level."""

from __future__ import annotations

from typing import Any

from ..inplace import op_
from ..ops import activation as ops
from ..ops import activation_curves as curves
from ..ops import activation_lines as lines
from ..ops.elementwise import gt, mul, where
from ..ops.exponential import expm1
from ..ops.promotion import category
from ..out import into
from ..random import Generator

__all__ = [
    "celu",
    "celu_",
    "erf",
    "hardshrink",
    "prelu",
    "relu",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "tanh",
    "threshold",
    "threshold_",
]

_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)  # alpha, scale, input's scale


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


def relu_(input: Any) -> Any:
    """`relu` in place."""
    return op_(ops.relu, 0, input)


def selu(input: Any) -> Any:
    """`elu` with an alpha and a scale for which layers keep mean 0 and variance 1; keeps the result."""
    return curves.elu(input, *_SELU)


def selu_(input: Any) -> Any:
    """`selu` in place."""
    return op_(curves.elu, 0, input, *_SELU)


def celu(input: Any, alpha: float = 1.0) -> Any:
    """``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``; keeps the result.

    Raises:
        RuntimeError: if ``alpha`` is 0.
    """
    return curves.elu(input, *_celu_numbers(alpha))


def celu_(input: Any, alpha: float = 1.0) -> Any:
    """`celu` in place."""
    return op_(curves.elu, 0, input, *_celu_numbers(alpha))


def _celu_numbers(alpha: float) -> tuple[float, float, float]:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return float(alpha), 1.0, 1.0 / alpha


def elu(input: Any, alpha: float = 1.0) -> Any:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``; keeps the result unless ``alpha`` is negative."""
    if alpha >= 0 or category(input._array.dtype) < 2:  # which is refused
        return curves.elu(input, float(alpha), 1.0, 1.0)
    return where(gt(input, 0), input, mul(expm1(input), float(alpha)))


def prelu(input: Any, weight: Any) -> Any:
    """``x`` where it is positive, else ``x`` times the weight of its channel.

    Args:
        input: ``(N, C, *)``, or of any shape if there is one weight.
        weight: ``(C,)``, or one number.

    Raises:
        RuntimeError: if the weight's shape or dtype does not fit.

    Keeps the input.
    """
    return curves.prelu(input, weight)


def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Any:
    """Leaky relu with a slope drawn for each element from ``[lower, upper)``, and with their mean outside of training.

    Raises:
        RuntimeError: if ``lower`` is above ``upper``.

    Keeps one bit an element and where the draw began: backward draws the slopes again.
    """
    op, numbers = _rrelu(input, lower, upper, training, generator)
    return op(input, *numbers)


def rrelu_(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Any:
    """`rrelu` in place."""
    op, numbers = _rrelu(input, lower, upper, training, generator)
    return op_(op, 0, input, *numbers)


def _rrelu(
    input: Any, lower: float, upper: float, training: bool, generator: Generator | None
) -> tuple[Any, tuple[Any, ...]]:
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return lines.leaky_relu, ((lower + upper) / 2,)
    return lines.rrelu, (float(lower), float(upper), *lines.drawn(input._array.size, generator))


def threshold(input: Any, threshold: float, value: float) -> Any:
    """``x`` where it is above the threshold, else ``value``; keeps one bit an element."""
    return lines.threshold(input, threshold, value)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """`threshold` in place."""
    return op_(lines.threshold, 0, input, float(threshold), float(value))


def hardshrink(input: Any, lambd: float = 0.5, *, out: Any = None) -> Any:
    """0 where ``-lambd <= x <= lambd``, else ``x``; keeps one bit an element."""
    return lines.hardshrink(input, lambd) if out is None else into(out, lines.hardshrink, input, lambd)
