"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import functions
from ...autograd.creation import arange, empty_like
from ...autograd.functions.activation import elu as plain_elu
from ...autograd.inplace import op_
from ...autograd.ops import activation, activation_curves, activation_lines, gated
from ...autograd.ops import softmax as soft
from ...autograd.ops.elementwise import neg, sub
from ...autograd.random import Generator
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = [
    "bias_activation",
    "celu",
    "celu_",
    "elu",
    "elu_",
    "geglu",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "reglu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "swiglu",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


def _run(name: str, op: Any, input: Tensor, inplace: bool, *numbers: float) -> Tensor:
    """An activation, in new memory or in that of its input."""
    check_tensors(name, input=input)
    result: Tensor = op_(op, 0, input, *numbers) if inplace else op(input, *numbers)
    return result


# -- straight lines ----------------------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``; keeps one bit an element."""
    return _run("relu", activation.relu, input, inplace)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return relu(input, inplace=True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``input`` held between 0 and 6; keeps one bit an element."""
    return _run("relu6", activation_lines.hardtanh, input, inplace, 0.0, 6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` held between two numbers; keeps one bit an element.

    Raises:
        ValueError: if ``min_val`` is above ``max_val``.
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    return _run("hardtanh", activation_lines.hardtanh, input, inplace, float(min_val), float(max_val))


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, inplace=True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``; keeps one bit an element."""
    return _run("leaky_relu", activation_lines.leaky_relu, input, inplace, float(negative_slope))


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, inplace=True)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``input`` where it is positive, else ``input`` times the weight of its channel.

    Args:
        input: ``(N, C, *)``, or of any shape if there is one weight.
        weight: ``(C,)``, or one number.

    Raises:
        RuntimeError: if the weight's shape or dtype does not fit.

    Keeps the input.
    """
    check_tensors("prelu", input=input, weight=weight)
    result: Tensor = activation_curves.prelu(input, weight)
    return result


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`leaky_relu` with a slope drawn for each element from ``[lower, upper)``; with their mean outside of training.

    Raises:
        RuntimeError: if ``lower`` is above ``upper``.

    Keeps one bit an element and where the draw began: backward draws the slopes again.
    """
    check_tensors("rrelu", input=input)
    result: Tensor = (functions.rrelu_ if inplace else functions.rrelu)(input, lower, upper, training, generator)
    return result


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True, generator=generator)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above the threshold, else ``value``; keeps one bit an element."""
    return _run("threshold", activation_lines.threshold, input, inplace, float(threshold), float(value))


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _run("threshold", activation_lines.threshold, input, True, float(threshold), float(value))


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 where ``-lambd <= input <= lambd``, else ``input``; keeps one bit an element."""
    return _run("hardshrink", activation_lines.hardshrink, input, False, float(lambd))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` drawn nearer to 0 by ``lambd``, and 0 where it is nearer than that; keeps one bit an element.

    Raises:
        RuntimeError: if ``lambd`` is negative.
    """
    return _run("softshrink", activation_lines.softshrink, input, False, float(lambd))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``(input + 3) / 6`` held between 0 and 1; keeps one bit an element."""
    return _run("hardsigmoid", activation_lines.hardsigmoid, input, inplace)


# -- curves ------------------------------------------------------------------------------------------------------------


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``; keeps the result."""
    return _run("sigmoid", activation.sigmoid, input, False)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent; keeps the result."""
    return _run("tanh", activation.tanh, input, False)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input) - 1)``; keeps the result.

    With a negative ``alpha`` the result does not tell the two apart: then input and exponential are kept, and the form
    that writes in place has no gradient.
    """
    if inplace:
        return _run("elu", activation_curves.elu, input, True, float(alpha), 1.0, 1.0)
    return _run("elu", plain_elu, input, False, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return elu(input, alpha, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(input, 0) + min(0, alpha * (exp(input / alpha) - 1))``; keeps the result.

    Raises:
        RuntimeError: if ``alpha`` is 0.
    """
    check_tensors("celu", input=input)
    result: Tensor = (functions.celu_ if inplace else functions.celu)(input, alpha)
    return result


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, inplace=True)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with an alpha and a scale for which layers keep mean 0 and variance 1; keeps the result."""
    check_tensors("selu", input=input)
    result: Tensor = (functions.selu_ if inplace else functions.selu)(input)
    return result


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return selu(input, inplace=True)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``; keeps the input."""
    return _run("silu", activation.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``; keeps the input."""
    return _run("mish", activation_curves.mish, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``; keeps the input."""
    return _run("hardswish", activation_curves.hardswish, input, inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, and the input where ``beta * input`` is above the threshold.

    Keeps the input.
    """
    return _run("softplus", activation_curves.softplus, input, False, float(beta), float(threshold))


def softsign(input: Tensor) -> Tensor:
    """``input / (1 + abs(input))``; keeps the input."""
    return _run("softsign", activation_curves.softsign, input, False)


def logsigmoid(input: Tensor) -> Tensor:
    """The logarithm of `sigmoid`, computed without overflow; keeps the result."""
    return _run("logsigmoid", activation_curves.log_sigmoid, input, False)


def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``; keeps the hyperbolic tangent."""
    check_tensors("tanhshrink", input=input)
    result: Tensor = sub(input, activation.tanh(input))
    return result


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)``, Phi the normal distribution function.

    Args:
        input: of any shape.
        approximate: ``"none"``, or ``"tanh"`` for the approximation by tanh.

    Raises:
        RuntimeError: for another ``approximate``.

    Keeps the input.
    """
    check_tensors("gelu", input=input)
    _check_approximate(approximate)
    result: Tensor = activation.gelu(input, approximate)
    return result


def _check_approximate(approximate: str) -> None:
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")


# -- gates -------------------------------------------------------------------------------------------------------------


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along a dimension times the sigmoid of the second; keeps the input.

    Raises:
        RuntimeError: if the dimension's size is odd, or there is no dimension.
        IndexError: if there is no such dimension.
    """
    check_tensors("glu", input=input)
    result: Tensor = gated.glu(input, dim)
    return result


def swiglu(input: Tensor, gate: Tensor) -> Tensor:
    """``silu(input) * gate`` in one pass; keeps the two, not the activation.

    Raises:
        RuntimeError: if shapes or dtypes differ.

    >>> import stowgrad
    >>> stowgrad.nn.functional.swiglu(stowgrad.zeros(2), stowgrad.ones(2)).tolist()
    [0.0, 0.0]
    """
    check_tensors("swiglu", input=input, gate=gate)
    result: Tensor = gated.gated(input, gate, "silu")
    return result


def geglu(input: Tensor, gate: Tensor, approximate: str = "none") -> Tensor:
    """``gelu(input, approximate) * gate`` in one pass; errors and what is kept are those of `swiglu`."""
    check_tensors("geglu", input=input, gate=gate)
    _check_approximate(approximate)
    result: Tensor = gated.gated(input, gate, "gelu_tanh" if approximate == "tanh" else "gelu")
    return result


def reglu(input: Tensor, gate: Tensor) -> Tensor:
    """``relu(input) * gate`` in one pass; errors and what is kept are those of `swiglu`."""
    check_tensors("reglu", input=input, gate=gate)
    result: Tensor = gated.gated(input, gate, "relu")
    return result


def bias_activation(input: Tensor, bias: Tensor, activation: str) -> Tensor:
    """``activation(input + bias)`` without the sum in memory.

    Args:
        input: of any shape.
        bias: of a shape that broadcasts to it.
        activation: ``"gelu"``, ``"gelu_tanh"``, ``"hardswish"``, ``"mish"``, ``"relu"``, ``"sigmoid"``, ``"silu"`` or
            ``"tanh"``.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
        ValueError: for another activation.

    Keeps what the activation keeps: input and bias, one bit an element (relu), or the result (sigmoid, tanh).

    >>> import stowgrad
    >>> stowgrad.nn.functional.bias_activation(stowgrad.zeros(2, 2), stowgrad.tensor([-1.0, 1.0]), "relu").tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    check_tensors("bias_activation", input=input, bias=bias)
    result: Tensor = gated.bias_activation(input, bias, activation)
    return result


# -- soft-max ----------------------------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, *, dtype: np.dtype[Any] | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension.

    Args:
        input: of any shape.
        dim: the dimension that sums to one.
        dtype: the input is cast to it first.

    Raises:
        IndexError: if there is no such dimension.

    Keeps the result.
    """
    check_tensors("softmax", input=input)
    result: Tensor = soft.softmax(input if dtype is None else input.to(dtype=dtype), dim)
    return result


def log_softmax(input: Tensor, dim: int, *, dtype: np.dtype[Any] | None = None) -> Tensor:
    """The logarithm of `softmax`, computed without overflow; arguments, errors and what is kept are the same."""
    check_tensors("log_softmax", input=input)
    result: Tensor = soft.log_softmax(input if dtype is None else input.to(dtype=dtype), dim)
    return result


def softmin(input: Tensor, dim: int, *, dtype: np.dtype[Any] | None = None) -> Tensor:
    """`softmax` of ``-input``; arguments, errors and what is kept are the same."""
    check_tensors("softmin", input=input)
    return softmax(neg(input), dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor,
    tau: float = 1.0,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """A draw from a distribution that is given by logits, softened so that it has a gradient.

    Args:
        logits: unnormalised log-probabilities, of any shape.
        tau: the temperature: the lower, the nearer to one-hot.
        hard: whether the result is one-hot, with the gradient of the softened one.
        eps: has no effect; it is there for PyTorch's sake.
        dim: the dimension of the classes.
        generator: where the numbers come from; the default generator if None.

    Source: Jang, Gu and Poole, Categorical Reparameterization with Gumbel-Softmax, 2017.

    Keeps the softened draw.
    """
    check_tensors("gumbel_softmax", logits=logits)
    least = 2.0**-14 if logits.dtype.itemsize == 2 else 1e-37  # no 0: logarithms are to be finite
    uniform = empty_like(logits).uniform_(least, 1.0, generator=generator)
    gumbel = neg(neg(uniform.log_()).log_())
    soft_draw = softmax((logits + gumbel) / tau, dim)
    if not hard:
        return soft_draw
    held = soft_draw.detach()
    index = held.argmax(dim, keepdim=True)
    sizes = [1] * held.dim()
    sizes[dim] = held.shape[dim]
    one_hot = (arange(held.shape[dim], device=held.device).reshape(sizes) == index).to(held.dtype)
    result: Tensor = (one_hot - held) + soft_draw
    return result
