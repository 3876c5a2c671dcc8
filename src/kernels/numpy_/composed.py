"""Element by element, in several steps on each tile while it is in the cache. Shapes broadcast to ``out``'s."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..executor import Array
from .tiling import BOOL, DType, map_tiles

__all__ = [
    "addcdiv",
    "addcmul",
    "frac",
    "frexp",
    "heaviside",
    "integer_power",
    "lerp",
    "round",
    "sinc",
    "trunc_divide",
    "xlog1py",
    "xlogy",
]

Operand: TypeAlias = Any  # an array or a Python scalar


def map_operands(
    body: Callable[..., Any], operands: Sequence[Operand], out: Array, scratch_dtypes: Sequence[DType] = ()
) -> None:
    """`map_tiles` of operands that broadcast to ``out``; numbers are handed on as they are."""
    if all(np.shape(value) == out.shape for value in operands):
        map_tiles(body, [*operands, out], scratch_dtypes)
        return
    lines = [number for number, value in enumerate(operands) if np.ndim(value)]

    def tile(*tiles: Array) -> None:
        given = list(operands)
        for number, part in zip(lines, tiles, strict=False):
            given[number] = part
        body(*given, *tiles[len(lines) :])

    map_tiles(tile, [*[np.broadcast_to(operands[number], out.shape) for number in lines], out], scratch_dtypes)


def frac(x: Array, out: Array) -> None:
    """``out[...] = x`` without its whole part."""
    map_tiles(_frac_tile, [x, out], [out.dtype])


def _frac_tile(x: Array, out: Array, whole: Array) -> None:
    np.trunc(x, whole)
    np.subtract(x, whole, out)


def round(x: Array, out: Array, *, decimals: int) -> None:
    """``out[...] = x`` rounded to decimals, or to powers of ten if they are negative."""
    scale, back = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
    power = 10.0 ** abs(decimals)

    def tile(x: Array, out: Array) -> None:
        scale(x, power, out)
        np.rint(out, out)
        back(out, power, out)

    map_tiles(tile, [x, out])


def sinc(x: Array, out: Array) -> None:
    """``out[...] = sin(pi x) / (pi x)``, 1 at 0."""
    map_tiles(_sinc_tile, [x, out], [out.dtype, BOOL])


def _sinc_tile(x: Array, out: Array, angle: Array, zero: Array) -> None:
    np.equal(x, 0, zero)
    np.multiply(x, math.pi, angle)
    np.copyto(angle, 1, where=zero)
    np.sin(angle, out)
    np.divide(out, angle, out)
    np.copyto(out, 1, where=zero)


def heaviside(x: Operand, values: Operand, out: Array) -> None:
    """``out[...] = 0`` left of 0, 1 right of it, ``values`` at 0; NaN gives 0."""
    map_operands(_heaviside_tile, [x, values], out, [BOOL, BOOL])


def _heaviside_tile(x: Array, values: Operand, out: Array, zero: Array, right: Array) -> None:
    np.equal(x, 0, zero)
    np.greater(x, 0, right)
    np.logical_not(zero, zero)
    np.copyto(out, values)
    np.copyto(out, right, where=zero, casting="unsafe")


def integer_power(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x ** y`` of integers, where a negative power is rounded towards 0."""
    map_operands(_integer_power_tile, [x, y], out, [out.dtype, out.dtype, BOOL, BOOL])


def _integer_power_tile(
    x: Operand, y: Operand, out: Array, power: Array, sign: Array, negative: Array, one: Array
) -> None:
    np.less(y, 0, negative)
    np.maximum(y, 0, out=power, casting="unsafe")
    np.power(x, power, out=power, casting="unsafe")
    if negative.any():  # only 1 and -1 have one
        np.bitwise_and(y, 1, out=sign, casting="unsafe")
        np.multiply(sign, -2, sign)
        np.add(sign, 1, sign)
        np.equal(x, 1, one)
        np.copyto(power, one, where=negative, casting="unsafe")
        np.equal(x, -1, one)
        np.logical_and(negative, one, one)
        np.copyto(power, sign, where=one)
    np.copyto(out, power)


def trunc_divide(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x / y`` without the fraction."""
    map_operands(_whole_trunc_tile if out.dtype.kind in "iu" else _trunc_tile, [x, y], out, [out.dtype])


def _trunc_tile(x: Operand, y: Operand, out: Array, _: Array) -> None:
    np.divide(x, y, out=out)
    np.trunc(out, out)


def _whole_trunc_tile(x: Operand, y: Operand, out: Array, rest: Array) -> None:
    np.fmod(x, y, out=rest, casting="unsafe")
    np.subtract(x, rest, rest)
    np.floor_divide(rest, y, out=out, casting="unsafe")


def xlogy(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x * log(y)``, 0 where ``x`` is 0 and ``y`` is no NaN."""
    map_operands(lambda *tiles: _times_log_tile(np.log, *tiles), [x, y], out, [out.dtype, BOOL, BOOL])


def xlog1py(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x * log(1 + y)``, 0 where ``x`` is 0 and ``y`` is no NaN."""
    map_operands(lambda *tiles: _times_log_tile(np.log1p, *tiles), [x, y], out, [out.dtype, BOOL, BOOL])


def _times_log_tile(
    log: np.ufunc, x: Operand, y: Operand, out: Array, product: Array, zero: Array, known: Array
) -> None:
    np.copyto(product, y, casting="unsafe")  # in whose dtype it is computed
    with np.errstate(divide="ignore", invalid="ignore"):
        log(product, product)
        np.multiply(product, x, out=product)
    np.equal(x, 0, zero)
    np.isnan(y, known)
    np.logical_not(known, known)
    np.logical_and(zero, known, zero)
    np.copyto(out, product)
    np.copyto(out, 0, where=zero)


def lerp(x: Operand, end: Operand, weight: Operand, out: Array) -> None:
    """``out[...] = x + weight * (end - x)``, from the end that is nearer."""
    map_operands(_lerp_tile, [x, end, weight], out, [out.dtype, out.dtype, BOOL])


def _lerp_tile(x: Operand, end: Operand, weight: Operand, out: Array, step: Array, far: Array, near_end: Array) -> None:
    np.subtract(end, x, step)
    if np.ndim(weight):
        np.absolute(weight, far)
        np.greater_equal(far, 0.5, near_end)
        np.subtract(1, weight, far)
        np.multiply(step, far, far)
        np.subtract(end, far, far)
        np.multiply(step, weight, step)
        np.add(x, step, out)
        np.copyto(out, far, where=near_end)
    elif abs(weight) < 0.5:
        np.multiply(step, weight, step)
        np.add(x, step, out)
    else:
        np.multiply(step, 1 - weight, step)
        np.subtract(end, step, out)


def addcmul(x: Operand, y: Operand, z: Operand, out: Array, *, value: float) -> None:
    """``out[...] = x + value * y * z``."""
    map_operands(lambda *tiles: _combined_tile(np.multiply, value, *tiles), [x, y, z], out, [out.dtype])


def addcdiv(x: Operand, y: Operand, z: Operand, out: Array, *, value: float) -> None:
    """``out[...] = x + value * y / z``."""
    map_operands(lambda *tiles: _combined_tile(np.divide, value, *tiles), [x, y, z], out, [out.dtype])


def _combined_tile(
    ufunc: np.ufunc, value: float, x: Operand, y: Operand, z: Operand, out: Array, product: Array
) -> None:
    if value == 1:
        ufunc(y, z, out=product)
    else:
        np.multiply(y, value, out=product, casting="unsafe")
        ufunc(product, z, out=product)
    np.add(x, product, out=out)


def frexp(x: Array, mantissa: Array, exponent: Array) -> None:
    """``x = mantissa * 2 ** exponent``, with mantissas of sizes from 0.5 to 1."""
    map_tiles(np.frexp, [x, mantissa, exponent])
