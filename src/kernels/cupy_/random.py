"""Random numbers from a counter: what an element gets depends on key, counter and its index alone.

A shorter array gets the beginning of what a longer one gets. Element i takes step i of the counter, so a draw stays
inside the stretch that `counter_steps` gives it.
"""

from __future__ import annotations

import cupy
import numpy as np

from ..numpy_.random import counter_steps
from .launch import WIDE, Array, kernel
from .philox import PARAMETERS, PHILOX, arguments

__all__ = ["counter_steps", "integers", "normal", "permutation", "uniform"]

# unit(): from [0, 1), one word for a float, two for a double.
_PREAMBLE = (
    WIDE
    + PHILOX
    + """
__device__ inline float unit(unsigned int a, unsigned int b, float) {
  return (float)(a >> 8) * 5.9604644775390625e-8f;
}
__device__ inline double unit(unsigned int a, unsigned int b, double) {
  return (double)((((unsigned long long)a << 32) | b) >> 11) * 1.1102230246251565e-16;
}
"""
)

_DRAW_UNIFORM = cupy.ElementwiseKernel(
    f"{PARAMETERS}, float64 least, float64 width",
    "T y",
    """
    unsigned int words[4];
    random_words(key, low, high, i, words);
    y = (T)((W)least + (W)width * unit(words[0], words[1], (W)0));
    """,
    "stowgrad_uniform",
    preamble=_PREAMBLE,
)
# Source: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
_DRAW_NORMAL = cupy.ElementwiseKernel(
    f"{PARAMETERS}, float64 mean, float64 spread",
    "T y",
    """
    unsigned int words[4];
    random_words(key, low, high, i, words);
    W radius = sqrt((W)-2 * log((W)1 - unit(words[0], words[1], (W)0)));
    y = (T)((W)mean + (W)spread * radius * cos((W)6.28318530717958647693 * unit(words[2], words[3], (W)0)));
    """,
    "stowgrad_normal",
    preamble=_PREAMBLE,
)
# Source: Lemire, Fast Random Integer Generation in an Interval, 2019. A retry moves the counter's upper half.
_DRAW_INTEGERS = cupy.ElementwiseKernel(
    f"{PARAMETERS}, int64 least, uint64 range",
    "T y",
    """
    unsigned long long number, below;
    unsigned long long retry = 0, rejected = (0 - range) % range;
    do {
      unsigned int words[4];
      random_words(key, low, high + (retry++ << 32), i, words);
      unsigned long long drawn = ((unsigned long long)words[0] << 32) | words[1];
      number = __umul64hi(drawn, range);
      below = drawn * range;
    } while (below < rejected);
    y = (T)(long long)((unsigned long long)least + number);
    """,
    "stowgrad_integers",
    preamble=PHILOX,
)
_DRAW_BITS = cupy.ElementwiseKernel(
    PARAMETERS,
    "uint64 y",
    """
    unsigned int words[4];
    random_words(key, low, high, i, words);
    y = ((unsigned long long)words[0] << 32) | words[1];
    """,
    "stowgrad_random_bits",
    preamble=PHILOX,
)


@kernel
def uniform(out: Array, *, key: int, counter: int, low: float = 0.0, high: float = 1.0) -> None:
    """Fill ``out`` evenly from ``[low, high)``; rounding may give ``high`` if not 1."""
    _DRAW_UNIFORM(*arguments(key, counter), low, high - low, out)


@kernel
def normal(out: Array, *, key: int, counter: int, mean: float = 0.0, std: float = 1.0) -> None:
    """Fill ``out`` from the normal distribution."""
    _DRAW_NORMAL(*arguments(key, counter), mean, std, out)


@kernel
def integers(out: Array, *, key: int, counter: int, low: int, high: int) -> None:
    """Fill ``out`` with whole numbers from ``[low, high)``, all equally likely."""
    if high <= low:
        raise ValueError(f"integers: low must be less than high, got {low} and {high}")
    _DRAW_INTEGERS(*arguments(key, counter), low, np.uint64(high - low), out)


@kernel
def permutation(out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` (n,) with 0 ... n - 1 in random order."""
    bits = cupy.empty(out.shape, np.uint64)
    _DRAW_BITS(*arguments(key, counter), bits)
    cupy.copyto(out, cupy.argsort(bits), casting="unsafe")
