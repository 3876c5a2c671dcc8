"""From samples to batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...autograd.creation import as_tensor, tensor
from ...autograd.functions import stack
from ...autograd.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as a batch: tensors, arrays and numbers are stacked, tuples, lists and dicts are gone into.

    Args:
        batch: samples of one structure.

    Raises:
        TypeError: for samples of another kind.
        RuntimeError: for lists of different lengths, and tensors of different shapes.

    >>> default_collate([(1, {"a": 2.0}), (3, {"a": 4.0})])
    [tensor([1, 3]), {'a': tensor([2., 4.], dtype=float64)}]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch, 0)
    if isinstance(first, np.ndarray | np.generic):
        return _of_arrays(batch)
    if isinstance(first, float):
        return tensor(batch, dtype=np.dtype(np.float64))
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(parts) for parts in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(parts) for parts in zip(*batch, strict=True)]
        return parts if isinstance(first, tuple) else _like(first, parts)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


def default_convert(data: Any) -> Any:
    """A sample with tensors in place of arrays: what batches are without batching."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        return as_tensor(data) if data.dtype.kind not in "SUO" else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _like(data, [default_convert(value) for value in data])
    return data


def _of_arrays(batch: Sequence[Any]) -> Any:
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise TypeError(
            f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {first.dtype}"
        )
    if isinstance(first, np.generic) or first.ndim == 0:
        return as_tensor(np.asarray(batch, first.dtype))
    return stack([as_tensor(sample) for sample in batch], 0)


def _like(sample: Any, content: Any) -> Any:
    """The content as what the sample is, if that can be made of it."""
    if type(sample) in (dict, list):
        return content
    try:
        if isinstance(sample, Mapping) and hasattr(sample, "update"):
            clone = copy.copy(sample)
            clone.update(content)
            return clone
        return type(sample)(content)
    except TypeError:
        return content
