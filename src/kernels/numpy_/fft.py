"""Fourier transforms by NumPy's pocketfft: one axis after another, each in place on the result of the one before.

``norm`` names the factor, the same in both directions: ``"none"``, ``"by_root_n"`` or ``"by_n"``. An axis of the result
that is longer than the input's is filled up with zeros before it is transformed, a shorter one cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..executor import Array, parallel_slices
from .tiling import copy_tiled, tile_size

__all__ = [
    "fft_c2c",
    "fft_c2r",
    "fft_middle",
    "fft_r2c",
]

# NumPy's names for the factor, which depend on the direction.
_FORWARD = {"none": "backward", "by_root_n": "ortho", "by_n": "forward"}
_INVERSE = {"none": "forward", "by_root_n": "ortho", "by_n": "backward"}


def fft_c2c(x: Array, out: Array, *, axes: tuple[int, ...], inverse: bool, norm: str) -> None:
    """The transform of ``x``, complex or real, over axes: all coefficients."""
    first, *others = axes
    x = _started(x, out, others)
    if x.dtype.kind == "c":
        _along(np.fft.ifft if inverse else np.fft.fft, x, _head(out, x, first), first, _named(norm, inverse))
    else:
        _all_of_real(x, _head(out, x, first), first, inverse, norm)
    _go_on(out, others, inverse, norm)


def fft_r2c(x: Array, out: Array, *, axes: tuple[int, ...], length: int, norm: str) -> None:
    """The forward transform of a real ``x`` over axes: one half of the last of them, made ``length`` elements long."""
    *others, last = axes
    x = _started(x, out, others)
    if x.shape[last] > length:
        x = x[_until(x.ndim, last, length)]
    _along(np.fft.rfft, x, _head(out, x, last), last, _FORWARD[norm], length)
    _go_on(out, others, False, norm)


def fft_c2r(x: Array, out: Array, *, axis: int, norm: str) -> None:
    """The inverse transform over one axis of the half that `fft_r2c` keeps."""
    _along(np.fft.irfft, x, out, axis, _INVERSE[norm], out.shape[axis])


def fft_middle(x: Array, out: Array, *, axis: int, length: int, factor: float) -> None:
    """``out = x``, times a factor where a coefficient of a half stands for two of the ``length`` coefficients."""
    copy_tiled(x, out)
    middle = out[(*[slice(None)] * axis, slice(1, (length + 1) // 2))]
    np.multiply(middle, factor, out=middle)


# -- one axis after another --------------------------------------------------------------------------------------------


def _until(ndim: int, axis: int, end: int) -> tuple[slice, ...]:
    return tuple(slice(end) if a == axis else slice(None) for a in range(ndim))


def _started(x: Array, out: Array, others: list[int]) -> Array:
    """``x`` cut to what the result holds along axes that come later; what they lack is zeros in ``out``."""
    for axis in others:
        if x.shape[axis] > out.shape[axis]:
            x = x[_until(x.ndim, axis, out.shape[axis])]
        elif x.shape[axis] < out.shape[axis]:
            out[(*[slice(None)] * axis, slice(x.shape[axis], None))] = 0
    return x


def _head(out: Array, x: Array, axis: int) -> Array:
    """The part of ``out`` that the transform of ``x`` along an axis fills."""
    return out[tuple(slice(None) if a == axis else slice(size) for a, size in enumerate(x.shape))]


def _go_on(out: Array, axes: list[int], inverse: bool, norm: str) -> None:
    """Transform over further axes, in place."""
    for axis in axes:
        _along(np.fft.ifft if inverse else np.fft.fft, out, out, axis, _named(norm, inverse))


def _named(norm: str, inverse: bool) -> str:
    return (_INVERSE if inverse else _FORWARD)[norm]


def _all_of_real(x: Array, out: Array, axis: int, inverse: bool, norm: str) -> None:
    """Half of the coefficients of a real ``x`` along an axis, and their conjugates in reverse."""
    length = out.shape[axis]
    half = out[_until(out.ndim, axis, length // 2 + 1)]
    if x.shape[axis] > length:
        x = x[_until(x.ndim, axis, length)]
    _along(np.fft.rfft, x, half, axis, _FORWARD[norm], length)
    if inverse:
        np.conjugate(half, out=half)
    rest = (*[slice(None)] * axis, slice(length // 2 + 1, None))
    mirrored = (*[slice(None)] * axis, slice((length - 1) // 2, 0, -1))
    np.conjugate(out[mirrored], out=out[rest])


def _along(
    transform: Callable[..., Any], x: Array, out: Array, axis: int, norm: str, length: int | None = None
) -> None:
    """One transform along an axis, the others shared out over threads."""
    length = out.shape[axis] if length is None else length
    across = max((a for a in range(out.ndim) if a != axis), key=lambda a: out.shape[a], default=None)
    if across is None:
        transform(x, length, axis=axis, norm=norm, out=out)
        return
    if not out.size:
        return
    lines = math.prod(out.shape) // out.shape[across]
    before = (slice(None),) * across

    def tile(where: slice) -> None:
        part = (*before, where)
        transform(x[part], length, axis=axis, norm=norm, out=out[part])

    parallel_slices(tile, out.shape[across], max(1, tile_size(out.size, out.dtype) // lines))
