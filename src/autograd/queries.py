"""What a tensor is: questions with a short answer, as functions; the methods are made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .variable import Variable


def _tensor(name: str, input: Any) -> Any:
    check_tensors(name, input=input)
    return input


def check_tensors(name: str, **arguments: Any) -> None:
    """Raise TypeError unless all arguments, given by their names, are tensors."""
    for argument, value in arguments.items():
        if not isinstance(value, Variable):
            raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}")


def dtype_of(name: str, input: Any) -> Any:
    """The dtype of a tensor, or a dtype itself.

    Raises:
        TypeError: for anything else.
    """
    return input if isinstance(input, np.dtype) else _tensor(name, input)._array.dtype


def numel(input: Any) -> int:
    """The number of elements."""
    return int(_tensor("numel", input)._array.size)


def is_nonzero(input: Any) -> bool:
    """Whether the only element is not 0.

    Raises:
        RuntimeError: if there is not exactly one.
    """
    if _tensor("is_nonzero", input)._array.size != 1:
        raise RuntimeError(f"Boolean value of Tensor with {input._array.size} values is ambiguous")
    return bool(input.item())


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return bool(_tensor("is_same_size", input)._array.shape == _tensor("is_same_size", other)._array.shape)


def is_signed(input: Any) -> bool:
    """Whether the dtype (a tensor's, or given as it is) has negative numbers."""
    return dtype_of("is_signed", input).kind not in "bu"


def is_conj(input: Any) -> bool:
    """Whether the conjugate is yet to be taken: never, it is taken at once here."""
    return _tensor("is_conj", input) is None


def is_neg(input: Any) -> bool:
    """Whether the negative is yet to be taken: never, it is taken at once here."""
    return _tensor("is_neg", input) is None


def is_inference(input: Any) -> bool:
    """Whether it was made in inference mode, or is a view of such a tensor."""
    return bool(_tensor("is_inference", input)._storage.is_inference)


def get_device(input: Any) -> int:
    """The index of the device, -1 for those of which there is only one."""
    index = _tensor("get_device", input)._storage.device.index
    return -1 if index is None else int(index)


def detach(input: Any) -> Any:
    """A leaf over the same memory and version, outside of the graph."""
    return _tensor("detach", input).detach()
