"""Tensors of numbers at equal distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import META
from ..ops.promotion import category, default_complex_dtype, get_default_dtype
from ..variable import Variable
from .options import Options, Plan, delivered, finished, leased, like_out, planned, python_number

_INT64 = np.dtype(np.int64)


def arange(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, **options: Any) -> Any:
    """Numbers from ``start`` (0 if only one is given) up to ``end``, without it.

    Integers give int64, anything else the default dtype, unless one is named.

    Raises:
        RuntimeError: if ``step`` is zero or leads away from ``end``; for bounds that are not finite.
        NotImplementedError: for bools and complex numbers as dtype.
    """
    if end is None:
        start, end = 0, start
    bounds = [_real("arange", value) for value in (start, end, step)]
    whole = all(isinstance(value, int) for value in bounds)
    plan = planned(
        "arange", options if out is None else like_out(out, options), _INT64 if whole else get_default_dtype()
    )
    if category(plan.dtype) not in (1, 2):
        raise NotImplementedError(f"arange: not implemented for {plan.dtype}")
    if plan.dtype.kind in "iu":
        bounds = [int(value) if math.isfinite(value) else value for value in bounds]
    first, last, by = bounds
    if by == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"arange: unsupported range: {first} -> {last}")
    if (last - first) / by < 0:
        raise RuntimeError(f"arange: upper bound and lower bound inconsistent with step sign: {first}, {last}, {by}")
    exact = all(isinstance(value, int) for value in bounds)
    count = -((first - last) // by) if exact else math.ceil((last - first) / by)
    return _ramp("arange", plan, count, first, by, out)


def linspace(start: Any, end: Any, steps: int, *, out: Any = None, **options: Any) -> Any:
    """``steps`` numbers at equal distances from ``start`` to ``end``, both included.

    Raises:
        RuntimeError: for a negative number of steps.
        NotImplementedError: for bools.
    """
    return _spaced("linspace", start, end, steps, None, out, options)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, **options: Any) -> Any:
    """``base`` to the power of the numbers that `linspace` gives.

    Raises:
        RuntimeError: for a negative number of steps.
        NotImplementedError: for bools.
    """
    return _spaced("logspace", start, end, steps, float(base), out, options)


def _real(name: str, value: Any) -> Any:
    value = python_number(name, value)
    if isinstance(value, complex):
        raise RuntimeError(f"{name}: value cannot be converted to type double without overflow: {value}")
    return int(value) if isinstance(value, bool) else value


def _spaced(name: str, start: Any, end: Any, steps: int, base: float | None, out: Any, options: Options) -> Any:
    first, last = python_number(name, start), python_number(name, end)
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    plan = planned(
        name,
        options if out is None else like_out(out, options),
        default_complex_dtype() if is_complex else get_default_dtype(),
    )
    if category(plan.dtype) == 0:
        raise NotImplementedError(f"{name}: not implemented for {plan.dtype}")
    if isinstance(steps, Variable):
        steps = int(python_number(name, steps))
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, got {steps}")
    if plan.dtype.kind in "iu" and base is None:
        first, last = float(int(first)), float(int(last))
    first, last = first * 1.0, last * 1.0
    by = (last - first) / (steps - 1) if steps > 1 else 0.0
    return _ramp(name, plan, int(steps), first, by, out, (last, base))


def _ramp(
    name: str, plan: Plan, count: int, start: Any, step: Any, out: Any, until: tuple[Any, float | None] | None = None
) -> Any:
    """Numbers from ``start`` on; the second half counts back from a bound that is included, and so met exactly."""
    made = leased((count,), plan)
    if plan.device is not META:
        ramp, array = backend(plan.device.type).ramp, made._array
        if until is None:
            ramp(array, start=start, step=step)
        else:
            last, base = until
            half = count // 2 if count > 1 else count
            ramp(array[:half], start=start, step=step, base=base)
            ramp(array[half:], start=last, step=step, first=half - count + 1, base=base)
    return finished(made, plan.requires_grad) if out is None else delivered(name, out, made)
