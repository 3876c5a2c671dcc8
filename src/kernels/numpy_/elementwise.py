"""Element by element: one ufunc each, called directly for small arrays, over tiles on threads for large ones.

Shapes broadcast to ``out``'s. NumPy's floating-point warnings are the caller's affair (`np.errstate` reaches the
workers too).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..executor import Array
from .bits import SIGNED, keep_tile
from .exponentials import expm1_tile, is_fast, log1p_tile
from .tiling import BOOL, FLOAT32, TILE_BYTES, UNTILED, copy_tiled, elementwise, map_tiles, map_tiles_in_out

__all__ = [
    "abs",
    "accumulate_",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "axpy_",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clamp",
    "conjugate",
    "copy",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fill",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "lcm",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nan_to_num",
    "negative",
    "nextafter",
    "not_equal",
    "power",
    "rad2deg",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "rsqrt",
    "scale_",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

_FEW = 2048  # elements: of up to so many, a copy by a mask is cheaper than the calls in its place

Operand: TypeAlias = Any  # an array or a Python scalar
Unary: TypeAlias = Callable[[Operand, Array], None]
Binary: TypeAlias = Callable[[Operand, Operand, Array], None]


def _unary(ufunc: np.ufunc, tile: Callable[..., None] | None = None, buffers: int = 0) -> Unary:
    """The kernel of a function that takes many instructions an element.

    ``tile``, which takes so many scratch ``buffers``, computes float32 where NumPy's function is slow.
    """

    def kernel(x: Operand, out: Array) -> None:
        if tile is not None and out.dtype == FLOAT32 and _is_alike(x, out) and not is_fast(ufunc.__name__):
            map_tiles(tile, [x, out], [FLOAT32] * buffers)
        elif out.size <= UNTILED:
            ufunc(x, out)
        else:
            map_tiles(ufunc, [_spread(x, out), out])

    _name(kernel, ufunc)
    return kernel


def _light_unary(ufunc: np.ufunc) -> Unary:
    """The kernel of a function that takes one instruction an element or few."""

    def kernel(x: Operand, out: Array) -> None:
        if out.nbytes <= TILE_BYTES:
            elementwise(ufunc, x, out)
        else:
            map_tiles(lambda a, c: elementwise(ufunc, a, c), [_spread(x, out), out], one_step=True)

    _name(kernel, ufunc)
    return kernel


def _binary(ufunc: np.ufunc) -> Binary:
    """The kernel of a function that takes many instructions an element."""

    def kernel(x: Operand, y: Operand, out: Array) -> None:
        if out.size <= UNTILED:
            ufunc(x, y, out=out)
        else:
            _map_binary(lambda a, b, c: ufunc(a, b, out=c), x, y, out)

    _name(kernel, ufunc)
    return kernel


def _light_binary(ufunc: np.ufunc) -> Binary:
    """The kernel of a function that takes one instruction an element or few."""

    def kernel(x: Operand, y: Operand, out: Array) -> None:
        if out.nbytes <= TILE_BYTES:
            elementwise(ufunc, x, y, out)
        else:
            _map_binary(lambda a, b, c: elementwise(ufunc, a, b, c), x, y, out, one_step=True)

    _name(kernel, ufunc)
    return kernel


def _map_binary(body: Callable[..., None], x: Operand, y: Operand, out: Array, *, one_step: bool = False) -> None:
    if np.ndim(x) == 0:  # handed on as it is: a Python number must not become a float64 array
        map_tiles(lambda b, c: body(x, b, c), [_spread(y, out), out], one_step=one_step)
    elif np.ndim(y) == 0:
        map_tiles(lambda a, c: body(a, y, c), [_spread(x, out), out], one_step=one_step)
    else:
        map_tiles(body, [_spread(x, out), _spread(y, out), out], one_step=one_step)


def _name(kernel: Any, ufunc: np.ufunc) -> None:
    kernel.__name__ = kernel.__qualname__ = ufunc.__name__
    kernel.__doc__ = f"``out[...] = np.{ufunc.__name__}(...)``, broadcasting."


def _is_alike(x: Operand, out: Array) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == out.dtype and x.shape == out.shape


def _spread(x: Operand, out: Array) -> Array:
    return x if np.shape(x) == out.shape else np.broadcast_to(x, out.shape)


add = _light_binary(np.add)
subtract = _light_binary(np.subtract)
multiply = _light_binary(np.multiply)
divide = _light_binary(np.divide)
floor_divide = _binary(np.floor_divide)
remainder = _binary(np.remainder)
fmod = _binary(np.fmod)
maximum = _light_binary(np.maximum)
minimum = _light_binary(np.minimum)
fmax = _light_binary(np.fmax)
fmin = _light_binary(np.fmin)
arctan2 = _binary(np.arctan2)
hypot = _binary(np.hypot)
copysign = _light_binary(np.copysign)
logaddexp = _binary(np.logaddexp)
logaddexp2 = _binary(np.logaddexp2)
equal = _light_binary(np.equal)
not_equal = _light_binary(np.not_equal)
less = _light_binary(np.less)
less_equal = _light_binary(np.less_equal)
greater = _light_binary(np.greater)
greater_equal = _light_binary(np.greater_equal)
logical_and = _light_binary(np.logical_and)
logical_or = _light_binary(np.logical_or)
logical_xor = _light_binary(np.logical_xor)
bitwise_and = _light_binary(np.bitwise_and)
bitwise_or = _light_binary(np.bitwise_or)
bitwise_xor = _light_binary(np.bitwise_xor)
left_shift = _light_binary(np.left_shift)
right_shift = _light_binary(np.right_shift)
gcd = _binary(np.gcd)
lcm = _binary(np.lcm)
nextafter = _binary(np.nextafter)

negative = _light_unary(np.negative)
abs = _light_unary(np.absolute)
square = _light_unary(np.square)
reciprocal = _light_unary(np.reciprocal)
sqrt = _light_unary(np.sqrt)
cbrt = _unary(np.cbrt)
exp = _unary(np.exp)
exp2 = _unary(np.exp2)
expm1 = _unary(np.expm1, expm1_tile, 2)
log = _unary(np.log)
log2 = _unary(np.log2)
log10 = _unary(np.log10)
log1p = _unary(np.log1p, log1p_tile, 3)
sin = _unary(np.sin)
cos = _unary(np.cos)
tan = _unary(np.tan)
arcsin = _unary(np.arcsin)
arccos = _unary(np.arccos)
arctan = _unary(np.arctan)
sinh = _unary(np.sinh)
cosh = _unary(np.cosh)
tanh = _unary(np.tanh)
arcsinh = _unary(np.arcsinh)
arccosh = _unary(np.arccosh)
arctanh = _unary(np.arctanh)
floor = _light_unary(np.floor)
ceil = _light_unary(np.ceil)
trunc = _light_unary(np.trunc)
rint = _light_unary(np.rint)
conjugate = _light_unary(np.conjugate)
logical_not = _light_unary(np.logical_not)
bitwise_not = _light_unary(np.bitwise_not)
isnan = _light_unary(np.isnan)
isinf = _light_unary(np.isinf)
isfinite = _light_unary(np.isfinite)
signbit = _light_unary(np.signbit)
deg2rad = _light_unary(np.deg2rad)
rad2deg = _light_unary(np.rad2deg)


_power = _binary(np.power)


def power(x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x ** y``; a square and a cube of floats are products, as in PyTorch."""
    if not is_product(out.dtype, y):
        _power(x, y, out)
    elif y == 2:
        square(x, out)
    else:
        map_tiles_in_out(_cube_tile, [_spread(x, out), out])


def is_product(dtype: np.dtype[Any], exponent: Operand) -> bool:
    """Whether `power` multiplies: a fourth of the time."""
    return dtype.kind == "f" and dtype.itemsize >= 4 and type(exponent) in (int, float) and exponent in (2, 3)


def _cube_tile(x: Array, out: Array, squared: Array) -> None:
    np.square(x, squared)
    np.multiply(squared, x, out)


def rsqrt(x: Operand, out: Array) -> None:
    """``out[...] = 1 / sqrt(x)``."""
    if out.size <= UNTILED:
        _rsqrt_tile(x, out)
    else:
        map_tiles(_rsqrt_tile, [_spread(x, out), out])


def _rsqrt_tile(x: Operand, out: Array) -> None:
    np.sqrt(x, out)
    np.reciprocal(out, out)


def sign(x: Operand, out: Array) -> None:
    """``out[...]`` = -1, 0 or 1, 0 for NaN; ``x / abs(x)`` of complex numbers."""
    if out.dtype.kind in "iuc":
        map_tiles(np.sign, [_spread(x, out), out])
    else:
        map_tiles(_sign_tile, [_spread(x, out), out], [BOOL, BOOL])


def _sign_tile(x: Array, out: Array, positive: Array, negative: Array) -> None:
    np.greater(x, 0, positive)
    np.less(x, 0, negative)
    np.copyto(out, positive, casting="unsafe")
    np.subtract(out, negative, out)


def clamp(x: Array, out: Array, *, low: float | None = None, high: float | None = None) -> None:
    """``out[...] = x`` held between ``low`` and ``high``; NaN stays."""
    if out.size <= UNTILED:
        np.clip(x, low, high, out=out)
    else:
        map_tiles(lambda a, b: np.clip(a, low, high, out=b), [_spread(x, out), out])


def nan_to_num(x: Array, out: Array, *, nan: float, posinf: float, neginf: float) -> None:
    """``out[...] = x`` with NaN and infinities replaced."""
    map_tiles(lambda a, b, *where: _nan_to_num_tile(a, b, (nan, posinf, neginf), where), [x, out], [BOOL] * 3)


def _nan_to_num_tile(x: Array, out: Array, numbers: tuple[float, ...], where: tuple[Array, ...]) -> None:
    np.isnan(x, where[0])
    np.equal(x, np.inf, where[1])
    np.equal(x, -np.inf, where[2])
    np.copyto(out, x)
    for number, mask in zip(numbers, where, strict=True):
        np.copyto(out, number, where=mask, casting="unsafe")


def copy(x: Operand, out: Array) -> None:
    """``out[...] = x``: any strides, broadcasting, and a cast where dtypes differ."""
    copy_tiled(x, out)


def fill(out: Array, value: Any) -> None:
    """``out[...] = value``."""
    copy_tiled(value, out)


def accumulate_(x: Operand, out: Array) -> None:
    """``out += x``."""
    add(out, x, out)


def scale_(x: Array, factor: float) -> None:
    """``x *= factor``."""
    multiply(x, factor, x)


def axpy_(alpha: float, x: Array, out: Array) -> None:
    """``out += alpha * x``; shapes are equal."""
    map_tiles(lambda a, c, s: _axpy_tile(alpha, a, c, s), [x, out], [out.dtype])


def _axpy_tile(alpha: float, x: Array, out: Array, product: Array) -> None:
    np.multiply(x, alpha, product)
    np.add(out, product, out)


def where(condition: Array, x: Operand, y: Operand, out: Array) -> None:
    """``out[...] = x where condition (bool) else y``."""
    if out.size <= _FEW or out.dtype.itemsize not in SIGNED or condition.dtype != BOOL:
        np.copyto(out, y, casting="unsafe")
        np.copyto(out, x, casting="unsafe", where=condition)
        return
    condition = _spread(condition, out)
    x, y = (np.asarray(value, dtype=out.dtype) for value in (x, y))
    if _is_zero(y):
        map_tiles(lambda keep, x, out: keep_tile(x, keep, out), [condition, _spread(x, out), out])
    else:
        map_tiles_in_out(_where_tile, [condition, _spread(x, out), _spread(y, out), out])


def _is_zero(number: Array) -> bool:
    """Whether it is one number all of whose bits are 0."""
    return number.ndim == 0 and not number.view(SIGNED[number.dtype.itemsize])


def _where_tile(condition: Array, x: Array, y: Array, out: Array, differing: Array) -> None:
    if not condition.any():  # as of the zeros that a formula guards against
        np.copyto(out, y)
        return
    integers = SIGNED[out.dtype.itemsize]
    bits_x, bits_y, bits = x.view(integers), y.view(integers), differing.view(integers)
    np.bitwise_xor(bits_x, bits_y, out=bits)  # see `keep_tile`
    np.multiply(bits, condition, out=bits)
    np.bitwise_xor(bits_y, bits, out=out.view(integers))
