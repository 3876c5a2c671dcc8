"""Random numbers whose distribution depends on tensors, as functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import META, DeviceLike, as_device, pool
from .. import inplace
from ..grad_mode import no_grad
from ..ops import drawn as ops
from ..ops.cast import to_dtype
from ..ops.comparison import isfinite
from ..ops.elementwise import add, div, eq, log, lt, mul, neg, sub, where
from ..ops.promotion import category, get_default_dtype
from ..ops.reduce import sum
from ..ops.shape import zeros_of
from ..out import into
from ..random import Generator, chosen
from ..record import broadcast_shapes
from ..variable import Variable
from .scan import cumsum
from .sorting import searchsorted, topk

__all__ = ["bernoulli", "binomial", "multinomial", "normal", "poisson"]


def bernoulli(input: Any, p: float | None = None, *, generator: Generator | None = None, out: Any = None) -> Any:
    """1 with the probability that each element says (or with ``p`` for all), 0 else; the gradient is zero.

    Raises:
        RuntimeError: for probabilities outside of 0 to 1.
        NotImplementedError: for a tensor of integers as probabilities.

    >>> import stowgrad
    >>> stowgrad.bernoulli(stowgrad.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if out is not None:
        return into(out, bernoulli, input, p, generator=generator)
    if p is None:
        _check_floating("bernoulli", input)
        if _any(lt(input, 0)) or _any(lt(1, input)):
            raise RuntimeError("bernoulli: expected probabilities from 0 to 1")
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli expects p to be in [0, 1], but got p={p}")
    dtype = input._array.dtype
    with no_grad():
        level = _filled(
            input, input._array.shape, dtype if category(dtype) == 2 else get_default_dtype(), "uniform", generator
        )
        values = to_dtype(lt(level, input if p is None else p), dtype)
    return ops.drawn_bernoulli(values, input, None) if input._requires_grad else values


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: DeviceLike | None = None,
    out: Any = None,
) -> Any:
    """Normal random numbers of given means and standard deviations; the gradient is zero.

    Of two numbers a ``size`` says how many are drawn, ``dtype`` and ``device`` as what.

    Raises:
        RuntimeError: for a negative deviation, and shapes that do not broadcast.
        TypeError: for two numbers without a size.
    """
    if out is not None:
        return into(out, normal, mean, std, size, generator=generator, dtype=dtype, device=device)
    tensors = [value for value in (mean, std) if isinstance(value, Variable)]
    if isinstance(std, Variable) and _any(lt(std, 0)):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if not isinstance(std, Variable) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not tensors:
        if size is None:
            raise TypeError("normal(): expected a Tensor as mean or std, or a size")
        sizes = (size,) if isinstance(size, int) else tuple(size)
        source = pool(as_device(device))
        made = Variable._tensor_class._wrap(*source.lease(sizes, np.dtype(dtype or get_default_dtype()), "activation"))
        return inplace.random_("normal", made, "normal", generator, mean=float(mean), std=float(std))
    for tensor in tensors:
        _check_floating("normal", tensor)
    shape = broadcast_shapes("normal", *[tensor._array.shape for tensor in tensors])
    with no_grad():
        values = _filled(tensors[0], shape, tensors[0]._array.dtype, "normal", generator)
        values = add(mean, mul(values, std))
    if not any(tensor._requires_grad for tensor in tensors):
        return values
    return ops.drawn_normal(values, *[value if isinstance(value, Variable) else None for value in (mean, std)])


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Any = None
) -> Any:
    """Indices drawn with the probabilities, or multiples of them, in the rows of a matrix (or in a vector).

    Raises:
        RuntimeError: for rows that are no probabilities, or with fewer elements than are to be drawn; for an ``out``
            that is not of int64.
    """
    if out is not None:
        if getattr(out, "dtype", None) != np.int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {getattr(out, 'dtype', type(out).__name__)}")
        return into(out, multinomial, input, num_samples, replacement, generator=generator)
    shape = input._array.shape
    if len(shape) not in (1, 2):
        raise RuntimeError("multinomial: prob_dist must be 1 or 2 dim")
    if category(input._array.dtype) != 2:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input._array.dtype}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    with no_grad():
        weights = input.detach()
        total = sum(weights, (-1,), True)
        if not _all_true(isfinite(total)) or _any(lt(weights, 0)):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not _all_true(lt(0, total)):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        if replacement:
            steps = div(cumsum(weights, -1), total)
            level = _filled(input, (*shape[:-1], num_samples), input._array.dtype, "uniform", generator)
            return searchsorted(steps, level, right=True).clamp(max=shape[-1] - 1)
        # The smallest of exponential times with these rates: Efraimidis and Spirakis, 2006.
        level = _filled(input, shape, input._array.dtype, "uniform", generator)
        never = eq(weights, 0)
        times = div(neg(log(sub(1, level))), where(never, 1.0, weights))
        return topk(where(never, float("inf"), times), num_samples, -1, False)[1]


def poisson(input: Any, generator: Generator | None = None) -> Any:
    """Poisson numbers of the means that a tensor holds; the gradient is zero.

    Raises:
        RuntimeError: for a negative mean.
        NotImplementedError: for a tensor of integers.
    """
    if _any(lt(input, 0)):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return ops.poisson(input, *_place(input, generator))


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Any:
    """How many of ``count`` trials succeed, each with probability ``prob``: numbers of ``count``'s dtype.

    Both are tensors of floats, which are broadcast; there is no gradient: backward raises NotImplementedError.

    Raises:
        ValueError: for a tensor of integers.
        RuntimeError: for different dtypes, and for shapes that do not broadcast.
    """
    for what, value in (("count", count), ("prob", prob)):
        if category(value._array.dtype) != 2:
            raise ValueError(f"binomial only supports floating-point dtypes for {what}, got: {value._array.dtype}")
    if count._array.dtype != prob._array.dtype:
        raise RuntimeError(f"binomial: expected one dtype, got {count._array.dtype} and {prob._array.dtype}")
    shape = broadcast_shapes("binomial", count._array.shape, prob._array.shape)
    count, prob = count.expand(shape), prob.expand(shape)
    return ops.binomial(count, prob, *_place(count, generator))


def _standard_gamma(input: Any, generator: Generator | None = None) -> Any:
    """Gamma-distributed numbers of scale 1 and of the shapes (in the sense of statistics) that a tensor holds.

    They move with these, so their gradient is that of an expectation over them (implicit reparameterisation).

    Raises:
        NotImplementedError: for a tensor of integers; for second derivatives.
    """
    return ops.standard_gamma(input, *_place(input, generator))


def _sample_dirichlet(input: Any, generator: Generator | None = None) -> Any:
    """Dirichlet-distributed rows: gamma-distributed numbers, divided by their sums along the last dimension."""
    numbers = _standard_gamma(input, generator)
    return div(numbers, sum(numbers, (-1,), True))


def _place(like: Any, generator: Generator | None) -> tuple[int, int]:
    """Where in a random stream the numbers for a tensor begin."""
    source = chosen(generator)
    return source.take(backend("cpu").counter_steps(like._array.size))


def _filled(like: Any, shape: tuple[int, ...], dtype: Any, draw: str, generator: Generator | None) -> Any:
    """Numbers from 0 to 1, or normal ones, on the device of a tensor."""
    made = zeros_of(like.detach(), shape)
    made = made if made._array.dtype == dtype else to_dtype(made, dtype)
    settings = {"low": 0.0, "high": 1.0} if draw == "uniform" else {"mean": 0.0, "std": 1.0}
    return inplace.random_(draw, made, draw, generator, **settings)


def _check_floating(name: str, tensor: Any) -> None:
    if category(tensor._array.dtype) != 2:
        raise NotImplementedError(f"{name}: not implemented for {tensor._array.dtype}")


def _any(bools: Any) -> bool:
    """Whether an element is true; on the meta device, where nobody knows, no."""
    return bools._storage.device is not META and bool(bools.any().item())


def _all_true(bools: Any) -> bool:
    return bools._storage.device is META or bool(bools.all().item())
