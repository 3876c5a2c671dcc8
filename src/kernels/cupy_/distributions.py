"""Random numbers of other distributions than the uniform and the normal, drawn as those of `random` are.

Where a number is rejected, the next try moves the upper half of the counter, so an element never takes another's bits.
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel
from .philox import PARAMETERS, PHILOX, arguments

__all__ = ["binomial", "cauchy", "exponential", "geometric", "log_normal", "poisson", "standard_gamma"]

# draw(): two numbers from (0, 1) and a normal one, for the try number `round` of an element.
_DRAWS = (
    PHILOX
    + """
struct drawn { double u, v, normal; };
__device__ inline drawn draw(
    unsigned long long key, unsigned long long low, unsigned long long high, unsigned long long i,
    unsigned long long round
) {
  unsigned int w[4], x[4];
  random_words(key, low, high + ((2 * round) << 32), i, w);
  random_words(key, low, high + ((2 * round + 1) << 32), i, x);
  drawn d;
  d.u = ((double)((((unsigned long long)w[0] << 32) | w[1]) >> 11) + 0.5) * 1.1102230246251565e-16;
  d.v = ((double)((((unsigned long long)w[2] << 32) | w[3]) >> 11) + 0.5) * 1.1102230246251565e-16;
  double a = ((double)((((unsigned long long)x[0] << 32) | x[1]) >> 11) + 0.5) * 1.1102230246251565e-16;
  double b = ((double)((((unsigned long long)x[2] << 32) | x[3]) >> 11) + 0.5) * 1.1102230246251565e-16;
  d.normal = sqrt(-2 * log(a)) * cos(6.28318530717958647693 * b);
  return d;
}
"""
)


def _simple(name: str, parameters: str, expression: str) -> cupy.ElementwiseKernel:
    """A kernel for what is a function of the draws of one try, ``d``."""
    return cupy.ElementwiseKernel(
        f"{PARAMETERS}, {parameters}",
        "T y",
        f"drawn d = draw(key, low, high, i, 0); y = (T)({expression});",
        f"stowgrad_{name}",
        preamble=WIDE + _DRAWS,
    )


_EXPONENTIAL = _simple("exponential", "float64 rate", "-log(d.u) / rate")
_LOG_NORMAL = _simple("log_normal", "float64 mean, float64 spread", "exp(mean + spread * d.normal)")
_CAUCHY = _simple(
    "cauchy", "float64 median, float64 sigma", "median + sigma * tan(3.14159265358979323846 * (d.u - 0.5))"
)
_GEOMETRIC = cupy.ElementwiseKernel(
    f"{PARAMETERS}, float64 failure",
    "T y",
    """
    double trials = ceil(log(draw(key, low, high, i, 0).u) / failure);
    y = (T)(trials < 1 ? 1 : trials);
    """,
    "stowgrad_geometric",
    preamble=_DRAWS,
)
# Source: Hoermann, The Transformed Rejection Method for Generating Poisson Random Variables, 1993.
_POISSON = cupy.ElementwiseKernel(
    f"{PARAMETERS}, T rate",
    "T y",
    """
    double mean = rate, found = 0;
    if (mean < 10) {
      double limit = exp(-mean), product = 1;
      for (unsigned long long round = 0; mean > 0; ++round, found += 1) {
        product *= draw(key, low, high, i, round).u;
        if (product <= limit) break;
      }
    } else {
      double logarithm = log(mean), b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
      double inverse = 1.1239 + 1.1328 / (b - 3.4), fast = 0.9277 - 3.6224 / (b - 2);
      for (unsigned long long round = 0;; ++round) {
        drawn d = draw(key, low, high, i, round);
        double u = d.u - 0.5, side = 0.5 - fabs(u);
        found = floor((2 * a / side + b) * u + mean + 0.43);
        if (side >= 0.07 && d.v <= fast) break;
        if (found < 0 || (side < 0.013 && d.v > side)) continue;
        double bound = found * logarithm - mean - lgamma(found + 1);
        if (log(d.v) + log(inverse) - log(a / (side * side) + b) <= bound) break;
      }
    }
    y = mean != mean ? rate : (T)found;
    """,
    "stowgrad_poisson",
    preamble=WIDE + _DRAWS,
)
# Waiting times between successes: Devroye, Non-Uniform Random Variate Generation, 1986, chapter X.4.
_BINOMIAL = cupy.ElementwiseKernel(
    f"{PARAMETERS}, T count, T prob",
    "T y",
    """
    double trials = count < 0 ? 0 : floor((double)count), p = prob < 0 ? 0 : prob > 1 ? 1 : (double)prob;
    bool turned = p > 0.5;
    double failure = log1p(-(turned ? 1 - p : p)), found = -1, passed = 0;
    if (failure == 0) {
      found = 0;
    } else {
      for (unsigned long long round = 0; passed <= trials; ++round, found += 1) {
        double wait = ceil(log(draw(key, low, high, i, round).u) / failure);
        passed += wait < 1 ? 1 : wait;
      }
    }
    y = (T)(turned ? trials - found : found);
    """,
    "stowgrad_binomial",
    preamble=WIDE + _DRAWS,
)
# Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000.
_GAMMA = cupy.ElementwiseKernel(
    f"{PARAMETERS}, T concentration, float64 least",
    "T y",
    """
    double shape = concentration < 0 ? 0 : (double)concentration;
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d), found = 0;
    for (unsigned long long round = 1;; ++round) {
      drawn n = draw(key, low, high, i, round);
      double v = 1 + c * n.normal;
      if (v <= 0) continue;
      v = v * v * v;
      found = d * v;
      if (log(n.u) < 0.5 * n.normal * n.normal + d - d * v + d * log(v)) break;
      if (shape != shape) break;
    }
    if (shape < 1) found *= pow(draw(key, low, high, i, 0).u, 1 / shape);
    y = (T)(found < least ? least : found);
    """,
    "stowgrad_standard_gamma",
    preamble=WIDE + _DRAWS,
)


@kernel
def exponential(out: Array, *, key: int, counter: int, rate: float = 1.0) -> None:
    """Fill ``out`` from the exponential distribution of mean ``1 / rate``."""
    _EXPONENTIAL(*arguments(key, counter), rate, out)


@kernel
def log_normal(out: Array, *, key: int, counter: int, mean: float = 1.0, std: float = 2.0) -> None:
    """Fill ``out`` with powers of e to normal numbers of that mean and deviation."""
    _LOG_NORMAL(*arguments(key, counter), mean, std, out)


@kernel
def cauchy(out: Array, *, key: int, counter: int, median: float = 0.0, sigma: float = 1.0) -> None:
    """Fill ``out`` from the Cauchy distribution."""
    _CAUCHY(*arguments(key, counter), median, sigma, out)


@kernel
def geometric(out: Array, *, key: int, counter: int, p: float) -> None:
    """Fill ``out`` with how many trials it takes to succeed once, each with probability ``p``."""
    _GEOMETRIC(*arguments(key, counter), math.log1p(-p), out)


@kernel
def poisson(rate: Array, out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` with Poisson numbers of the means in ``rate``, which are not negative."""
    _POISSON(*arguments(key, counter), rate, out)


@kernel
def binomial(count: Array, prob: Array, out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` with how many of ``count`` trials succeed, each with probability ``prob``; both are clamped."""
    _BINOMIAL(*arguments(key, counter), count, prob, out)


@kernel
def standard_gamma(concentration: Array, out: Array, *, key: int, counter: int) -> None:
    """Fill ``out`` from gamma distributions of scale 1, with no number below the least normal one."""
    least = 2.2250738585072014e-308 if out.dtype == "float64" else 1.1754943508222875e-38
    _GAMMA(*arguments(key, counter), concentration, least, out)
