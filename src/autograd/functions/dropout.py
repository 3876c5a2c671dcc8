"""Dropout of elements and of whole channels, as functions that PyTorch has at the top level."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ..inplace import op_
from ..ops import dropout as ops
from ..ops.activation import mask_of_bits
from ..ops.activation_lines import drawn
from ..ops.elementwise import add, gt, mul, where
from ..random import Generator
from ..variable import Variable

__all__ = [
    "alpha_dropout",
    "alpha_dropout_",
    "dropout",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "native_dropout",
]


def dropout(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        input: of any shape.
        p: the probability.
        train: False to return the input itself.
        generator: where the numbers come from; the default generator if None.

    Raises:
        RuntimeError: if ``p`` is not between 0 and 1.

    Keeps one bit an element.
    """
    return ops.dropout(input, p, generator) if _drops("dropout", input, p, train) else input


def dropout_(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """`dropout` in place."""
    if not _drops("dropout", input, p, train):
        return input
    return op_(ops.dropout, 0, input, float(p), *drawn(input._array.size, generator))


def alpha_dropout(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """Dropout for selu: elements become what selu tends to on the left, and mean and variance stay.

    Arguments and errors are those of `dropout`. Keeps one bit an element.
    """
    if not _drops("alpha_dropout", input, p, train):
        return input
    if p == 1:
        return mul(input, 0.0)
    return ops.alpha_dropout(input, float(p), *drawn(input._array.size, generator))


def alpha_dropout_(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """`alpha_dropout` in place."""
    if not _drops("alpha_dropout", input, p, train):
        return input
    if p == 1:
        return input.mul_(0.0)
    return op_(ops.alpha_dropout, 0, input, float(p), *drawn(input._array.size, generator))


def feature_dropout(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """`dropout` of whole channels ``input[n, c]``, for at least 2 dimensions. Keeps a number a channel."""
    if not _drops("feature_dropout", input, p, train):
        return input
    return mul(input, ops.dropout(_features("feature_dropout", input), p, generator))


def feature_dropout_(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """`feature_dropout` in place."""
    if not _drops("feature_dropout", input, p, train):
        return input
    return input.mul_(ops.dropout(_features("feature_dropout", input), p, generator))


def feature_alpha_dropout(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """`alpha_dropout` of whole channels. Keeps a number a channel."""
    if not _drops("feature_alpha_dropout", input, p, train):
        return input
    if p == 1:
        return mul(input, 0.0)
    scale, shift = _alpha_features(input, p, generator)
    return add(mul(input, scale), shift)


def feature_alpha_dropout_(input: Any, p: float, train: bool, *, generator: Generator | None = None) -> Any:
    """`feature_alpha_dropout` in place."""
    if not _drops("feature_alpha_dropout", input, p, train):
        return input
    if p == 1:
        return input.mul_(0.0)
    scale, shift = _alpha_features(input, p, generator)
    return input.mul_(scale).add_(shift)


def native_dropout(input: Any, p: float, train: bool | None, *, generator: Generator | None = None) -> tuple[Any, Any]:
    """`dropout`, and a mask that is True where elements are kept.

    Outside of training the first result is a copy of the input, and all are kept.
    """
    if not _drops("native_dropout", input, 0.5, train in (True, None)):
        return input.clone(), _ones(input, tuple(input.shape), np.dtype(bool))
    result, bits = ops.native_dropout(input, p, generator)
    return result, mask_of_bits(bits, tuple(input.shape), np.dtype(bool))


def _drops(name: str, input: Any, p: float, train: bool) -> bool:
    """Whether anything is dropped.

    Raises:
        RuntimeError: if the probability is out of range.
    """
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")
    return bool(train) and p > 0 and input._array.size > 0


def _features(name: str, input: Any) -> Any:
    """A one for each channel, in a shape that broadcasts to the input's."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"{name}: Feature dropout requires at least 2 dimensions in the input, got {list(shape)}")
    return _ones(input, (*shape[:2], *(1,) * (len(shape) - 2)), input._array.dtype)


def _ones(like: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    array, storage = like._storage.pool.lease(shape, dtype, "activation")
    if storage.device.type != "meta":
        backend(storage.device.type).fill(array, 1)
    return Variable._tensor_class._wrap(array, storage)


def _alpha_features(input: Any, p: float, generator: Generator | None) -> tuple[Any, Any]:
    """What each channel is scaled and shifted by."""
    scale, shift, dropped = ops.alpha_numbers(p)
    kept = gt(ops.dropout(_features("feature_alpha_dropout", input), p, generator), 0.0)
    dtype = input.dtype
    return where(kept, scale, 0.0).to(dtype), where(kept, shift, dropped).to(dtype)
