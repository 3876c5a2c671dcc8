"""State dicts of any kind as JSON, with their tensors beside it.

NOTE [ What stands for what ]
1. Numbers, texts, booleans, None, lists, and dicts whose names are texts: themselves.
2. A tensor: ``{"$tensor": name}``, and the tensor under that name. A tuple: ``{"$tuple": [...]}``. Any other dict:
   ``{"$dict": [[key, value], ...]}``; JSON would turn its keys into texts.
3. Numbers of NumPy's come back as Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..autograd.tensor import Tensor

_TENSOR, _TUPLE, _DICT = "$tensor", "$tuple", "$dict"
_PLAIN = (str, int, float, bool, type(None))


def pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """A value as JSON can hold it.

    Args:
        value: a state, or a part of one.
        path: how it is called; names of tensors begin with that.
        tensors: gets the tensors.

    Raises:
        TypeError: for anything that is none of the above; it is named.
    """
    if isinstance(value, Tensor):
        return {_TENSOR: _add(value, path, tensors)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        parts = [pack(part, f"{path}.{number}", tensors) for number, part in enumerate(value)]
        return parts if isinstance(value, list) else {_TUPLE: parts}
    if isinstance(value, Mapping):
        return _packed_dict(value, path, tensors)
    raise TypeError(
        f"{path}: {type(value).__name__} is not JSON serializable; a training state holds tensors, numbers, texts,"
        " None, and lists, tuples and dicts of them"
    )


def _add(tensor: Tensor, path: str, tensors: dict[str, Tensor]) -> str:
    name = path
    while name in tensors:  # a key may have a dot in it
        name += "'"
    tensors[name] = tensor
    return name


def _packed_dict(value: Mapping[Any, Any], path: str, tensors: dict[str, Tensor]) -> Any:
    for key in value:
        if not isinstance(key, _PLAIN):
            raise TypeError(f"{path}: expected texts and numbers as keys, got {type(key).__name__} {key!r}")
    packed = {key: pack(part, f"{path}.{key}", tensors) for key, part in value.items()}
    if all(isinstance(key, str) and not key.startswith("$") for key in packed):
        return packed
    return {_DICT: [[key, part] for key, part in packed.items()]}


def unpack(packed: Any, tensor: Callable[[str], Tensor]) -> Any:
    """What `pack` was given.

    Args:
        packed: what it returned.
        tensor: gives the tensor of a name.

    Raises:
        ValueError: for something that `pack` does not make.
    """
    if isinstance(packed, list):
        return [unpack(part, tensor) for part in packed]
    if not isinstance(packed, dict):
        return packed
    if not any(key.startswith("$") for key in packed):
        return {key: unpack(part, tensor) for key, part in packed.items()}
    (kind, inner), *rest = packed.items()
    if not rest and kind == _TENSOR and isinstance(inner, str):
        return tensor(inner)
    if not rest and kind == _TUPLE and isinstance(inner, list):
        return tuple(unpack(part, tensor) for part in inner)
    if not rest and kind == _DICT and isinstance(inner, list):
        return {key: unpack(part, tensor) for key, part in inner}
    raise ValueError(f"expected a state as it was saved, got {packed!r}")
