"""Exponentials on tiles by those of NumPy's functions that are fast on this processor.

NumPy computes some functions of float32 (``exp``, ``log``, ``tanh``) on the vector instructions of any processor,
others on those of AVX-512 alone. With it ``exp2`` is faster than ``exp``; without it slower, and ``expm1`` and
``log1p`` are slower by far.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from ..executor import Array
from .tiling import FLOAT32, DType

_SCALAR = "baseline"  # how NumPy's name begins for code that is not for this processor's own instructions


@functools.cache
def is_fast(name: str) -> bool:
    """Whether NumPy has a function of float32 for the vector instructions of this processor."""
    try:
        from numpy.lib.introspect import opt_func_info
    except ImportError:  # an older NumPy: what is fast everywhere will do
        return False
    current = opt_func_info(func_name=f"^{name}$").get(name, {}).get("ff", {}).get("current", _SCALAR)
    return not current.startswith(_SCALAR)


def in_float32(*coefficients: float) -> tuple[Array, ...]:
    """Numbers for steps over float32: with those of Python a call takes twice as long until it begins to compute.

    For few elements that is half of the time, and on two threads one of them waits for the other.
    """
    return tuple([np.array(coefficient, FLOAT32) for coefficient in coefficients])


_HALF, _ONE = in_float32(0.5, 1.0)
_ABOVE_MINUS_ONE, _LARGEST = in_float32(-1 + 2**-24, float(np.finfo(FLOAT32).max))
_SIGN = np.array(-(2**31), np.int32)


@functools.cache
def fast_exponential() -> tuple[np.ufunc, float]:
    """A fast exponential function of float32, and the logarithm of e to its base."""
    return (np.exp2, math.log2(math.e)) if is_fast("exp2") else (np.exp, 1.0)


def exp_of_product(x: Array, factor: float, out: Array) -> None:
    """``out = exp(factor * x)``; ``out`` may be ``x``.

    In float32 it is off by what the rounding of the exponent makes: 1e-7 times the exponent. The product overflows
    above 2.3e38 there, which the caller silences.
    """
    if x.dtype == FLOAT32:
        power, number = _in_base(factor)
        np.multiply(x, number, out)
        power(out, out)
        return
    if factor == -1:  # of complex numbers, too
        np.negative(x, out)
    else:
        np.multiply(x, factor, out)
    np.exp(out, out)


@functools.lru_cache(maxsize=64)
def _in_base(factor: float) -> tuple[np.ufunc, Array]:
    power, logarithm = fast_exponential()
    return power, np.array(factor * logarithm, FLOAT32)


def expm1_scratch(dtype: DType) -> list[DType]:
    """The scratch tiles that `expm1_of_negative` takes for a dtype."""
    return [] if dtype != FLOAT32 or is_fast("expm1") else [FLOAT32]


def expm1_of_negative(x: Array, out: Array, *work: Array) -> None:
    """``out = exp(x) - 1`` for ``x <= 0``; ``out`` may be ``x``."""
    if not work:
        np.expm1(x, out)
        return
    # With t = tanh(x / 2) it is 2 t / (1 - t): nothing cancels left of 0.
    (rest,) = work
    np.multiply(x, _HALF, out)
    np.tanh(out, out)
    np.subtract(_ONE, out, rest)
    np.divide(out, rest, out)
    np.add(out, out, out)


def log1p_scratch(dtype: DType) -> list[DType]:
    """The scratch tiles that `log1p_of_positive` takes for a dtype."""
    return [] if dtype != FLOAT32 or is_fast("log1p") else [FLOAT32] * 2


def log1p_of_positive(x: Array, out: Array, *work: Array) -> None:
    """``out = log(1 + x)`` for finite ``x >= 0``; ``out`` may be ``x``."""
    if not work:
        np.log1p(x, out)
        return
    u, lost = work
    _fill_sum_and_correction(x, u, lost, lost)
    np.log(u, u)
    np.add(u, lost, out)


def _fill_sum_and_correction(x: Array, u: Array, lost: Array, work: Array) -> None:
    """``u = 1 + x``, and what its rounding took from the logarithm: what it took from ``x`` by ``u``, to first order.

    ``lost`` may be ``x`` if it is not ``work``.
    """
    np.add(x, _ONE, u)
    np.subtract(u, _ONE, work)
    np.subtract(x, work, lost)
    np.divide(lost, u, lost)


def few_expm1_of_negative(x: Array) -> Array:
    """`expm1_of_negative` of a small array, in place."""
    if x.dtype != FLOAT32 or is_fast("expm1"):
        return np.expm1(x, x)
    expm1_of_negative(x, x, np.empty_like(x))
    return x


def few_log1p_of_positive(x: Array) -> Array:
    """`log1p_of_positive` of a small array, in place."""
    if x.dtype != FLOAT32 or is_fast("log1p"):
        return np.log1p(x, x)
    log1p_of_positive(x, x, np.empty_like(x), np.empty_like(x))
    return x


def expm1_tile(x: Array, out: Array, s: Array, t: Array) -> None:
    """``out = exp(x) - 1`` of float32 where NumPy's own is slow; ``out`` may be ``x``."""
    # Its size is that of exp(-abs(x)) - 1 times exp(max(x, 0)): nothing cancels on either side of 0.
    np.absolute(x, s)
    np.negative(s, s)
    expm1_of_negative(s, s, t)
    x.clip(0, np.inf, t)
    np.exp(t, t)
    np.multiply(s, t, s)
    np.absolute(s, s)
    _write_with_sign(s, x, out, t)


def log1p_tile(x: Array, out: Array, s: Array, lost: Array, u: Array) -> None:
    """``out = log(1 + x)`` of float32 where NumPy's own is slow; ``out`` may be ``x``."""
    x.clip(_ABOVE_MINUS_ONE, _LARGEST, lost)  # at -1 and at infinity there is nothing that the rounding took
    _fill_sum_and_correction(lost, u, lost, s)
    np.add(x, _ONE, s)
    np.log(s, s)
    np.add(s, lost, s)
    _write_with_sign(s, x, out, lost)


def _write_with_sign(size: Array, x: Array, out: Array, work: Array) -> None:
    """``out = size`` with the sign bit of ``x`` set where ``x`` has it; np.copysign takes three times as long."""
    sign = work.view(np.int32)
    np.bitwise_and(x.view(np.int32), _SIGN, out=sign)
    np.bitwise_or(size.view(np.int32), sign, out=out.view(np.int32))
