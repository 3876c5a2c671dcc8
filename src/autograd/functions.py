"""Ops as functions of the top level: ``stowgrad.exp(x)``, ``stowgrad.cat([x, y])``."""

from __future__ import annotations

from typing import Any

from .ops import activation, elementwise, linalg, reduce, shape
from .ops.reduce import Dims

abs = elementwise.abs
cos = elementwise.cos
erf = activation.erf
exp = elementwise.exp
log = elementwise.log
matmul = linalg.matmul
maximum = elementwise.maximum
minimum = elementwise.minimum
relu = activation.relu
sigmoid = activation.sigmoid
sin = elementwise.sin
sqrt = elementwise.sqrt
tanh = activation.tanh
where = elementwise.where
cat = shape.cat


def sum(input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The sum over dimensions, or over all."""
    return reduce.sum(input, dim, keepdim)


def mean(input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The mean over dimensions, or over all."""
    return reduce.mean(input, dim, keepdim)


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index of the largest element along a dimension, or in the flattened tensor."""
    return reduce.argmax(input, dim, keepdim)


def softmax(input: Any, dim: int) -> Any:
    """Soft-max along a dimension."""
    return reduce.softmax(input, dim)


def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape along a new dimension."""
    parts = [tensor.unsqueeze(dim) for tensor in tensors]
    if not parts:
        raise RuntimeError("stack: expected a non-empty list of Tensors")
    return shape.cat(parts, dim)
