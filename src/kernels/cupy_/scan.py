"""Running sums, products, extremes and log-sums along one axis: a thread a line.

Sums and products are kept in double, or in float for half precision.
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumprod_backward",
    "cumsum",
    "logcumsumexp",
    "prod",
    "prod_backward",
]

# The type that is added up in: integers as they are, floats in double.
_SUM = """
template <class X> struct summed { typedef float type; };
template <> struct summed<double> { typedef double type; };
template <> struct summed<float> { typedef double type; };
template <> struct summed<int> { typedef int type; };
template <> struct summed<long long> { typedef long long type; };
template <> struct summed<bool> { typedef bool type; };
typedef summed<T>::type S;
"""
# Where the line of a thread begins, and how far apart its elements lie.
_LINE = """
    long long start = (long long)i / inner * length * inner + (long long)i % inner;
"""
_SIZES = "int64 length, int64 inner"


def _lines(ins: str, outs: str, code: str, name: str, preamble: str = "") -> cupy.ElementwiseKernel:
    """A kernel that runs once a line."""
    return cupy.ElementwiseKernel(f"{ins}, {_SIZES}", outs, _LINE + code, f"stowgrad_{name}", preamble=preamble)


_CUMSUM = _lines(
    "raw T x, int64 backwards",
    "raw T y",
    """
    S total = 0;
    for (long long j = 0; j < length; ++j) {
      long long at = start + (backwards ? length - 1 - j : j) * inner;
      total += (S)x[at];
      y[at] = (T)total;
    }
    """,
    "cumsum",
    _SUM,
)
_CUMPROD = _lines(
    "raw T x",
    "raw T y",
    """
    S total = 1;
    for (long long j = 0; j < length; ++j) {
      long long at = start + j * inner;
      total *= (S)x[at];
      y[at] = (T)total;
    }
    """,
    "cumprod",
    _SUM,
)
_EXTREME = """
    T best = x[start];
    long long place = 0;
    for (long long j = 0; j < length; ++j) {
      long long at = start + j * inner;
      T now = x[at];
      if (now != now || (best == best && now %s best)) { best = now; place = j; }
      y[at] = best;
      indices[at] = place;
    }
"""
_CUMMAX = _lines("raw T x", "raw T y, raw int64 indices", _EXTREME % ">=", "cummax")
_CUMMIN = _lines("raw T x", "raw T y, raw int64 indices", _EXTREME % "<=", "cummin")
_LOGCUMSUMEXP = _lines(
    "raw T x, int64 backwards",
    "raw T y",
    """
    W most = 0, total = 0;  // the log-sum so far is most + log(total)
    for (long long j = 0; j < length; ++j) {
      long long at = start + (backwards ? length - 1 - j : j) * inner;
      W now = (W)x[at];
      if (total == (W)0) { most = now; total = now == now && now + now == now && now < (W)0 ? (W)0 : (W)1; }
      else if (now > most) { total = total * exp(most - now) + (W)1; most = now; }
      else if (now == most) { total += (W)1; }
      else { total += exp(now - most); }
      y[at] = (T)(total == (W)0 || (most > (W)0 && most + most == most && total == total) ? most : most + log(total));
    }
    """,
    "logcumsumexp",
    WIDE,
)
_PROD_BACKWARD = _lines(
    "raw T grad, raw T x",
    "raw T y",
    """
    W total = (W)grad[i];
    for (long long j = 0; j < length; ++j) {
      long long at = start + j * inner;
      y[at] = (T)total;
      total *= (W)x[at];
    }
    total = 1;
    for (long long j = length - 1; j >= 0; --j) {
      long long at = start + j * inner;
      y[at] = (T)((W)y[at] * total);
      total *= (W)x[at];
    }
    """,
    "prod_backward",
    WIDE,
)
_CUMPROD_BACKWARD = _lines(
    "raw T grad, raw T x",
    "raw T y",
    """
    W before = 1;
    for (long long j = 0; j < length; ++j) {
      long long at = start + j * inner;
      y[at] = (T)before;
      before *= (W)x[at];
    }
    W after = 0;
    for (long long j = length - 1; j >= 0; --j) {
      long long at = start + j * inner;
      after += (W)grad[at];
      y[at] = (T)((W)y[at] * after);
      after *= (W)x[at];
    }
    """,
    "cumprod_backward",
    WIDE,
)


@kernel
def cumsum(x: Array, out: Array, *, axis: int, reverse: bool = False) -> None:
    """``out[j] = x[0] + ... + x[j]`` along ``axis``, in ``out``'s dtype; from the end if ``reverse``."""
    _run(_CUMSUM, out, axis, _like(x, out), int(reverse), out=out)


@kernel
def cumprod(x: Array, out: Array, *, axis: int) -> None:
    """``out[j] = x[0] * ... * x[j]`` along ``axis``, in ``out``'s dtype."""
    _run(_CUMPROD, out, axis, _like(x, out), out=out)


@kernel
def cummax(x: Array, values: Array, indices: Array, *, axis: int) -> None:
    """The largest element so far along ``axis``, and the number of the last one that equals it; NaN wins."""
    _run(_CUMMAX, x, axis, cupy.ascontiguousarray(x), out=values, second=indices)


@kernel
def cummin(x: Array, values: Array, indices: Array, *, axis: int) -> None:
    """The smallest element so far along ``axis``, and the number of the last one that equals it; NaN wins."""
    _run(_CUMMIN, x, axis, cupy.ascontiguousarray(x), out=values, second=indices)


@kernel
def logcumsumexp(x: Array, out: Array, *, axis: int, reverse: bool = False) -> None:
    """``out[j] = log(exp(x[0]) + ... + exp(x[j]))`` along ``axis``; from the end if ``reverse``."""
    _run(_LOGCUMSUMEXP, x, axis, cupy.ascontiguousarray(x), int(reverse), out=out)


@kernel
def prod(x: Array, out: Array, *, axis: int | None = None) -> None:
    """``out = x.prod(axis)`` in ``out``'s dtype, of the flattened array for None."""
    shape = () if axis is None or not x.ndim else tuple(n for a, n in enumerate(x.shape) if a != axis % x.ndim)
    cupy.prod(x, axis=axis if x.ndim else None, dtype=out.dtype, out=out.reshape(shape))


@kernel
def prod_backward(grad: Array, x: Array, grad_x: Array, *, axis: int | None = None) -> None:
    """``grad_x[j] = grad * the product of all elements of the line but the j-th``; zeros are no matter."""
    x, target = cupy.ascontiguousarray(x), grad_x
    if axis is None:
        x, target, axis = x.reshape(-1), grad_x.reshape(-1), 0
    _run(_PROD_BACKWARD, x, axis, cupy.ascontiguousarray(grad), x, out=target)


@kernel
def cumprod_backward(grad: Array, x: Array, grad_x: Array, *, axis: int) -> None:
    """The gradient of `cumprod`: ``x[0] * ... * x[k-1]`` times a sum of ``grad[j] * x[k+1] * ... * x[j]``."""
    _run(_CUMPROD_BACKWARD, x, axis, cupy.ascontiguousarray(grad), cupy.ascontiguousarray(x), out=grad_x)


def _like(x: Array, out: Array) -> Array:
    return cupy.ascontiguousarray(x).astype(out.dtype, copy=False)


def _run(run: cupy.ElementwiseKernel, x: Array, axis: int, *given: object, out: Array, second: Array = None) -> None:
    """Run a kernel for every line along an axis of ``x``."""
    if not x.size:
        return
    shape = x.shape or (1,)
    axis %= len(shape)
    length, inner = shape[axis], math.prod(shape[axis + 1 :])
    outs = (out,) if second is None else (out, second)
    run(*given, length, inner, *outs, size=x.size // length)
