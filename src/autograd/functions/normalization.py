"""Normalisation, as functions that PyTorch has at the top level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..grad_mode import no_grad
from ..ops import norm as rows
from ..ops import norm_channels as channels
from ..ops.elementwise import add, div, gt, mul, reciprocal, rsqrt, square, sub, where
from ..ops.reduce import mean
from ..out import into
from ..recomputing import update_state
from ..record import normalize_dim
from .linear_algebra.norms import vector_norm

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "norm_except_dim",
    "renorm",
    "rms_norm",
]


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """`stowgrad.nn.functional.layer_norm`; the last argument is there for PyTorch's sake."""
    return rows.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """`layer_norm`, and mean and reciprocal standard deviation of the rows, which have no gradient."""
    shape = tuple(normalized_shape)
    result, mu, rstd = rows.native_layer_norm(input, shape, weight, bias, eps)
    sizes = (*input.shape[: input.dim() - len(shape)], *(1,) * len(shape))
    return result, mu.detach().reshape(sizes), rstd.detach().reshape(sizes)


def rms_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    """Unit mean square over the last dimensions, then a scale; ``eps`` is the dtype's machine epsilon if it is None.

    Raises:
        RuntimeError: if the shapes do not fit.

    Keeps the input and a number a row.
    """
    dtype = input._array.dtype
    if eps is None:
        eps = float(np.finfo(dtype).eps) if dtype.kind == "f" else 2.0**-7
    return rows.rms_norm(input, tuple(normalized_shape), weight, eps)


# -- channels ----------------------------------------------------------------------------------------------------------


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`stowgrad.nn.functional.batch_norm`; the last argument is there for PyTorch's sake."""
    if not input._array.size:  # no statistics, and the running ones stay
        _check_running(input, running_mean, running_var, training)
        result = input.clone()
        result = result if weight is None else mul(result, weight[:1])
        return result if bias is None else add(result, bias[:1])
    _check_running(input, running_mean, running_var, training)
    if not training:
        return channels.batch_norm_given(input, weight, bias, running_mean, running_var, eps)[0]
    result, mu, variance = channels.batch_norm(input, weight, bias, eps)
    _update(running_mean, running_var, mu, variance, input._array.size // max(mu._array.size, 1), momentum)
    return result


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """`batch_norm`, and mean and reciprocal standard deviation of the channels, which have no gradient.

    Outside of training these two are empty.

    Raises:
        RuntimeError: if shapes or dtypes do not fit, or if there are no running statistics outside of training.
    """
    _check_running(input, running_mean, running_var, training)
    if not training:
        result = channels.batch_norm_given(input, weight, bias, running_mean, running_var, eps)[0]
        return result, result.detach().reshape(-1)[:0], result.detach().reshape(-1)[:0]
    result, mu, variance = channels.batch_norm(input, weight, bias, eps)
    _update(running_mean, running_var, mu, variance, input._array.size // max(mu._array.size, 1), momentum)
    with no_grad():
        return result, mu.detach(), rsqrt(add(variance.detach(), float(eps)))


def _check_running(input: Any, running_mean: Any, running_var: Any, training: bool) -> None:
    for name, numbers in (("running_mean", running_mean), ("running_var", running_var)):
        if numbers is None:
            if not training:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        elif input.dim() > 1 and tuple(numbers.shape) != (input.shape[1],):
            raise RuntimeError(f"{name} should contain {input.shape[1]} elements not {numbers.numel()}")


def _update(running_mean: Any, running_var: Any, mu: Any, variance: Any, count: int, momentum: float) -> None:
    """Move the running statistics towards those of a batch; the variance towards the unbiased one."""
    if running_mean is None and running_var is None:
        return
    with no_grad():
        mu, variance = mu.detach(), variance.detach()
        update_state(lambda: _move(running_mean, running_var, mu, variance, count, momentum))


def _move(running_mean: Any, running_var: Any, mu: Any, variance: Any, count: int, momentum: float) -> None:
    unbiased = count / (count - 1) if count != 1 else float("nan")
    moves = [(running_mean, mu, momentum), (running_var, variance, unbiased * momentum)]
    steps = [(running, mul(found, share)) for running, found, share in moves if running is not None]  # before any moves
    for running, step in steps:
        running.mul_(1 - momentum).add_(step)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Any:
    """`stowgrad.nn.functional.group_norm`; the last argument is there for PyTorch's sake."""
    return channels.group_norm(input, num_groups, weight, bias, eps)[0]


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """`group_norm`, and mean and reciprocal standard deviation of the groups, ``(N, group)``, with gradients.

    Args:
        input: ``(N, C, *)`` with ``HxW`` elements in each channel.
    """
    result = channels.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps)[0].reshape(tuple(input.shape))
    parts = input.reshape(N, group, C // group * HxW)
    mu = mean(parts, (2,), True)
    variance = mean(square(sub(parts, mu)), (2,), False)
    return result, mu.reshape(N, group), rsqrt(add(variance, float(eps)))


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`stowgrad.nn.functional.instance_norm`; the last argument is there for PyTorch's sake."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return channels.batch_norm_given(input, weight, bias, running_mean, running_var, eps)[0]
    result, mu, variance = channels.group_norm(input, input.shape[1], weight, bias, eps)
    if running_mean is not None or running_var is not None:
        with no_grad():
            count = input.numel() // max(mu.numel(), 1)
            mu, variance = (mean(value.detach(), (0,), False) for value in (mu, variance))
            _update(running_mean, running_var, mu, variance, count, momentum)
    return result


# -- weights -----------------------------------------------------------------------------------------------------------


def renorm(input: Any, p: float, dim: int, maxnorm: float, *, out: Any = None) -> Any:
    """Each slice along a dimension, scaled down to a norm of ``maxnorm`` if its own is larger.

    Args:
        input: of at least 2 dimensions.
        p: the exponent of the norm.
        dim: the dimension that tells the slices apart.
        maxnorm: the largest norm.

    Raises:
        IndexError: if there is no such dimension.
        RuntimeError: if ``p`` is not positive, ``maxnorm`` negative, or the input has fewer dimensions.

    Keeps the input and two numbers a slice.
    """
    if out is not None:
        return into(out, renorm, input, p, dim, maxnorm)
    ndim = input.dim()
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got {p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {ndim} dimensions")
    dim = normalize_dim("renorm", dim, ndim)
    found = vector_norm(input, p, tuple(d for d in range(ndim) if d != dim), keepdim=True)
    scale = where(gt(found, maxnorm), mul(reciprocal(add(found, 1e-7)), maxnorm), 1.0)
    return mul(input, scale)


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all dimensions but one, which stays with the others of size 1; over all for ``dim=-1``."""
    if dim == -1:
        return vector_norm(v, pow)
    return vector_norm(v, pow, tuple(d for d in range(v.dim()) if d != dim), keepdim=True)


def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """``v`` with the norms ``g`` over all dimensions but one.

    Source: Salimans and Kingma, Weight Normalization, 2016.
    """
    return mul(v, div(g, norm_except_dim(v, 2, dim)))
