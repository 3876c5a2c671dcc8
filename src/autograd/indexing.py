"""``tensor[...]``: which indices are views, which are copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import storage_for_user
from .ops.shape import gather, index
from .variable import Variable

_BASIC = (int, slice, type(None), type(Ellipsis), np.integer)


def getitem(tensor: Any, key: Any) -> Any:
    """The elements that a key selects: a view for integers, slices, ``...`` and None, a copy for a tensor or list.

    Raises:
        IndexError: for a key out of range or of the wrong type.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if all(isinstance(part, _BASIC) and not isinstance(part, bool) for part in keys):
        return index(tensor, keys)
    if len(keys) == 1:
        return gather(tensor, as_indices(keys[0], tensor))
    raise IndexError(
        "indexing with a tensor together with other indices is not supported; index in two steps:"
        " basic indices first, then the tensor"
    )


def as_indices(key: Any, tensor: Any) -> Any:
    """An index tensor from a tensor, an array or a list.

    Raises:
        IndexError: for anything else.
    """
    if isinstance(key, Variable):
        return key
    if isinstance(key, list | np.ndarray):
        array = np.asarray(key)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind in "iub":
            return Variable._tensor_class._wrap(array, storage_for_user(array))
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and integer or bool tensors are valid indices"
        f" (got {type(key).__name__})"
    )


def plain_key(key: Any) -> Any:
    """A key with tensors replaced by their arrays: what NumPy takes."""
    if isinstance(key, tuple):
        return tuple(plain_key(part) for part in key)
    return key._array if isinstance(key, Variable) else key
