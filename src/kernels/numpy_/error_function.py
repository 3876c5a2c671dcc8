"""The error function, which NumPy lacks, on tiles.

Away from 0, ``erfc(z) = exp(-z*z) * t * P((z - k) * t)`` with ``t = 1 / (z + k)``: the scaled complementary error
function is smooth in the bounded variable (the transformation of Shepherd and Laframboise, Mathematics of Computation
36, 1981). Near 0, ``erf(x) = x * P(x * x)``. The polynomials are our own: interpolated at Chebyshev nodes with 50
digits and expanded in powers. Absolute errors: below 1e-15 in float64, 1e-7 in float32; the relative error of the
tails stays small too. In float32 one fit does for all: ``erf(z) = 1 - exp(z * P(z))`` for ``z >= 0``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..executor import Array
from .bits import SIGNED
from .exponentials import exp_of_product, expm1_of_negative, expm1_scratch, in_float32
from .tiling import BOOL, FLOAT32, map_tiles, map_tiles_in_out

__all__ = [
    "erf",
    "erf_backward",
]


class _Coefficients(NamedTuple):
    shift: float
    scaled_complement: tuple[float, ...]
    near_zero: tuple[float, ...]


_NEAR_ZERO = 0.8

_FLOAT32 = _Coefficients(
    1.5,
    (
        0.9647562209220452,
        -0.5078493096880635,
        0.07562388534914408,
        0.04775294804238806,
        -0.008147774504063406,
        -0.009372804397934146,
        -0.0006661812913800034,
        0.001600801190979565,
        0.0005655434889545462,
    ),
    (
        1.1283791639577605,
        -0.3761260334770038,
        0.11283136919722178,
        -0.026821849720909997,
        0.005086977565463497,
        -0.0006546706741881101,
    ),
)
_FLOAT64 = _Coefficients(
    2.5,
    (
        1.054031820305718,
        -0.8046518494391497,
        0.45391411664808134,
        -0.1712511452459601,
        0.028361550132785487,
        0.00839304429986035,
        -0.004818785540088039,
        -0.0004392082311792082,
        0.0007026939111593982,
        5.830752789904354e-05,
        -0.00011260606328295684,
        -1.9530885897478854e-05,
        1.8249490310174634e-05,
        6.750283074279082e-06,
        -2.3461872788403527e-06,
        -1.955160328399926e-06,
        1.8858261928710686e-08,
        4.39683374834372e-07,
        1.0940858653353871e-07,
        -6.497987666560425e-08,
        -3.256422560071071e-08,
        3.911851536624098e-09,
        3.3636411601236445e-09,
    ),
    (
        1.1283791670955126,
        -0.37612638903183626,
        0.11283791670947362,
        -0.02686617064323223,
        0.0052239776016013385,
        -0.0008548325275320459,
        0.00012055252925946311,
        -1.4923288948543734e-05,
        1.6417134798375275e-06,
        -1.5828242473370467e-07,
        1.1080815077815397e-08,
    ),
)


# log(1 - erf(z)) = z * P(z)
_LOG_COMPLEMENT = in_float32(
    -1.128379168456009,
    -0.6366197695116406,
    -0.10277175868027362,
    0.01911909551352992,
    0.0002511740115700516,
    -0.0017982584518015543,
    0.000740673247027476,
    -0.00016776535875015597,
    2.147620947522714e-05,
    -1.2093117013982567e-06,
)
_SIGN = np.array(-(2**31), np.int32)


def _coefficients(dtype: np.dtype[np.generic]) -> _Coefficients:
    return _FLOAT64 if dtype == np.float64 else _FLOAT32


def horner(coefficients: tuple[float, ...] | tuple[Array, ...], x: Array, out: Array) -> None:
    """``out = c0 + x * (c1 + x * (...))``; ``out`` is not ``x``."""
    np.multiply(x, coefficients[-1], out)
    np.add(out, coefficients[-2], out)
    for coefficient in coefficients[-3::-1]:
        np.multiply(out, x, out)
        np.add(out, coefficient, out)


def scaled_complement_tile(z: Array, out: Array, variable: Array) -> None:
    """``out = exp(z*z) * erfc(z)`` for ``z >= 0``; overwrites ``z`` and ``variable``."""
    shift, coefficients, _ = _coefficients(z.dtype)
    np.add(z, shift, z)
    np.divide(1, z, z)  # twice as fast as np.reciprocal
    np.multiply(z, -2 * shift, variable)
    np.add(variable, 1, variable)
    horner(coefficients, variable, out)
    np.multiply(out, z, out)


def erf(x: Array, out: Array) -> None:
    """``out[...] = erf(x)``."""
    if x.dtype == FLOAT32:
        map_tiles_in_out(_erf_float32_tile, [x, out], [FLOAT32, *expm1_scratch(FLOAT32)])
    else:
        map_tiles(_erf_tile, [x, out], [x.dtype] * 3 + [BOOL, SIGNED[x.dtype.itemsize]])


def _erf_float32_tile(x: Array, out: Array, s: Array, size: Array, *work: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.absolute(x, size)
        horner(_LOG_COMPLEMENT, size, s)
        np.multiply(s, size, s)
        expm1_of_negative(s, s, *work)
        np.negative(s, s)
    bits, sign = s.view(np.int32), size.view(np.int32)  # np.copysign takes three times as long
    np.bitwise_and(x.view(np.int32), _SIGN, out=sign)
    np.bitwise_or(bits, sign, out=out.view(np.int32))


def _erf_tile(x: Array, out: Array, square: Array, far: Array, work: Array, near: Array, mask: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        np.absolute(x, work)
        np.less(work, _NEAR_ZERO, near)
        scaled_complement_tile(work, far, square)
        np.square(x, square)
        np.negative(square, work)
        np.exp(work, work)
        np.multiply(far, work, far)
        np.subtract(1, far, far)
        np.copysign(far, x, far)
        horner(_coefficients(x.dtype).near_zero, square, work)
        np.multiply(work, x, work)
    np.negative(near.view(np.int8), out=mask)
    bits_far, bits_near = far.view(mask.dtype), work.view(mask.dtype)
    np.bitwise_xor(bits_near, bits_far, out=bits_near)
    np.bitwise_and(bits_near, mask, out=bits_near)
    np.bitwise_xor(bits_far, bits_near, out=out.view(mask.dtype))


def erf_backward(grad: Array, x: Array, grad_x: Array) -> None:
    """``grad_x = grad * exp(-x*x) * 2 / sqrt(pi)``."""
    map_tiles_in_out(_erf_backward_tile, [grad, x, grad_x])


def _erf_backward_tile(grad: Array, x: Array, grad_x: Array, s: Array) -> None:
    with np.errstate(over="ignore"):
        np.square(x, s)
        exp_of_product(s, -1.0, s)
    np.multiply(s, 2 / math.sqrt(math.pi), s)
    np.multiply(s, grad, grad_x)
