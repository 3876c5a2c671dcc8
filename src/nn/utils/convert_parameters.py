"""Parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable

from ...autograd.grad_mode import no_grad
from ...autograd.ops.shape import cat
from ...autograd.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, in one new vector.

    Raises:
        RuntimeError: if they are on different devices, or there are none.
    """
    result: Tensor = cat([parameter.reshape(-1) for parameter in parameters], 0)
    return result


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write consecutive parts of a vector into parameters; the vector's memory is not shared.

    Raises:
        TypeError: if ``vec`` is no tensor.
        ValueError: if the vector has another number of elements than the parameters; nothing was written.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    listed = list(parameters)
    needed = sum(parameter.numel() for parameter in listed)
    if vec.numel() != needed:
        raise ValueError(f"the vector has {vec.numel()} elements, the parameters have {needed}")
    begin = 0
    with no_grad():
        for parameter in listed:
            end = begin + parameter.numel()
            parameter.copy_(vec[begin:end].reshape(tuple(parameter.shape)))
            begin = end
