"""Which dtype operands meet in: PyTorch's rules for the dtypes that NumPy and ml_dtypes have.

NOTE [ Promotion ]
1. Operands have a rank: tensors with dimensions come before those without, and these before Python numbers. What comes
   later raises the category of what comes before (bool, integer, float, complex), never the width within a category.
2. A Python float has the default dtype, a complex number its complex twin, an int is int64.
3. The unsigned integers wider than 8 bits meet floats and complex numbers only, the 8-bit floats only
   themselves.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

bfloat16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8 = frozenset(
    np.dtype(getattr(ml_dtypes, f"float8_{name}")) for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)
_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
_FLOAT16, _FLOAT32, _FLOAT64 = (np.dtype(name) for name in ("float16", "float32", "float64"))
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)
_BAREBONES = frozenset(np.dtype(name) for name in ("uint16", "uint32", "uint64"))
_CATEGORIES = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
# That of floats made of integers and Python numbers: for the whole process, as PyTorch's.
_default = _FLOAT32


def get_default_dtype() -> np.dtype[Any]:
    """The dtype of tensors made of Python floats, and of floats made of integers.

    >>> get_default_dtype()
    dtype('float32')
    """
    return _default


def set_default_dtype(d: Any) -> None:
    """Set what `get_default_dtype` returns, for all threads.

    Raises:
        TypeError: for anything but a floating-point dtype.
    """
    global _default
    dtype = None if d is None else np.dtype(d)
    if dtype is None or category(dtype) != 2 or dtype in FLOAT8:
        raise TypeError(f"only floating-point types are supported as the default type, got {dtype}")
    _default = dtype


def default_complex_dtype() -> np.dtype[Any]:
    """The complex dtype beside the default one."""
    return _COMPLEX128 if _default == _FLOAT64 else _COMPLEX64


def category(dtype: np.dtype[Any]) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    found = _CATEGORIES.get(dtype.kind)
    if found is not None:
        return found
    if dtype == bfloat16 or dtype in FLOAT8:
        return 2
    raise TypeError(f"expected a dtype of numbers or bools, got {dtype}")


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether tensors of that dtype may require grad."""
    return dtype.kind in "fc" or dtype == bfloat16 or dtype in FLOAT8


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether tensors can be of that dtype: of numbers or bools, but not of the longer ones that C calls long double.

    >>> is_numeric(np.dtype("int8")), is_numeric(np.dtype(np.longdouble)), is_numeric(np.dtype("U3"))
    (True, False, False)
    """
    largest = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}.get(dtype.kind, 0)
    return dtype.itemsize <= largest or dtype == bfloat16 or dtype in FLOAT8


def check_floating(name: str, dtype: np.dtype[Any]) -> None:
    """Raise ``NotImplementedError`` (a RuntimeError), as PyTorch does, for an op that integers and bools don't have."""
    if category(dtype) < 2:
        raise NotImplementedError(
            f"{name}: not implemented for {dtype}; convert the tensor to a floating-point dtype first (.float())"
        )


def promote(x: np.dtype[Any], y: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which arrays of two dtypes meet.

    Raises:
        RuntimeError: for pairs that PyTorch doesn't promote: wide unsigned integers with others, 8-bit floats.

    >>> promote(np.dtype("int64"), np.dtype("float32")).name
    'float32'
    """
    if x == y:
        return x
    if x in FLOAT8 or y in FLOAT8:
        raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {x} and {y}")
    if category(x) != category(y):
        higher, lower = (x, y) if category(x) > category(y) else (y, x)
        if higher.kind == "c" and lower == _FLOAT64:
            return _COMPLEX128
        if category(higher) >= 2 or not (x in _BAREBONES or y in _BAREBONES):
            return higher
    if x in _BAREBONES or y in _BAREBONES:
        raise RuntimeError(
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {x} and {y}"
        )
    if bfloat16 in (x, y):
        other = y if x == bfloat16 else x
        return _FLOAT32 if other == _FLOAT16 else other
    return np.promote_types(x, y)


def result_dtype(x: Any, y: Any) -> np.dtype[Any]:
    """The dtype in which two operands (arrays or Python numbers) meet.

    A Python number or a 0-dimensional array raises the other's category, never its width.
    """
    if not hasattr(x, "dtype"):
        x, y = y, x
    if not hasattr(y, "dtype"):
        if not hasattr(x, "dtype"):
            raise TypeError(f"expected a Tensor among the operands, got {type(y).__name__} and {type(x).__name__}")
        return with_number(x.dtype, y)
    if x.ndim == 0 and y.ndim > 0:
        return combined(y.dtype, x.dtype)
    if y.ndim == 0 and x.ndim > 0:
        return combined(x.dtype, y.dtype)
    return promote(x.dtype, y.dtype)


def combined(higher: np.dtype[Any], lower: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of operands of a higher and a lower rank (note, rule 1)."""
    rank, other = category(higher), category(lower)
    if (
        rank == 2 and other == 3 and higher not in FLOAT8
    ):  # the width stays; there are no complex numbers of 16-bit floats
        return _COMPLEX128 if higher == _FLOAT64 else _COMPLEX64
    if (rank >= 2 and other < 3) or rank == 3 or (rank == 1 and other <= 1):
        return higher
    return promote(higher, lower)


def with_number(dtype: np.dtype[Any], number: Any) -> np.dtype[Any]:
    """The dtype in which an array of a dtype and a Python number meet."""
    if isinstance(number, bool):
        return dtype
    rank = category(dtype)
    if isinstance(number, int):
        return _INT64 if rank == 0 else dtype
    if isinstance(number, float):
        return _default if rank < 2 else dtype
    return combined(dtype, default_complex_dtype())


def number_dtype(number: Any) -> np.dtype[Any]:
    """The dtype of a tensor made of a Python number (note, rule 2)."""
    if isinstance(number, bool):
        return _BOOL
    if isinstance(number, int):
        return _INT64
    return _default if isinstance(number, float) else default_complex_dtype()
