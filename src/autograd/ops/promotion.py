"""Which dtype operands meet in: PyTorch's rules for the dtypes that NumPy and ml_dtypes have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

bfloat16 = np.dtype(ml_dtypes.bfloat16)
default_dtype = np.dtype(np.float32)


def category(dtype: np.dtype[Any]) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    if dtype == bfloat16:
        return 2
    return {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[dtype.kind]


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether tensors of that dtype may require grad."""
    return dtype.kind in "fc" or dtype == bfloat16


def check_floating(name: str, dtype: np.dtype[Any]) -> None:
    """Raise ``NotImplementedError`` (a RuntimeError), as PyTorch does, for an op that integers and bools don't have."""
    if category(dtype) < 2:
        raise NotImplementedError(
            f"{name}: not implemented for {dtype}; convert the tensor to a floating-point dtype first (.float())"
        )


def promote(x: np.dtype[Any], y: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which arrays of two dtypes meet.

    >>> promote(np.dtype("int64"), np.dtype("float32")).name
    'float32'
    """
    if x == y:
        return x
    if category(x) != category(y):
        higher, lower = (x, y) if category(x) > category(y) else (y, x)
        if higher.kind == "c" and lower == np.float64:
            return np.dtype(np.complex128)
        return higher
    if bfloat16 in (x, y):
        other = y if x == bfloat16 else x
        return np.dtype(np.float32) if other == np.float16 else other
    return np.promote_types(x, y)


def result_dtype(x: Any, y: Any) -> np.dtype[Any]:
    """The dtype in which two operands (arrays or Python numbers) meet.

    A Python number or a 0-dimensional array raises the other's category, never its width.
    """
    if not hasattr(x, "dtype"):
        x, y = y, x
    if not hasattr(y, "dtype"):
        return _with_number(x.dtype, y)
    if x.ndim == 0 and y.ndim > 0 and category(x.dtype) <= category(y.dtype):
        return y.dtype  # type: ignore[no-any-return]
    if y.ndim == 0 and x.ndim > 0 and category(y.dtype) <= category(x.dtype):
        return x.dtype  # type: ignore[no-any-return]
    return promote(x.dtype, y.dtype)


def _with_number(dtype: np.dtype[Any], number: Any) -> np.dtype[Any]:
    rank = category(dtype)
    if isinstance(number, bool):
        return dtype
    if isinstance(number, int):
        return np.dtype(np.int64) if rank == 0 else dtype
    if isinstance(number, float):
        return default_dtype if rank < 2 else dtype
    return np.result_type(dtype, np.complex64) if rank < 3 else dtype
