"""Activation functions, forward and backward, each in one launch.

``out`` and ``grad_x`` may be one of the inputs.
"""

from __future__ import annotations

import cupy

from .bits import BIT
from .launch import WIDE, Array, kernel

__all__ = [
    "erf",
    "erf_backward",
    "gelu",
    "gelu_backward",
    "relu",
    "relu_backward",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "tanh_backward",
]

CONSTANTS = """
#define SLOPE ((W)0.79788456080286535588)  // sqrt(2 / pi)
#define CUBIC ((W)0.044715)
#define ROOT_HALF ((W)0.70710678118654752440)
#define PEAK ((W)0.39894228040143267794)  // 1 / sqrt(2 pi)
"""


def _forward(name: str, body: str) -> cupy.ElementwiseKernel:
    """A kernel that computes ``r`` of ``v``."""
    code = f"W v = (W)x; W r; {body} y = (T)r;"
    return cupy.ElementwiseKernel("T x", "T y", code, f"stowgrad_{name}", preamble=WIDE + CONSTANTS)


def _backward(name: str, body: str) -> cupy.ElementwiseKernel:
    """A kernel that computes the derivative ``d`` of ``v`` and multiplies it by the gradient."""
    code = f"W v = (W)x; W d; {body} y = (T)((W)grad * d);"
    return cupy.ElementwiseKernel("T grad, T x", "T y", code, f"stowgrad_{name}", preamble=WIDE + CONSTANTS)


_GELU = {
    "tanh": _forward("gelu_tanh", "r = (W)0.5 * v * ((W)1 + tanh(SLOPE * v * ((W)1 + CUBIC * v * v)));"),
    "none": _forward("gelu", "r = (W)0.5 * v * erfc(-v * ROOT_HALF);"),
}
_GELU_BACKWARD = {
    "tanh": _backward(
        "gelu_tanh_backward",
        """
        W square = v * v;
        W t = tanh(SLOPE * v * ((W)1 + CUBIC * square));
        W rise = v * SLOPE * ((W)1 + (W)3 * CUBIC * square);
        d = (W)0.5 * ((W)1 + t);
        if (t * t < (W)1) d += (W)0.5 * ((W)1 - t * t) * rise;  // far out the rise is infinite
        """,
    ),
    "none": _backward(
        "gelu_backward",
        """
        W density = exp(-(W)0.5 * v * v) * PEAK;
        d = (W)0.5 * erfc(-v * ROOT_HALF);
        if (density > (W)0) d += v * density;
        """,
    ),
}
_SIGMOID = _forward("sigmoid", "r = (W)1 / ((W)1 + exp(-v));")
_SIGMOID_BACKWARD = _backward("sigmoid_backward", "d = v * ((W)1 - v);")
_TANH_BACKWARD = _backward("tanh_backward", "d = (W)1 - v * v;")
_SILU = _forward("silu", "r = v / ((W)1 + exp(-v));")
_SILU_BACKWARD = _backward("silu_backward", "W s = (W)1 / ((W)1 + exp(-v)); d = s * ((W)1 + v * ((W)1 - s));")
_ERF = _forward("erf", "r = erf(v);")
_ERF_BACKWARD = _backward("erf_backward", "d = (W)1.12837916709551257390 * exp(-v * v);")
# One thread for eight elements: it alone writes their byte of the mask. NaN is not <= 0, so it passes.
_RELU = cupy.ElementwiseKernel(
    "raw T x, int64 count",
    "raw T y, uint8 bits",
    """
    unsigned int byte = 0;
    for (int bit = 0; bit < 8; ++bit) {
      long long place = (long long)i * 8 + bit;
      if (place < count) {
        T v = x[place];
        bool keep = !((W)v <= (W)0);
        byte |= (unsigned int)keep << (7 - bit);
        y[place] = keep ? v : (T)0.0f;
      }
    }
    bits = (unsigned char)byte;
    """,
    "stowgrad_relu",
    preamble=WIDE,
)
_RELU_BACKWARD = cupy.ElementwiseKernel(
    "T grad, raw uint8 bits", "T y", f"y = {BIT} ? grad : (T)0.0f", "stowgrad_relu_backward"
)


@kernel
def gelu(x: Array, out: Array, *, approximate: str = "none") -> None:
    """``out = x * Phi(x)``: ``Phi`` is the normal distribution function ("none") or its approximation by "tanh"."""
    _GELU[approximate](x, out)


@kernel
def gelu_backward(grad: Array, x: Array, grad_x: Array, *, approximate: str = "none") -> None:
    """``grad_x = grad * gelu'(x)``."""
    _GELU_BACKWARD[approximate](grad, x, grad_x)


@kernel
def sigmoid(x: Array, out: Array) -> None:
    """``out = 1 / (1 + exp(-x))``."""
    _SIGMOID(x, out)


@kernel
def sigmoid_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * y * (1 - y)`` with the forward's result ``y``."""
    _SIGMOID_BACKWARD(grad, y, grad_x)


@kernel
def tanh_backward(grad: Array, y: Array, grad_x: Array) -> None:
    """``grad_x = grad * (1 - y * y)`` with the forward's result ``y``."""
    _TANH_BACKWARD(grad, y, grad_x)


@kernel
def silu(x: Array, out: Array) -> None:
    """``out = x * sigmoid(x)``."""
    _SILU(x, out)


@kernel
def silu_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."""
    _SILU_BACKWARD(grad, x, grad_x)


@kernel
def erf(x: Array, out: Array) -> None:
    """``out[...] = erf(x)``."""
    _ERF(x, out)


@kernel
def erf_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * exp(-x*x) * 2 / sqrt(pi)``."""
    _ERF_BACKWARD(grad, x, grad_x)


@kernel
def relu(x: Array, out: Array, mask_bits: Array | None = None) -> None:
    """``out = max(x, 0)``, and one bit an element in ``mask_bits`` (uint8, `numpy.packbits`' layout) for backward.

    As in PyTorch, NaN passes through and its bit is set.
    """
    if mask_bits is None:
        cupy.maximum(x, 0, out=out)
    else:
        _RELU(x, x.size, out, mask_bits)


@kernel
def relu_backward(grad: Array, mask_bits: Array, grad_x: Array) -> None:
    """``grad_x = grad`` where the bit is set, else 0."""
    _RELU_BACKWARD(grad, mask_bits, grad_x)
