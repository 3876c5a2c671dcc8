"""Sums over neighbouring channels, and local response norm, which divides by a power of one.

Arrays are seen as (samples, channels, inner).
"""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel

__all__ = ["local_response_norm", "local_response_norm_backward", "window_sum"]

# Adds up `term` at each `place` of the window around element i.
_WINDOW = """
    long long channel = ((long long)i / inner) %% channels;
    long long first = channel < before ? -channel : -before;
    long long last = channel + after < channels ? after : channels - 1 - channel;
    W total = (W)0;
    for (long long step = first; step <= last; ++step) {
      long long place = (long long)i + step * inner;
      total += %s;
    }
"""
_SIZES = "int64 channels, int64 inner, int64 before, int64 after"
_WINDOW_SUM = cupy.ElementwiseKernel(
    f"raw T x, {_SIZES}", "T y", _WINDOW % "(W)x[place]" + "y = (T)total;", "stowgrad_window_sum", preamble=WIDE
)
_DENOMINATORS = cupy.ElementwiseKernel(
    f"raw T x, {_SIZES}, float64 factor, float64 shift",
    "T y",
    _WINDOW % "(W)x[place] * (W)x[place]" + "y = (T)((W)shift + (W)factor * total);",
    "stowgrad_response_denominators",
    preamble=WIDE,
)
_RESPONSE_NORM = cupy.ElementwiseKernel(
    "T x, T d, float64 beta", "T y", "y = (T)((W)x * pow((W)d, -(W)beta))", "stowgrad_response_norm", preamble=WIDE
)
_RESPONSE_NORM_BACKWARD = cupy.ElementwiseKernel(
    f"raw T grad, raw T x, raw T d, {_SIZES}, float64 beta, float64 factor",
    "T y",
    _WINDOW % "(W)grad[place] * (W)x[place] * pow((W)d[place], -(W)beta - (W)1)"
    + "y = (T)((W)grad[i] * pow((W)d[i], -(W)beta) - (W)factor * (W)x[i] * total);",
    "stowgrad_response_norm_backward",
    preamble=WIDE,
)


@kernel
def window_sum(x: Array, out: Array, *, before: int, after: int) -> None:
    """``out[:, c] = x[:, c - before : c + after + 1].sum(1)``, as far as there are channels."""
    _WINDOW_SUM(x, *x.shape[1:], before, after, out)


@kernel
def local_response_norm(x: Array, out: Array, *, size: int, alpha: float, beta: float, k: float) -> None:
    """``out = x / (k + alpha * mean of x**2 over size channels around it) ** beta``."""
    _RESPONSE_NORM(x, _denominators(x, size, alpha, k), beta, out)


@kernel
def local_response_norm_backward(
    grad: Array, x: Array, grad_x: Array, *, size: int, alpha: float, beta: float, k: float
) -> None:
    """The gradient of `local_response_norm`: with the denominator d ** beta, ``g / d**beta`` less what changes d."""
    sizes = (*x.shape[1:], (size - 1) // 2, size // 2)
    factor = 2 * alpha * beta / size
    _RESPONSE_NORM_BACKWARD(grad, x, _denominators(x, size, alpha, k), *sizes, beta, factor, grad_x)


def _denominators(x: Array, size: int, alpha: float, k: float) -> Array:
    found = cupy.empty(x.shape, x.dtype)
    _DENOMINATORS(x, *x.shape[1:], size // 2, (size - 1) // 2, alpha / size, k, found)
    return found
