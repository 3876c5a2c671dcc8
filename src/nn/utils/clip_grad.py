"""Gradient clipping."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable

import numpy as np

from ...autograd.creation import tensor as make_tensor
from ...autograd.frames import user_level
from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ...kernels import backend


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their norm, as of one long vector, is at most ``max_norm``.

    Args:
        parameters: whose gradients are meant; those without one are left out.
        max_norm: the largest norm.
        norm_type: the p of the norm; ``inf`` for the largest absolute value.
        error_if_nonfinite: whether a norm that is infinite or no number is an error.
        foreach: taken for PyTorch's sake.

    Returns:
        The norm before clipping, a tensor without dimensions.

    Raises:
        RuntimeError: for a norm that is not finite, if asked for; no gradient was changed.

    Works tile by tile; the sums are added up in double precision, always in the same order.
    """
    gradients = _gradients(parameters)
    norm = _checked_norm(gradients, norm_type, error_if_nonfinite)
    _scale(gradients, max_norm, norm)
    return _as_tensor(norm, gradients)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of tensors, as of one long vector; the arguments are those of `clip_grad_norm_`.

    Raises:
        RuntimeError: for a norm that is not finite, if asked for.
    """
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _as_tensor(_checked_norm(listed, norm_type, error_if_nonfinite), listed)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place by ``max_norm / total_norm`` if that is below 1, for a norm known from elsewhere."""
    _scale(_gradients(parameters), max_norm, float(total_norm.item()))


def _checked_norm(tensors: list[Tensor], norm_type: float, error_if_nonfinite: bool) -> float:
    norm = total_norm(tensors, norm_type)
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be"
            " clipped. To scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return norm


def _as_tensor(norm: float, tensors: list[Tensor]) -> Tensor:
    like = tensors[0] if tensors else None
    result: Tensor = make_tensor(norm) if like is None else make_tensor(norm, dtype=like.dtype, device=like.device)
    return result


def _scale(gradients: list[Tensor], max_norm: float, norm: float) -> None:
    factor = float(max_norm) / (norm + 1e-6)
    if not factor >= 1.0:  # also for nan, as PyTorch does
        with np.errstate(invalid="ignore"):  # an infinite gradient times zero is nan, as PyTorch has it
            for gradient in gradients:
                backend(gradient.device.type).scale_(gradient._array, factor)
                gradient._storage.version += 1


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


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
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
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=user_level())
    for parameter in listed:
        hooks = (parameter._meta.post_hooks if parameter._meta is not None else None) or {}
        if parameter.grad is None and any(getattr(hook, "frees_gradient", False) for hook in hooks.values()):
            raise RuntimeError(
                "gradients cannot be clipped after backward: optim.in_backward has used and freed them there; give it"
                " max_norm, and call handle.backward(loss)"
            )
    return [parameter.grad for parameter in listed if parameter.grad is not None]
