"""Pooling: the largest element, mean or norm of windows."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from ...autograd.creation import rand
from ...autograd.functions import pooling as plain
from ...autograd.functions.pooling import adaptive_avg_pool1d, avg_pool1d
from ...autograd.ops import pooling as ops
from ...autograd.ops.activation import relu
from ...autograd.ops.convolution import numbers
from ...autograd.ops.elementwise import abs, mul, pow, sign
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Sizes: TypeAlias = int | tuple[int, ...] | list[int]
OptionalSizes: TypeAlias = int | tuple[int | None, ...] | list[int | None] | None


# -- the largest element -----------------------------------------------------------------------------------------------


def _max_pool(name: str, dims: int, input: Tensor, return_indices: bool, *args: Any) -> Any:
    if return_indices:
        return plain.pooled_max_with_indices(name, dims, input, *args)
    return plain.pooled_max(name, dims, input, *args)[0]


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over one dimension; as `max_pool2d`."""
    return _max_pool("max_pool1d", 1, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size, stride, padding, dilation: one number, or one for each dimension; the stride is the kernel's size
            by default. Padding is never the largest.
        ceil_mode: whether there are windows that reach beyond the end.
        return_indices: whether to return the numbers of the elements in their planes too, for `max_unpool2d`.

    Raises:
        RuntimeError: if sizes do not fit.

    Keeps the place of the largest element in each window, in the smallest type that can: a byte mostly.
    """
    return _max_pool("max_pool2d", 2, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window over three dimensions; as `max_pool2d`."""
    return _max_pool("max_pool3d", 3, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def _adaptive_max(name: str, dims: int, input: Tensor, output_size: OptionalSizes, return_indices: bool) -> Any:
    out, indices = plain.adaptive_max(name, dims, input, output_size)
    return (out, indices) if return_indices else out


def adaptive_max_pool1d(input: Tensor, output_size: OptionalSizes, return_indices: bool = False) -> Any:
    """The largest elements of a given number of windows over one dimension; as `adaptive_max_pool2d`."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: OptionalSizes, return_indices: bool = False) -> Any:
    """The largest elements of a given number of windows over two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: the numbers of windows, one for both dimensions or one for each; None keeps a size.
        return_indices: whether to return the numbers of the elements in their planes too.

    Keeps those numbers, in the smallest type that can.
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: OptionalSizes, return_indices: bool = False) -> Any:
    """The largest elements of a given number of windows over three dimensions; as `adaptive_max_pool2d`."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)


def _fractional(
    name: str,
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: float | tuple[float, ...] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio, and not both")
    size = plain.spatial(name, dims, input)
    kernel = numbers(name, "kernel_size", kernel_size, dims, 1)
    if output_ratio is not None:
        ratios = output_ratio if isinstance(output_ratio, tuple | list) else (output_ratio,) * dims
        if len(ratios) != dims or not all(0.0 < ratio < 1.0 for ratio in ratios):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1 (exclusive), got {output_ratio}")
        output_size = [int(length * ratio) for length, ratio in zip(size, ratios, strict=True)]
    count = numbers(name, "output_size", output_size, dims, 1)
    for length, results, places in zip(size, count, kernel, strict=True):
        if results + places - (1 if dims == 2 else 0) > length:
            raise RuntimeError(f"{name}: pool size {places} too large relative to input size {length}")
    whole = input if input.dim() == dims + 2 else input.unsqueeze(0)
    batch = whole.shape[:2]
    if samples is None:
        samples = rand(*batch, dims, dtype=input.dtype, device=input.device)
    elif samples.dim() != 3 or samples.shape[0] < batch[0] or samples.shape[1] < batch[1] or samples.shape[2] != dims:
        raise RuntimeError(
            f"{name}: expected _random_samples of shape {[*batch, dims]} for that input, but got {list(samples.shape)}"
        )
    out, indices = ops.fractional_max_pool(whole, samples[: batch[0], : batch[1]], count, kernel)
    if whole is not input:
        out, indices = out.squeeze(0), indices.squeeze(0)
    return (out, indices.long()) if return_indices else out


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | tuple[float, float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows at random distances over two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: of the windows.
        output_size: the numbers of windows; or
        output_ratio: those numbers as a part of the input's sizes.
        return_indices: whether to return the numbers of the elements in their planes too.

    Raises:
        ValueError: if neither or both of ``output_size`` and ``output_ratio`` are given.
        RuntimeError: if sizes do not fit.

    Keeps those numbers, in the smallest type that can.
    """
    args = kernel_size, output_size, output_ratio, return_indices, _random_samples
    return _fractional("fractional_max_pool2d", 2, input, *args)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | tuple[float, float, float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows at random distances over three dimensions; as `fractional_max_pool2d`."""
    args = kernel_size, output_size, output_ratio, return_indices, _random_samples
    return _fractional("fractional_max_pool3d", 3, input, *args)


def _unpool(
    name: str,
    dims: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Any,
) -> Any:
    check_tensors(name, input=input, indices=indices)
    kernel = numbers(name, "kernel_size", kernel_size, dims)
    step = kernel if stride is None else numbers(name, "stride", stride, dims)
    pad = numbers(name, "padding", padding, dims)
    if indices.dtype.kind not in "iu" or indices.dtype.itemsize != 8:
        raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {indices.dtype}")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got"
            f" indices tensor with shape: {list(indices.shape)}"
        )
    size = plain.spatial(name, dims, input)
    plainest = tuple((size[d] - 1) * step[d] + kernel[d] - 2 * pad[d] for d in range(dims))
    result = plainest
    if output_size is not None:
        result = tuple(int(length) for length in output_size)
        if len(result) == dims + 2:
            result = result[2:]
        if len(result) != dims:
            raise ValueError(
                f"{name}: output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a"
                f" length of '{len(output_size)}'"
            )
        for d in range(dims):
            if not plainest[d] - step[d] < result[d] < plainest[d] + step[d]:
                raise ValueError(
                    f"{name}: invalid output_size {list(result)} (dim {d} must be between {plainest[d] - step[d]} and"
                    f" {plainest[d] + step[d]})"
                )
    return ops.max_unpool(input, indices, result)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Any:
    """Zeros with elements put where `max_pool1d` found them; as `max_unpool2d`."""
    return _unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Any:
    """Zeros with elements put where `max_pool2d` found them.

    Args:
        input: what was pooled, ``(N, C, H, W)`` or ``(C, H, W)``.
        indices: int64, of the same shape: what `max_pool2d` returned with ``return_indices=True``.
        kernel_size, stride, padding: those of the pooling.
        output_size: the size of what was pooled, where it does not follow from these.

    Raises:
        RuntimeError: if shapes do not fit, or an index is no element of the result.
        ValueError: if ``output_size`` is not possible.

    Keeps the indices.
    """
    return _unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Any = None,
) -> Any:
    """Zeros with elements put where `max_pool3d` found them; as `max_unpool2d`."""
    return _unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


# -- means and norms ---------------------------------------------------------------------------------------------------


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window over two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size, stride, padding: one number, or one for each dimension; the stride is the kernel's size by default.
        ceil_mode: whether there are windows that reach beyond the end.
        count_include_pad: whether a mean is over the padding too.
        divisor_override: what sums are divided by instead of the number of elements.

    Raises:
        RuntimeError: if sizes do not fit.

    Keeps nothing but sizes.
    """
    args = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return plain.pooled_mean("avg_pool2d", 2, input, *args)


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window over three dimensions; as `avg_pool2d`."""
    args = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return plain.pooled_mean("avg_pool3d", 3, input, *args)


def adaptive_avg_pool2d(input: Tensor, output_size: OptionalSizes) -> Any:
    """The means of a given number of windows over two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        output_size: the numbers of windows, one for both dimensions or one for each; None keeps a size.

    Keeps nothing but sizes.
    """
    return plain.adaptive_mean("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: OptionalSizes) -> Any:
    """The means of a given number of windows over three dimensions; as `adaptive_avg_pool2d`."""
    return plain.adaptive_mean("adaptive_avg_pool3d", 3, input, output_size)


def _lp_pool(
    name: str, dims: int, input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Any:
    kernel = numbers(name, "kernel_size", kernel_size, dims, 1)
    powers = pow(input, norm_type)
    means = plain.pooled_mean(name, dims, powers, kernel, stride, 0, ceil_mode, True, None)
    return pow(mul(mul(sign(means), relu(abs(means))), math.prod(kernel)), 1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Any:
    """The norm of each window over one dimension: ``sum(x ** norm_type) ** (1 / norm_type)``."""
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Any:
    """The norm of each window over two dimensions: ``sum(x ** norm_type) ** (1 / norm_type)``."""
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Any:
    """The norm of each window over three dimensions: ``sum(x ** norm_type) ** (1 / norm_type)``."""
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)
