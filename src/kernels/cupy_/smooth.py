"""Smooth activation functions beside those of `activation`, each in one launch.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel

__all__ = [
    "elu",
    "elu_backward",
    "hardswish",
    "hardswish_backward",
    "log_sigmoid",
    "log_sigmoid_backward",
    "mish",
    "mish_backward",
    "softplus",
    "softplus_backward",
    "softsign",
    "softsign_backward",
]


def _forward(name: str, body: str, parameters: str = "") -> cupy.ElementwiseKernel:
    """A kernel that computes ``r`` of ``v``."""
    code = f"W v = (W)x; W r; {body} y = (T)r;"
    return cupy.ElementwiseKernel(f"T x{parameters}", "T y", code, f"stowgrad_{name}", preamble=WIDE)


def _backward(name: str, body: str, parameters: str = "") -> cupy.ElementwiseKernel:
    """A kernel that computes the derivative ``d`` of ``v`` and multiplies it by the gradient."""
    code = f"W v = (W)x; W d; {body} y = (T)((W)grad * d);"
    return cupy.ElementwiseKernel(f"T grad, T x{parameters}", "T y", code, f"stowgrad_{name}", preamble=WIDE)


_RATES = ", float64 low, float64 high, float64 rate"
_ELU = _forward("elu", "r = v <= (W)0 ? (W)low * expm1(v * (W)rate) : (W)high * v;", _RATES)
_ELU_BACKWARD = _backward("elu_backward", "d = v <= (W)0 ? (W)rate * (v + (W)low) : (W)high;", _RATES)
_SOFTPLUS = _forward(
    "softplus",
    """
    W b = v * (W)beta;
    r = b > (W)threshold ? v : ((b > (W)0 ? b : (W)0) + log1p(exp(b > (W)0 ? -b : b))) / (W)beta;
    """,
    ", float64 beta, float64 threshold",
)
_SOFTPLUS_BACKWARD = _backward(
    "softplus_backward",
    "W b = v * (W)beta; d = b > (W)threshold ? (W)1 : (W)1 / ((W)1 + exp(-b));",
    ", float64 beta, float64 threshold",
)
_LOG_SIGMOID = _forward("log_sigmoid", "r = (v < (W)0 ? v : (W)0) - log1p(exp(v < (W)0 ? v : -v));")
_LOG_SIGMOID_BACKWARD = _backward("log_sigmoid_backward", "d = -expm1(v);")
# With e = exp(x) and n = e (e + 2): tanh(log(1 + e)) = n / (n + 2); from 20 on it is 1.
_EXPONENTIAL = "W f = v > (W)20 ? (W)20 : v; W e = exp(f); W n = e * (e + (W)2);"
_MISH = _forward("mish", f"{_EXPONENTIAL} r = v * (n / (n + (W)2));")
_MISH_BACKWARD = _backward(
    "mish_backward", f"{_EXPONENTIAL} d = (n + (W)4 * f * e * ((W)1 + e) / (n + (W)2)) / (n + (W)2);"
)
_SOFTSIGN = _forward("softsign", "r = v / ((W)1 + (v < (W)0 ? -v : v));")
_SOFTSIGN_BACKWARD = _backward("softsign_backward", "W s = (W)1 / ((W)1 + (v < (W)0 ? -v : v)); d = s * s;")
_HARDSWISH = _forward("hardswish", "r = v * (v <= (W)-3 ? (W)0 : v >= (W)3 ? (W)1 : (v + (W)3) / (W)6);")
_HARDSWISH_BACKWARD = _backward("hardswish_backward", "d = v <= (W)-3 ? (W)0 : v >= (W)3 ? (W)1 : v / (W)3 + (W)0.5;")


@kernel
def elu(x: Array, out: Array, *, alpha: float, scale: float, input_scale: float) -> None:
    """``out = scale * x`` where it is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    _ELU(x, alpha * scale, scale, input_scale, out)


@kernel
def elu_backward(grad: Array, y: Array, grad_x: Array, *, alpha: float, scale: float, input_scale: float) -> None:
    """The gradient of `elu` from its result: the slope is ``input_scale * (y + alpha * scale)`` where ``y <= 0``."""
    _ELU_BACKWARD(grad, y, alpha * scale, scale, input_scale, grad_x)


@kernel
def softplus(x: Array, out: Array, *, beta: float, threshold: float) -> None:
    """``out = log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x > threshold``."""
    _SOFTPLUS(x, beta, threshold, out)


@kernel
def softplus_backward(grad: Array, x: Array, grad_x: Array, *, beta: float, threshold: float) -> None:
    """``grad_x = grad * sigmoid(beta * x)``, and ``grad`` where ``beta * x > threshold``."""
    _SOFTPLUS_BACKWARD(grad, x, beta, threshold, grad_x)


@kernel
def log_sigmoid(x: Array, out: Array) -> None:
    """``out = log(sigmoid(x)) = -log(1 + exp(-x))``."""
    _LOG_SIGMOID(x, out)


@kernel
def log_sigmoid_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * (1 - exp(y))`` with the forward's result ``y``."""
    _LOG_SIGMOID_BACKWARD(grad, y, grad_x)


@kernel
def mish(x: Array, out: Array) -> None:
    """``out = x * tanh(log(1 + exp(x)))``."""
    _MISH(x, out)


@kernel
def mish_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """The gradient of `mish`."""
    _MISH_BACKWARD(grad, x, grad_x)


@kernel
def softsign(x: Array, out: Array) -> None:
    """``out = x / (1 + abs(x))``."""
    _SOFTSIGN(x, out)


@kernel
def softsign_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad / (1 + abs(x))**2``."""
    _SOFTSIGN_BACKWARD(grad, x, grad_x)


@kernel
def hardswish(x: Array, out: Array) -> None:
    """``out = x * (x + 3) / 6`` between -3 and 3, 0 left and ``x`` right of them."""
    _HARDSWISH(x, out)


@kernel
def hardswish_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * (x / 3 + 1/2)`` between -3 and 3, 0 left and ``grad`` right of them."""
    _HARDSWISH_BACKWARD(grad, x, grad_x)
