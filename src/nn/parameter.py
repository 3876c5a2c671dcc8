"""Tensors that a module owns: parameters, which are learned, and buffers, which are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.tensor import Tensor
from ..memory import CPU, pool


class Parameter(Tensor):
    """A tensor that a `Module` registers by itself when it is assigned as an attribute.

    Args:
        data: the values; the parameter shares their memory. Without it the parameter is empty.
        requires_grad: whether gradients flow to it.

    Raises:
        TypeError: if ``data`` is no tensor.
        RuntimeError: if a gradient is asked for and ``data`` is neither floating point nor complex.

    Its memory moves to the category ``parameter``.

    >>> import stowgrad
    >>> Parameter(stowgrad.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        parameter: Parameter = _share(cls, data)
        parameter.requires_grad_(requires_grad)
        relabel(parameter, "parameter")
        return parameter

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Nothing is left to do: see ``__new__``."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that a `Module` registers as a buffer when it is assigned as an attribute.

    Args:
        data: the values; the buffer shares their memory.
        persistent: whether it belongs to the module's ``state_dict``.

    Its memory moves to the category ``buffer``.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        buffer: Buffer = _share(cls, data)
        buffer.persistent = persistent
        relabel(buffer, "buffer")
        return buffer

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        """Nothing is left to do: see ``__new__``."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        copy: Buffer = super().__deepcopy__(memo)
        copy.persistent = self.persistent
        return copy


def _share(cls: type[Tensor], data: Tensor | None) -> Any:
    """A leaf of class ``cls`` over the memory of ``data``."""
    if data is None:
        return cls._wrap(*pool(CPU).lease((0,), np.dtype(np.float32)))
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: expected a Tensor as data, got {type(data).__name__}")
    return cls._wrap(data._array, data._storage)


def relabel(tensor: Tensor, category: str) -> None:
    """Count the memory of a tensor under another category."""
    tensor._storage.pool.relabel(tensor._storage, category)
