"""Pooling, as functions of the top level; `stowgrad.nn.functional` has the others."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

from ..ops import pooling as ops
from ..ops.axis_maps import Adaptive, Windows
from ..ops.convolution import numbers
from ..ops.interpolation import adaptive_avg_pool, avg_pool
from ..ops.promotion import check_floating
from ..ops.reduce import mean
from ..whole import apply_alone

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "avg_pool1d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

Sizes: TypeAlias = int | tuple[int, ...] | list[int]


def max_pool1d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window over one dimension; as `max_pool2d`."""
    return pooled_max("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool2d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window over two dimensions.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size, stride, padding, dilation: one number, or one for each dimension; the stride is the kernel's size
            by default. Padding is never the largest.
        ceil_mode: whether there are windows that reach beyond the end.

    Raises:
        RuntimeError: if sizes do not fit.

    Keeps the place of the largest element in each window, in the smallest type that can: a byte mostly.

    >>> import stowgrad
    >>> stowgrad.max_pool2d(stowgrad.arange(16.0).reshape(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """
    return pooled_max("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool3d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window over three dimensions; as `max_pool2d`."""
    return pooled_max("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def avg_pool1d(
    input: Any,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window over one dimension.

    Args:
        input: ``(N, C, L)`` or ``(C, L)``.
        kernel_size, stride, padding: of the windows; the stride is the kernel's size by default.
        ceil_mode: whether there are windows that reach beyond the end.
        count_include_pad: whether a mean is over the padding too.

    Raises:
        RuntimeError: if sizes do not fit.

    Keeps nothing but sizes.
    """
    return pooled_mean("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def adaptive_avg_pool1d(input: Any, output_size: Sizes) -> Any:
    """The means of a given number of windows over one dimension. Keeps nothing but sizes."""
    return adaptive_mean("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_max_pool1d(input: Any, output_size: Sizes) -> Any:
    """The largest elements of a given number of windows over one dimension, and their numbers.

    Keeps the numbers, in the smallest type that can.
    """
    return adaptive_max("adaptive_max_pool1d", 1, input, output_size)


# -- for any number of dimensions --------------------------------------------------------------------------------------


def spatial(name: str, dims: int, input: Any) -> tuple[int, ...]:
    """The last sizes of an input with or without the dimension of samples.

    Raises:
        TypeError: if it is no tensor.
        RuntimeError: if it has other than ``dims`` + 1 or ``dims`` + 2 dimensions, or no channels or places.
    """
    if not hasattr(input, "_array"):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    shape: tuple[int, ...] = input._array.shape
    if len(shape) not in (dims + 1, dims + 2) or 0 in shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size for input,"
            f" but got: {list(shape)}"
        )
    return shape[-dims:]


@functools.lru_cache(maxsize=128)
def counts(
    name: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> tuple[int, ...]:
    """How many windows there are along each dimension.

    Raises:
        RuntimeError: if there are none, or padding is more than half of a window.
    """
    found = []
    for length, places, step, pad, spread in zip(size, kernel, stride, padding, dilation, strict=True):
        reach = spread * (places - 1) + 1
        if pad > reach // 2:
            raise RuntimeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={pad},"
                f" kernel_size={places} and dilation={spread}"
            )
        count = (length + 2 * pad - reach + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (count - 1) * step >= length + pad:
            count -= 1
        found.append(count)
    if min(found) < 1:
        raise RuntimeError(
            f"{name}: Given input size per channel {list(size)}. Calculated output size per channel: {found}. Output"
            " size is too small"
        )
    return tuple(found)


def _window(name: str, dims: int, kernel_size: Any, stride: Any, padding: Any) -> tuple[tuple[int, ...], ...]:
    kernel = numbers(name, "kernel_size", kernel_size, dims, 1)
    default = stride is None or (isinstance(stride, tuple | list) and not stride)
    step = kernel if default else numbers(name, "stride", stride, dims, 1)
    return kernel, step, numbers(name, "padding", padding, dims, 0)


def pooled_max(name: str, dims: int, input: Any, *args: Any) -> tuple[Any, Any]:
    """The largest elements of windows and their places: kernel_size, stride, padding, dilation, ceil_mode."""
    kernel_size, stride, padding, dilation, ceil_mode = args
    size = spatial(name, dims, input)
    kernel, step, pad = _window(name, dims, kernel_size, stride, padding)
    spread = numbers(name, "dilation", dilation, dims, 1)
    if input._array.dtype == bool or input._array.dtype.kind == "c":
        raise NotImplementedError(f"{name}: not implemented for {input._array.dtype}")
    count = counts(name, size, kernel, step, pad, spread, ceil_mode)
    out, places = apply_alone(ops.max_pool, input, count, kernel, step, pad, spread)
    return out, places


def pooled_max_with_indices(name: str, dims: int, input: Any, *args: Any) -> tuple[Any, Any]:
    """The same with the numbers of the elements in their planes in place of the places."""
    kernel_size, stride, padding, dilation, _ = args
    out, places = pooled_max(name, dims, input, *args)
    kernel, step, pad = _window(name, dims, kernel_size, stride, padding)
    spread = numbers(name, "dilation", dilation, dims, 1)
    return out, ops.max_pool_indices(places, input._array.shape[-dims:], kernel, step, pad, spread)


def pooled_mean(name: str, dims: int, input: Any, *args: Any) -> Any:
    """Means over windows: kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override."""
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor = args
    size = spatial(name, dims, input)
    kernel, step, pad = _window(name, dims, kernel_size, stride, padding)
    check_floating(name, input._array.dtype)
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    rules = _means(name, size, kernel, step, pad, bool(ceil_mode), bool(count_include_pad), divisor)
    return apply_alone(avg_pool, input, rules, False)


@functools.lru_cache(maxsize=128)
def _means(
    name: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    ceil_mode: bool,
    padding_counts: bool,
    divisor: Any,
) -> tuple[Windows, ...]:
    """The rules of means over windows, one for each dimension."""
    count = counts(name, size, kernel, stride, padding, (1,) * len(size), ceil_mode)
    rules = []
    for axis, where in enumerate(zip(size, count, kernel, stride, padding, strict=True)):
        share = 0.0 if divisor is None else float(divisor if axis == 0 else 1)
        rules.append(Windows(*where, padding_counts, share))
    return tuple(rules)


def adaptive_counts(name: str, dims: int, size: tuple[int, ...], output_size: Any) -> tuple[int, ...]:
    """The sizes of a result, where None keeps one.

    Raises:
        RuntimeError: if one is negative, or there are too many or too few.
    """
    given = output_size if isinstance(output_size, tuple | list) else (output_size,) * dims
    if len(given) != dims:
        raise RuntimeError(f"{name}: output_size must have {dims} elements, but got {list(given)}")
    found = tuple(size[axis] if count is None else int(count) for axis, count in enumerate(given))
    if min(found) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0, but received {list(found)}"
        )
    return found


def adaptive_mean(name: str, dims: int, input: Any, output_size: Any) -> Any:
    """Means over a given number of windows."""
    size = spatial(name, dims, input)
    count = adaptive_counts(name, dims, size, output_size)
    check_floating(name, input._array.dtype)
    if all(results == 1 for results in count):
        return mean(input, tuple(range(-dims, 0)), True)
    rules = [Adaptive(*pair) if pair[0] != pair[1] else None for pair in zip(size, count, strict=True)]
    return apply_alone(adaptive_avg_pool, input, tuple(rules), False)


def adaptive_max(name: str, dims: int, input: Any, output_size: Any) -> tuple[Any, Any]:
    """The largest elements of a given number of windows, and their numbers in their planes."""
    size = spatial(name, dims, input)
    out, indices = ops.adaptive_max_pool(input, adaptive_counts(name, dims, size, output_size))
    return out, indices.long()
