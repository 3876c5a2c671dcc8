"""Random numbers in place, and those whose distribution depends on tensors, as methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import inplace
from ..creation.drawn import check_bounds
from ..functions import random as functions
from ..grad_mode import no_grad
from ..ops.promotion import category
from ..variable import Variable


class RandomMethods:
    """Draws with the probabilities that a tensor holds, and draws that fill it."""

    __slots__ = ()

    _array: Any

    bernoulli = functions.bernoulli
    multinomial = functions.multinomial

    def bernoulli_(self, p: Any = 0.5, *, generator: Any = None) -> Any:
        """Fill with 1 with a probability (a number, or a tensor of them), with 0 else."""
        with no_grad():
            if isinstance(p, Variable):
                values = functions.bernoulli(p, generator=generator)
            else:
                values = functions.bernoulli(self, p, generator=generator)
        return inplace.copy_(self, values)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        """Fill with normal random numbers; with complex ones of that variance, half of it in each part.

        Raises:
            RuntimeError: for a negative deviation.
            NotImplementedError: for integers and bools.
        """
        if std < 0:
            raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
        _check_floats("normal_", self)
        return _filled("normal_", self, "normal", generator, mean=mean, std=std)

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Any = None, **bounds: float) -> Any:
        """Fill with random numbers from ``low`` (included) to ``high`` (not); ``from`` and ``to`` name them, too.

        Raises:
            RuntimeError: for a negative range.
            NotImplementedError: for integers and bools.
        """
        low, high = bounds.pop("from", low), bounds.pop("to", high)
        if bounds:
            raise TypeError(f"uniform_() got an unexpected keyword argument {next(iter(bounds))!r}")
        if low > high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
        _check_floats("uniform_", self)
        return _filled("uniform_", self, "uniform", generator, low=low, high=high)

    def exponential_(self, lambd: float = 1.0, *, generator: Any = None) -> Any:
        """Fill from the exponential distribution of mean ``1 / lambd``.

        Raises:
            RuntimeError: for a rate that is not positive, and for a tensor of integers.
        """
        if category(self._array.dtype) != 2:
            raise RuntimeError(f"exponential_: dtype must be a floating point but you specified {self._array.dtype}")
        if not lambd > 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
        return _filled("exponential_", self, "exponential", generator, rate=float(lambd))

    def cauchy_(self, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Any:
        """Fill from the Cauchy distribution.

        Raises:
            RuntimeError: for a ``sigma`` that is not positive, and for a tensor of integers.
        """
        if category(self._array.dtype) != 2:
            raise RuntimeError(f"cauchy_: dtype must be a floating point but you specified {self._array.dtype}")
        if not sigma > 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
        return _filled("cauchy_", self, "cauchy", generator, median=float(median), sigma=float(sigma))

    def log_normal_(self, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Any:
        """Fill with numbers whose logarithms are normal, of that mean and deviation.

        Raises:
            RuntimeError: for a deviation that is not positive.
            NotImplementedError: for integers and bools.
        """
        if not std > 0:
            raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
        _check_floats("log_normal_", self, 2)
        return _filled("log_normal_", self, "log_normal", generator, mean=float(mean), std=float(std))

    def geometric_(self, p: float, *, generator: Any = None) -> Any:
        """Fill with how many trials it takes to succeed once, each with probability ``p``.

        Raises:
            RuntimeError: for a probability that is not between 0 and 1.
            NotImplementedError: for bools and complex numbers.
        """
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        if category(self._array.dtype) in (0, 3):
            raise NotImplementedError(f"geometric_: not implemented for {self._array.dtype}")
        return _filled("geometric_", self, "geometric", generator, p=float(p))

    def random_(self, low: int | None = None, high: int | None = None, *, generator: Any = None, **bounds: int) -> Any:
        """Fill with whole numbers: of all that the dtype has from 0 on, below a bound, or between two.

        ``from`` and ``to`` name them, too.

        Raises:
            RuntimeError: if there are none, or the dtype does not have them.
        """
        low, high = bounds.pop("from", low), bounds.pop("to", high)
        if bounds:
            raise TypeError(f"random_() got an unexpected keyword argument {next(iter(bounds))!r}")
        if low is None and high is None:
            low, high = 0, _numbers_of(self._array.dtype)
        elif high is None or low is None:
            low, high = 0, low if high is None else high
        assert low is not None
        assert high is not None
        check_bounds("random_", low, high, self._array.dtype)
        return _filled("random_", self, "integers", generator, low=int(low), high=int(high))


def _numbers_of(dtype: np.dtype[Any]) -> int:
    """How many whole numbers from 0 on a dtype has without gaps; for floats, one fewer."""
    if dtype.kind == "b":
        return 2
    if dtype.kind in "iu":
        return min(int(np.iinfo(dtype).max) + 1, (1 << 63) - 1)
    return 1 << {2: 11 if dtype.kind == "f" else 8, 4: 24, 8: 53}[dtype.itemsize]


def _check_floats(name: str, tensor: Any, most: int = 3) -> None:
    if not 2 <= category(tensor._array.dtype) <= most:
        raise NotImplementedError(f"{name}: not implemented for {tensor._array.dtype}")


def _filled(name: str, tensor: Any, draw: str, generator: Any, **settings: float) -> Any:
    return inplace.random_(name, tensor, draw, generator, **settings)
