"""What the kernels on CuPy share: the device they run on, and the types that they compute in.

NOTE [ CUDA kernels ]
1. Every kernel runs on the device of its first array, on CuPy's current stream, and returns before it has finished.
2. Scratch comes from CuPy's allocator, which is our pool (NOTE [ CUDA memory ] in memory/cuda.py).
3. CUDA sources compute in ``W``: double for double, float for everything smaller.
4. An in-place call gives one array as input and output: sources read all that they need before they write.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import cupy

Array: TypeAlias = Any  # cupy.ndarray, which has no stubs
P = ParamSpec("P")
R = TypeVar("R")

# CuPy defines T, the type of the arrays, before it.
WIDE = """
template <class X> struct wide { typedef float type; };
template <> struct wide<double> { typedef double type; };
typedef wide<T>::type W;
"""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function on the device of the first array that it is given."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for value in args:
            if isinstance(value, cupy.ndarray):
                index = value.data.device_id
                if index != cupy.cuda.runtime.getDevice():
                    with cupy.cuda.Device(index):
                        return function(*args, **kwargs)
                break
        return function(*args, **kwargs)

    return run


def is_bfloat16(array: Array) -> bool:
    """Whether an array is of the type that cuBLAS, as CuPy calls it, knows only in part."""
    return bool(array.dtype.kind == "V")
