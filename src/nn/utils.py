"""Gradient clipping, and parameters as one vector."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable

import numpy as np

from ..autograd.creation import tensor as make_tensor
from ..autograd.grad_mode import no_grad
from ..autograd.ops.shape import cat
from ..autograd.tensor import Tensor
from ..kernels import backend


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale gradients in place so that their norm, as of one long vector, is at most ``max_norm``.

    Args:
        parameters: whose gradients are meant; those without one are left out.
        max_norm: the largest norm.
        norm_type: the p of the norm; ``inf`` for the largest absolute value.
        error_if_nonfinite: whether a norm that is infinite or no number is an error.

    Returns:
        The norm before clipping, a tensor without dimensions.

    Raises:
        RuntimeError: for a norm that is not finite, if asked for; no gradient was changed.

    Works tile by tile; the sums are added up in double precision, always in the same order.
    """
    gradients = _gradients(parameters)
    norm = total_norm(gradients, norm_type)
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be"
            " clipped. To scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    factor = float(max_norm) / (norm + 1e-6)
    if not factor >= 1.0:  # also for nan, as PyTorch does
        with np.errstate(invalid="ignore"):  # an infinite gradient times zero is nan, as PyTorch has it
            for gradient in gradients:
                backend(gradient.device.type).scale_(gradient._array, factor)
                gradient._storage.version += 1
    like = gradients[0] if gradients else None
    result: Tensor = make_tensor(norm) if like is None else make_tensor(norm, dtype=like.dtype, device=like.device)
    return result


def total_norm(gradients: list[Tensor], norm_type: float) -> float:
    """The p-norm of tensors, as of one long vector."""
    p = float(norm_type)
    if p == 2.0:
        return math.sqrt(sum(float(backend(g.device.type).sum_of_squares(g._array)) for g in gradients))
    with no_grad():
        if p == math.inf:
            return max((float(g.abs().amax().item()) for g in gradients if g.numel()), default=0.0)
        total: float = sum(float((g.abs() ** p).sum().item()) for g in gradients)
        return float(total ** (1.0 / p))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of the gradients in place to ``-clip_value`` to ``clip_value``."""
    bound = float(clip_value)
    for gradient in _gradients(parameters):
        kernels, array = backend(gradient.device.type), gradient._array
        kernels.minimum(array, bound, array)
        kernels.maximum(array, -bound, array)
        gradient._storage.version += 1


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    listed = list(parameters)
    if not listed and isinstance(parameters, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    return [parameter.grad for parameter in listed if parameter.grad is not None]


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
