"""How gamma-distributed numbers move with the shape of their distribution: the rules are in numpy_/gamma_slope.py."""

from __future__ import annotations

import cupy

from .launch import WIDE, Array, kernel

__all__ = ["standard_gamma_grad"]

_PREAMBLE = (
    WIDE
    + """
__device__ inline double slope_digamma(double x) {
  double total = 0;
  for (; x < 10; x += 1) total -= 1 / x;
  double s = 1 / (x * x);
  double tail = s * (1.0 / 12 + s * (-1.0 / 120 + s * (1.0 / 252 + s * (-1.0 / 240 + s * (1.0 / 132
    + s * (-691.0 / 32760 + s / 12))))));
  return total + log(x) - 0.5 / x - tail;
}
__device__ inline double gamma_series(double a, double z) {
  double term = 1, total = 1, harmonic = 0, slope = 0;
  for (int k = 1; k < 100000; ++k) {
    term *= z / (a + k);
    harmonic += 1 / (a + k);
    total += term;
    slope -= term * harmonic;
    if (term * (1 + harmonic) <= 1e-17 * total) break;
  }
  return -(z / a) * (total * (log(z) - slope_digamma(a + 1)) + slope);
}
__device__ inline double gamma_fraction(double a, double z) {
  double b = z + 1 - a, c = 1e300, dc = 0, d = 1 / b, dd = d * d, h = d, dh = dd;
  for (int i = 1; i < 100000; ++i) {
    double by = -i * (i - a), dby = i;
    b += 2;
    double below = by * d + b, dbelow = dby * d + by * dd - 1;
    dc = dby / c - by * dc / c / c - 1;
    c = b + by / c;
    d = 1 / below;
    dd = -dbelow * d * d;
    double step = c * d, dstep = dc * d + c * dd;
    dh = dh * step + h * dstep;
    h *= step;
    if (fabs(step - 1) < 1e-15 && fabs(h * dstep) <= 1e-15 * fabs(dh)) break;
  }
  return z * (h * (log(z) - slope_digamma(a)) + dh);
}
__device__ inline double gamma_expansion(double a, double z) {
  double root = sqrt(a), y = (z - a) / root;
  double x = y - (y * y - 1) / (3 * root) + (7 * y * y * y - y) / (36 * a);
  return 1 + x / (2 * root) - (x * x * x - 7 * x) / (72 * a * root)
    + (3 * x * x * x * x + 7 * x * x - 16) / (810 * a * a);
}
"""
)
_SLOPE = cupy.ElementwiseKernel(
    "T concentration, T sample",
    "T out",
    """
    double a = concentration, z = sample, found = nan("");
    if (a > 0 && z > 0 && a < 1e308 && z < 1e308) {
      found = a > 1e6 ? gamma_expansion(a, z) : z < a + 1 ? gamma_series(a, z) : gamma_fraction(a, z);
    }
    out = (T)found;
    """,
    "stowgrad_gamma_slope",
    preamble=_PREAMBLE,
)


@kernel
def standard_gamma_grad(concentration: Array, sample: Array, out: Array) -> None:
    """``out`` = the derivatives of samples by the shapes of their gamma distributions."""
    _SLOPE(concentration, sample, out)
