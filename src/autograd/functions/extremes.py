"""The larger and the smaller of two, and values held between bounds."""

from __future__ import annotations

from typing import Any

from ..ops import extremes as ops
from ..out import into
from ..queries import check_tensors as _check_tensors
from .complex import view_as_complex, view_as_real

__all__ = [
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "fmax",
    "fmin",
    "maximum",
    "minimum",
    "nan_to_num",
]


def maximum(input: Any, other: Any, *, out: Any = None) -> Any:
    """The larger of two, NaN if one is; equal ones get half of the gradient each. Two bits an element are kept."""
    return ops.maximum(input, other) if out is None else into(out, ops.maximum, input, other)


def minimum(input: Any, other: Any, *, out: Any = None) -> Any:
    """The smaller of two, NaN if one is; equal ones get half of the gradient each. Two bits an element are kept."""
    return ops.minimum(input, other) if out is None else into(out, ops.minimum, input, other)


def fmax(input: Any, other: Any, *, out: Any = None) -> Any:
    """The larger of two, of those that are not NaN. One bit an element is kept."""
    return ops.fmax(input, other) if out is None else into(out, ops.fmax, input, other)


def fmin(input: Any, other: Any, *, out: Any = None) -> Any:
    """The smaller of two, of those that are not NaN. One bit an element is kept."""
    return ops.fmin(input, other) if out is None else into(out, ops.fmin, input, other)


def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """Elements held between ``min`` and ``max``: both numbers or both tensors, of which one may be None.

    With numbers one bit an element is kept for backward, with tensors two. At a bound the gradient passes.

    Raises:
        TypeError: for a number beside a tensor.
        RuntimeError: if both are None.
    """
    op = bounded(min, max)
    return op(input, min, max) if out is None else into(out, op, input, min, max)


def bounded(min: Any, max: Any) -> Any:
    """The op that holds elements between such bounds."""
    given = [bound for bound in (min, max) if bound is not None]
    tensors = [hasattr(bound, "_array") for bound in given]
    if not given:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    if all(tensors):
        return ops.clamp_between
    if any(tensors):
        raise TypeError("clamp: min and max must both be numbers or both be Tensors, got one of each")
    return ops.clamp


def clamp_min(input: Any, min: Any, *, out: Any = None) -> Any:
    """Elements that are not smaller than ``min``, a number or a tensor."""
    _check_tensors("clamp_min", input=input)
    return clamp(input, min, None, out=out)


def clamp_max(input: Any, max: Any, *, out: Any = None) -> Any:
    """Elements that are not larger than ``max``, a number or a tensor."""
    _check_tensors("clamp_max", input=input)
    return clamp(input, None, max, out=out)


def clip(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """`clamp`."""
    return clamp(input, min, max, out=out)


def nan_to_num(
    input: Any, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None, *, out: Any = None
) -> Any:
    """Elements with NaN and infinities replaced; None stands for 0 and the largest finite numbers."""
    numbers = (nan, posinf, neginf)
    if input._array.dtype.kind == "c":  # both parts
        parts = nan_to_num(view_as_real(input), *numbers, out=None if out is None else view_as_real(out))
        return view_as_complex(parts) if out is None else out
    return ops.nan_to_num(input, *numbers) if out is None else into(out, ops.nan_to_num, input, *numbers)
