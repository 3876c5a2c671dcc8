"""Classes as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.creation import zeros
from ...memory import META

__all__ = ["one_hot"]


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Vectors of int64 with a 1 at the number of a class and zeros elsewhere, in a new last dimension.

    Args:
        tensor: numbers of classes, int64.
        num_classes: one more than the largest number for -1.

    >>> import stowgrad
    >>> stowgrad.nn.functional.one_hot(stowgrad.tensor([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    numbers, device = tensor._array, tensor._storage.device
    if numbers.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not numbers.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return zeros(*numbers.shape, num_classes, dtype=np.int64, device=device)
    if device is META:
        if num_classes <= 0:
            raise NotImplementedError("one_hot: the number of classes must be given on the meta device")
        return zeros(*numbers.shape, num_classes, dtype=np.int64, device=device)
    if int(numbers.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    most = int(numbers.max())
    if num_classes < 0:
        num_classes = most + 1
    if num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    if most >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return zeros(*numbers.shape, num_classes, dtype=np.int64, device=device).scatter_(-1, tensor.unsqueeze(-1), 1)
