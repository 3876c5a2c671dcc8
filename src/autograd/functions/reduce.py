"""Reductions, as functions: ``stowgrad.sum(x, dim=0)``."""

from __future__ import annotations

from typing import Any

from ..ops import elementwise
from ..ops import reduce as ops
from ..ops.reduce import Dims
from ..out import into

__all__ = ["all", "amax", "any", "argmax", "max", "mean", "sum"]


def sum(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The sum over dimensions, or over all."""
    return ops.sum(input, dim, keepdim) if out is None else into(out, ops.sum, input, dim, keepdim)


def mean(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The mean over dimensions, or over all."""
    return ops.mean(input, dim, keepdim) if out is None else into(out, ops.mean, input, dim, keepdim)


def amax(input: Any, dim: Dims = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The largest element over dimensions, or over all."""
    return ops.amax(input, dim, keepdim) if out is None else into(out, ops.amax, input, dim, keepdim)


def max(input: Any) -> Any:
    """The largest element of all."""
    return ops.amax(input)


def argmax(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The index of the largest element along a dimension, or in the flattened tensor."""
    return ops.argmax(input, dim, keepdim) if out is None else into(out, ops.argmax, input, dim, keepdim)


def all(input: Any) -> Any:
    """Whether all elements are true (not zero)."""
    return elementwise.eq(ops.sum(elementwise.eq(input, 0)), 0)


def any(input: Any) -> Any:
    """Whether any element is true (not zero)."""
    return elementwise.gt(ops.sum(elementwise.ne(input, 0)), 0)
