"""Fourier transforms by cuFFT, one axis after another; it returns arrays of its own, which lie in scratch.

``norm`` names the factor, the same in both directions: ``"none"``, ``"by_root_n"`` or ``"by_n"``.
"""

from __future__ import annotations

import cupy

from .launch import Array, kernel

__all__ = [
    "fft_c2c",
    "fft_c2r",
    "fft_middle",
    "fft_r2c",
]

# CuPy's names for the factor, which depend on the direction.
_FORWARD = {"none": "backward", "by_root_n": "ortho", "by_n": "forward"}
_INVERSE = {"none": "forward", "by_root_n": "ortho", "by_n": "backward"}


@kernel
def fft_c2c(x: Array, out: Array, *, axes: tuple[int, ...], inverse: bool, norm: str) -> None:
    """The transform of ``x``, complex or real, over axes: all coefficients."""
    for axis in axes:
        x = _complex(x, out, axis, inverse, norm)
    cupy.copyto(out, x, casting="unsafe")


@kernel
def fft_r2c(x: Array, out: Array, *, axes: tuple[int, ...], length: int, norm: str) -> None:
    """The forward transform of a real ``x`` over axes: one half of the last of them, made ``length`` elements long."""
    *others, last = axes
    x = cupy.fft.rfft(x, length, axis=last, norm=_FORWARD[norm])
    for axis in others:
        x = _complex(x, out, axis, False, norm)
    cupy.copyto(out, x, casting="unsafe")


@kernel
def fft_c2r(x: Array, out: Array, *, axis: int, norm: str) -> None:
    """The inverse transform over one axis of the half that `fft_r2c` keeps."""
    cupy.copyto(out, cupy.fft.irfft(x, out.shape[axis], axis=axis, norm=_INVERSE[norm]), casting="unsafe")


@kernel
def fft_middle(x: Array, out: Array, *, axis: int, length: int, factor: float) -> None:
    """``out = x``, times a factor where a coefficient of a half stands for two of the ``length`` coefficients."""
    cupy.copyto(out, x)
    middle = out[(*[slice(None)] * axis, slice(1, (length + 1) // 2))]
    cupy.multiply(middle, factor, out=middle)


def _complex(x: Array, out: Array, axis: int, inverse: bool, norm: str) -> Array:
    if inverse:
        return cupy.fft.ifft(x, out.shape[axis], axis=axis, norm=_INVERSE[norm])
    return cupy.fft.fft(x, out.shape[axis], axis=axis, norm=_FORWARD[norm])
