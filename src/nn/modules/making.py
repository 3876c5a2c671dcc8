"""What constructors of modules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...autograd.creation import empty
from ...memory import DeviceLike
from ..parameter import Parameter

Sizes: TypeAlias = int | Sequence[int]


def new_parameter(shape: Sequence[int], device: DeviceLike | None, dtype: Any) -> Parameter:
    """A parameter that is still to be filled."""
    return Parameter(empty(tuple(shape), device=device, dtype=dtype))


def repeated(value: Any, count: int) -> tuple[Any, ...]:
    """A tuple as it is, or one of a number as often as needed."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * count
