"""How a tensor prints: like PyTorch's, through NumPy's array printing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..memory import CPU, META
from .ops.cast import copy_array_to

_USUAL = {np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)}


def tensor_text(tensor: Any) -> str:
    """``tensor([1., 2.], requires_grad=True)``."""
    array, device = tensor._array, tensor._storage.device
    notes = []
    if device is META:
        body = "..."
        notes.append(f"size={tuple(array.shape)}")
    else:
        values = array if device is CPU else copy_array_to(array, CPU, "temporary")[0]
        shown = values.astype(np.float32) if values.dtype.kind == "V" else values
        body = np.array2string(
            shown, separator=", ", prefix="tensor(", precision=4, threshold=1000, floatmode="maxprec"
        )
    if device is not CPU:
        notes.append(f"device='{device}'")
    if array.dtype not in _USUAL or (device is META):
        notes.append(f"dtype={array.dtype.name}")
    if tensor._grad_fn is not None:
        notes.append(f"grad_fn=<{tensor._grad_fn.name()}>")
    elif tensor._requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([body, *notes])})"
