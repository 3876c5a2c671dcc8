"""Soft-max and its logarithm, as functions: ``stowgrad.softmax(x, dim=-1)``."""

from __future__ import annotations

from typing import Any

from ..ops import softmax as ops
from ..out import into

__all__ = ["log_softmax", "softmax"]


def softmax(input: Any, dim: int, dtype: Any = None, *, out: Any = None) -> Any:
    """``exp(x)`` over its sum along a dimension, computed without overflow; only the result is kept for backward."""
    return ops.softmax(input, dim, dtype) if out is None else into(out, ops.softmax, input, dim, dtype)


def log_softmax(input: Any, dim: int, dtype: Any = None, *, out: Any = None) -> Any:
    """The logarithm of `softmax`, computed without overflow; only the result is kept for backward."""
    return ops.log_softmax(input, dim, dtype) if out is None else into(out, ops.log_softmax, input, dim, dtype)
