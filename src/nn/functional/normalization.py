"""Normalisation of activations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...autograd import functions
from ...autograd.ops import norm, norm_response
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance over the last dimensions, then a scale and a shift.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: the sizes of the dimensions that are normalised.
        weight, bias: of the shape ``normalized_shape``, or None.
        eps: added to the variance.

    Raises:
        RuntimeError: if the shapes do not fit.
        TypeError: if ``normalized_shape`` is no sequence.

    Keeps the input and two numbers a row.
    """
    check_tensors("layer_norm", input=input)
    _check_shape("layer_norm", normalized_shape)
    result: Tensor = norm.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    return result


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Unit mean square over the last dimensions, then a scale.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: the sizes of the dimensions that are normalised.
        weight: of the shape ``normalized_shape``, or None.
        eps: added to the mean square; the dtype's machine epsilon if None.

    Raises:
        RuntimeError: if the shapes do not fit.
        TypeError: if ``normalized_shape`` is no sequence.

    Keeps the input and a number a row.
    """
    check_tensors("rms_norm", input=input)
    _check_shape("rms_norm", normalized_shape)
    result: Tensor = functions.rms_norm(input, normalized_shape, weight, eps)
    return result


def _check_shape(name: str, normalized_shape: Sequence[int]) -> None:
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints,"
            f" not {type(normalized_shape).__name__}"
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance of each channel over the batch and all places, then a scale and a shift.

    Args:
        input: ``(N, C, *)``.
        running_mean, running_var: ``(C,)``, or None: what stands for a batch's outside of training. In training they
            are moved in place towards the batch's mean and unbiased variance.
        weight, bias: ``(C,)``, or None.
        training: whether the batch's own mean and variance are taken.
        momentum: how far the running statistics move.
        eps: added to the variance.

    Raises:
        RuntimeError: if shapes or dtypes do not fit, or without running statistics outside of training.
        ValueError: in training, if a channel has only one value, or for an ``eps`` that is not positive.

    Keeps the input and two numbers a channel; outside of training the input only if the weight needs a gradient.
    """
    check_tensors("batch_norm", input=input)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if training:
        shape = input._array.shape
        _check_batch((shape[0], *shape[2:]), shape)
    if eps < 0.0 or (training and eps == 0.0):
        raise ValueError(
            f"batch_norm eps must be {'positive during training' if training else 'non-negative'}, got {eps}"
        )
    result: Tensor = functions.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return result


def _check_batch(sizes: Sequence[int], shape: Sequence[int]) -> None:
    if math.prod(sizes) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Zero mean and unit variance of each group of channels of each sample, then a scale and a shift a channel.

    Args:
        input: ``(N, C, *)``.
        num_groups: the number of groups; it divides C.
        weight, bias: ``(C,)``, or None.
        eps: added to the variance.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
        ValueError: if there is only one value a group, and one sample.

    Keeps the input and two numbers a group.
    """
    check_tensors("group_norm", input=input)
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    if num_groups > 0:
        shape = input._array.shape
        _check_batch((shape[0] * shape[1] // num_groups, *shape[2:]), shape)
    result: Tensor = functions.group_norm(input, num_groups, weight, bias, eps)
    return result


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance of each channel of each sample, then a scale and a shift.

    Args:
        input: ``(N, C, *)``.
        running_mean, running_var: ``(C,)``, or None: as for `batch_norm`; they are moved towards the samples' average.
        weight, bias: ``(C,)``, or None.
        use_input_stats: False to take the running statistics.
        momentum: how far the running statistics move.
        eps: added to the variance.

    Raises:
        RuntimeError: if shapes or dtypes do not fit, or without running statistics where they are to be taken.
        ValueError: if a channel has only one place.

    Keeps the input and two numbers for each channel of each sample.
    """
    check_tensors("instance_norm", input=input)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {list(input.shape)}")
    result: Tensor = functions.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )
    return result


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``input / (k + alpha * mean of input**2 over size channels around it) ** beta``.

    Args:
        input: ``(N, C, *)`` of at least 3 dimensions.
        size: the number of channels, those beyond the first and the last counted as 0.

    Raises:
        RuntimeError: if ``size`` is not positive.
        ValueError: for an input of fewer dimensions.

    Keeps the input.
    """
    check_tensors("local_response_norm", input=input)
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if size < 1:
        raise RuntimeError(f"local_response_norm: size should be greater than zero, but got {size}")
    if input.numel() == 0:
        return input
    result: Tensor = norm_response.local_response_norm(input, size, alpha, beta, k)
    return result


def normalize(
    input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input / max(norm(input, p), eps)`` along a dimension.

    Args:
        input: of any shape.
        p: the exponent of the norm.
        dim: the dimension, or several.
        eps: the least divisor.
        out: where to write the result; there is no gradient then.

    Raises:
        IndexError: if there is no such dimension.

    Keeps the input and numbers of the norm's shape.
    """
    check_tensors("normalize", input=input)
    divisor = input.norm(p, dim, keepdim=True).clamp_min(eps)
    result: Tensor = functions.div(input, divisor) if out is None else functions.div(input, divisor, out=out)
    return result
