"""Tensors of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import META
from .. import inplace
from ..ops.promotion import category
from ..random import Generator, chosen
from .filled import like
from .options import Options, delivered, finished, leased, like_out, planned, sizes

_INT64 = np.dtype(np.int64)


def rand(*size: Any, generator: Generator | None = None, out: Any = None, **options: Any) -> Any:
    """Uniform random numbers from 0 (included) to 1 (not); of complex numbers, both parts.

    Raises:
        NotImplementedError: for integers and bools.
    """
    return _floats("rand", "uniform", sizes("rand", size, options), generator, out, options, {"low": 0.0, "high": 1.0})


def randn(*size: Any, generator: Generator | None = None, out: Any = None, **options: Any) -> Any:
    """Normal random numbers of mean 0 and variance 1; of complex numbers, each part has half the variance.

    Raises:
        NotImplementedError: for integers and bools.
    """
    return _floats("randn", "normal", sizes("randn", size, options), generator, out, options, {"mean": 0.0, "std": 1.0})


def rand_like(input: Any, *, generator: Generator | None = None, **options: Any) -> Any:
    """Uniform random numbers from 0 (included) to 1 (not) in another tensor's shape, dtype and device."""
    shape, merged = like("rand_like", input, options)
    return rand(shape, generator=generator, **merged)


def randn_like(input: Any, *, generator: Generator | None = None, **options: Any) -> Any:
    """Normal random numbers of mean 0 and variance 1 in another tensor's shape, dtype and device."""
    shape, merged = like("randn_like", input, options)
    return randn(shape, generator=generator, **merged)


def _floats(
    name: str,
    draw: str,
    shape: tuple[int, ...],
    generator: Generator | None,
    out: Any,
    options: Options,
    settings: dict[str, float],
) -> Any:
    plan = planned(name, options if out is None else like_out(out, options))
    if category(plan.dtype) < 2:
        raise NotImplementedError(f"{name}: not implemented for {plan.dtype}")
    made = leased(shape, plan)
    inplace.random_(name, made, draw, generator, **settings)
    return finished(made, plan.requires_grad) if out is None else delivered(name, out, made)


def randint(
    low: Any = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Any = None,
    **options: Any,
) -> Any:
    """Random integers from ``low`` (0 if only one bound is given) up to ``high``, without it.

    Raises:
        RuntimeError: if there are none, or the dtype doesn't have them.
    """
    if size is None and isinstance(high, tuple | list):
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint() missing 1 required positional argument: 'size'")
    plan = planned("randint", options if out is None else like_out(out, options), _INT64)
    check_bounds("randint", low, high, plan.dtype)
    made = leased(sizes("randint", (size,)), plan)
    inplace.random_("randint", made, "integers", generator, low=int(low), high=int(high))
    return finished(made, plan.requires_grad) if out is None else delivered("randint", out, made)


def randint_like(
    input: Any, low: Any = 0, high: Any = None, *, generator: Generator | None = None, **options: Any
) -> Any:
    """Random integers below a bound, or between two, in another tensor's shape, dtype and device."""
    if high is None:
        low, high = 0, low
    shape, merged = like("randint_like", input, options)
    return randint(low, high, shape, generator=generator, **merged)


def check_bounds(name: str, low: Any, high: Any, dtype: np.dtype[Any]) -> None:
    """Raise ``RuntimeError`` unless there are integers from ``low`` up to ``high``, all of a dtype."""
    if high <= low:
        raise RuntimeError(f"{name} expects 'from' to be less than 'to', but got from={low} >= to={high}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    lowest, highest = (limits.min, limits.max) if limits is not None else (-(1 << 63), (1 << 63) - 1)
    if category(dtype) == 0:
        lowest, highest = 0, 1
    for what, value in (("from", low), ("to - 1", high - 1)):
        if not lowest <= value <= highest:
            raise RuntimeError(f"{name}: {what} is out of bounds for {dtype}: {value}")


def randperm(n: int, *, generator: Generator | None = None, out: Any = None, **options: Any) -> Any:
    """The integers below ``n`` in random order.

    Raises:
        RuntimeError: for a negative number.
    """
    plan = planned("randperm", options if out is None else like_out(out, options), _INT64)
    (count,) = sizes("randperm", (n,))
    source = chosen(generator)
    key, counter = source.take(backend("cpu").counter_steps(max(count, 1)))
    made = leased((count,), plan)
    if plan.device is not META:
        backend(plan.device.type).permutation(made._array, key=key, counter=counter)
    return finished(made, plan.requires_grad) if out is None else delivered("randperm", out, made)
