"""Dropout with a mask of one bit an element, drawn from a counter: the mask can be kept or drawn again.

32 random bits decide an element's fate. One thread takes eight elements: it alone writes their byte of the mask.
"""

from __future__ import annotations

import cupy
import numpy as np

from .bits import BIT
from .launch import WIDE, Array, kernel
from .philox import PARAMETERS, PHILOX, arguments

__all__ = ["alpha_dropout", "dropout", "dropout_backward", "dropout_mask"]

_DRAW_BYTE = """
    unsigned int words[8];
    random_words(key, low, high, 2 * (unsigned long long)i, words);
    random_words(key, low, high, 2 * (unsigned long long)i + 1, words + 4);
    unsigned int byte = 0;
    for (int bit = 0; bit < 8; ++bit) {
      long long place = (long long)i * 8 + bit;
      if (place < count) {
        bool keep = words[bit] >= threshold;
        byte |= (unsigned int)keep << (7 - bit);
        %s
      }
    }
    bits = (unsigned char)byte;
"""
_DROPOUT = cupy.ElementwiseKernel(
    f"raw T x, int64 count, uint64 threshold, float64 scale, {PARAMETERS}",
    "raw T y, uint8 bits",
    _DRAW_BYTE % "y[place] = keep ? (T)((W)x[place] * (W)scale) : (T)0.0f;",
    "stowgrad_dropout",
    preamble=WIDE + PHILOX,
)
_ALPHA_DROPOUT = cupy.ElementwiseKernel(
    f"raw T x, int64 count, uint64 threshold, float64 scale, float64 shift, float64 dropped, {PARAMETERS}",
    "raw T y, uint8 bits",
    _DRAW_BYTE % "y[place] = keep ? (T)((W)x[place] * (W)scale + (W)shift) : (T)(W)dropped;",
    "stowgrad_alpha_dropout",
    preamble=WIDE + PHILOX,
)
_DROPOUT_MASK = cupy.ElementwiseKernel(
    f"int64 count, uint64 threshold, {PARAMETERS}",
    "uint8 bits",
    _DRAW_BYTE % "",
    "stowgrad_dropout_mask",
    preamble=PHILOX,
)
_DROPOUT_BACKWARD = cupy.ElementwiseKernel(
    "T grad, raw uint8 bits, float64 scale",
    "T y",
    f"y = {BIT} ? (T)((W)grad * (W)scale) : (T)0.0f",
    "stowgrad_dropout_backward",
    preamble=WIDE,
)


@kernel
def dropout(x: Array, out: Array, mask_bits: Array, *, p: float, key: int, counter: int) -> None:
    """``out = x / (1 - p)`` where an element is kept, else 0, also for infinities and NaN.

    Args:
        x: any strides.
        out: may be ``x``.
        mask_bits: an out, uint8 (ceil(size / 8),): the kept elements in `numpy.packbits`' layout.
        p: the probability of 0.
        key, counter: where the draw begins; it moves the counter by `counter_steps(size)`.
    """
    _DROPOUT(x, x.size, _threshold(p), _scale(p), *arguments(key, counter), out, mask_bits)


@kernel
def alpha_dropout(
    x: Array,
    out: Array,
    mask_bits: Array,
    *,
    p: float,
    key: int,
    counter: int,
    scale: float,
    shift: float,
    dropped: float,
) -> None:
    """``out = x * scale + shift`` where an element is kept, else ``dropped``; what is kept is drawn as in `dropout`."""
    _ALPHA_DROPOUT(x, x.size, _threshold(p), scale, shift, dropped, *arguments(key, counter), out, mask_bits)


@kernel
def dropout_mask(mask_bits: Array, *, size: int, p: float, key: int, counter: int) -> None:
    """Fill ``mask_bits`` as `dropout` of ``size`` elements does."""
    _DROPOUT_MASK(size, _threshold(p), *arguments(key, counter), mask_bits)


@kernel
def dropout_backward(grad: Array, mask_bits: Array, grad_x: Array, *, p: float) -> None:
    """``grad_x = grad / (1 - p)`` where the bit is set, else 0. ``grad_x`` may be ``grad``."""
    _DROPOUT_BACKWARD(grad, mask_bits, _scale(p), grad_x)


def _scale(p: float) -> float:
    return 1 / (1 - p) if p < 1 else 1.0  # no bit is set then


def _threshold(p: float) -> np.uint64:
    """The words below it are dropped: none for 0, all for 1."""
    return np.uint64(round(min(max(p, 0.0), 1.0) * 2**32))
