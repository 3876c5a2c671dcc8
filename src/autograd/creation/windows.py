"""Windows for spectra: numbers that rise from the ends of a range to its middle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ops.cast import copy_array_to
from ..ops.promotion import category
from ..variable import Variable
from .options import Options, finished, planned


def _window(name: str, length: int, periodic: bool, options: Options, shape: Callable[[Any], Any]) -> Any:
    """A window that ``shape`` computes from places between 0 and 1, the last of which a periodic one leaves out."""
    plan = planned(name, options)
    if category(plan.dtype) != 2:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {plan.dtype}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    steps = length if periodic else length - 1
    values = shape(np.arange(length) / steps) if steps > 0 and length > 1 else np.ones(length)
    made = copy_array_to(values.astype(plan.dtype), plan.device, "activation")
    return finished(Variable._tensor_class._wrap(*made), plan.requires_grad)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A triangle.

    Raises:
        RuntimeError: for a negative length, and for a dtype that is not floating-point.
    """
    return _window("bartlett_window", window_length, periodic, options, lambda x: 1 - np.abs(2 * x - 1))


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A sum of two cosines, by Blackman. Errors are those of `bartlett_window`."""

    def shape(x: Any) -> Any:
        return 0.42 - 0.5 * np.cos(2 * math.pi * x) + 0.08 * np.cos(4 * math.pi * x)

    return _window("blackman_window", window_length, periodic, options, shape)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Any:
    """``alpha - beta * cos(2 pi x)``. Errors are those of `bartlett_window`."""
    return _window("hamming_window", window_length, periodic, options, lambda x: alpha - beta * np.cos(2 * math.pi * x))


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A cosine from 0 to 1 and back. Errors are those of `bartlett_window`."""
    return _window("hann_window", window_length, periodic, options, lambda x: 0.5 - 0.5 * np.cos(2 * math.pi * x))


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Any:
    """Bessel functions of a half circle, by Kaiser. Errors are those of `bartlett_window`."""

    def shape(x: Any) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * x - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, options, shape)
