"""Memory of other libraries as tensors, through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import Tensor
from ..autograd.protocols import constant

__all__ = ["from_dlpack"]

_CPU = 1


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor over the memory of another library's array, which has ``__dlpack__`` and ``__dlpack_device__``.

    The memory is counted under category input for as long as a tensor looks at it. A tensor of stowgrad's own comes
    back detached, over the same memory.

    Raises:
        TypeError: for what does not speak DLPack.
        BufferError: for memory that is not the CPU's.

    >>> import numpy as np, stowgrad
    >>> array = np.arange(3.0)
    >>> stowgrad.from_dlpack(array).mul_(2)
    tensor([0., 2., 4.], dtype=float64)
    >>> array
    array([0., 2., 4.])
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise TypeError(f"from_dlpack(): expected an object with __dlpack__, got {type(ext_tensor).__name__}")
    kind, _ = ext_tensor.__dlpack_device__()
    if int(kind) != _CPU:
        raise BufferError(f"from_dlpack(): expected memory of the CPU (DLPack device type 1), got type {int(kind)}")
    return constant(np.from_dlpack(ext_tensor))
