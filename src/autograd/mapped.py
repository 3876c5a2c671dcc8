"""Elements replaced by what a Python function makes of them, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..memory import CPU, pool
from .inplace import copy_
from .variable import Variable


def map_(name: str, target: Any, function: Callable[..., Any], *others: Any) -> Any:
    """Replace each element by ``function(element, *elements of the others)``; the others broadcast.

    Raises:
        RuntimeError: if one of the tensors requires grad.
        TypeError: if one is not on the CPU.
    """
    for tensor in (target, *others):
        if tensor.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
        if tensor._storage.device is not CPU:
            raise TypeError(f"{name} is only implemented on CPU tensors, got one on {tensor._storage.device}")
    array = target._array
    operands = [np.broadcast_to(tensor._array, array.shape).ravel().tolist() for tensor in (target, *others)]
    made = np.array([function(*numbers) for numbers in zip(*operands, strict=True)], array.dtype).reshape(array.shape)
    return copy_(target, Variable._tensor_class._wrap(made, pool(CPU).adopt(made, "temporary")))
